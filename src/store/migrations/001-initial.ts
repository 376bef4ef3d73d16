/** The first schema (design §7). Its text never changes again; whatever comes later is a migration of its own. */
import type { Migration } from "./index.ts";

export const initial: Migration = {
  number: 1,
  name: "initial",
  sql: `
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  version TEXT NOT NULL,
  config_hash TEXT NOT NULL,
  pid INTEGER NOT NULL,
  host TEXT NOT NULL,
  started_at_ms INTEGER NOT NULL,
  heartbeat_at_ms INTEGER NOT NULL,
  ended_at_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_by_start ON runs (started_at_ms);

CREATE TABLE bots (
  bot_id INTEGER PRIMARY KEY,
  username TEXT,
  bound_at_ms INTEGER NOT NULL,
  next_offset INTEGER,
  poller_state TEXT NOT NULL DEFAULT 'stopped',
  last_completed_at_ms INTEGER,
  last_error TEXT
) STRICT;

CREATE TABLE contacts (
  contact_id INTEGER PRIMARY KEY,
  bot_id INTEGER NOT NULL REFERENCES bots (bot_id),
  user_id INTEGER NOT NULL,
  first_name TEXT,
  last_name TEXT,
  username TEXT,
  language TEXT,
  phone_given TEXT,
  phone_e164 TEXT,
  source_first TEXT,
  source_last TEXT,
  created_at_ms INTEGER NOT NULL,
  CONSTRAINT contact_is_one_person UNIQUE (bot_id, user_id)
) STRICT;
CREATE INDEX contacts_by_username ON contacts (username COLLATE NOCASE) WHERE username IS NOT NULL;
CREATE INDEX contacts_by_phone ON contacts (phone_e164) WHERE phone_e164 IS NOT NULL;

CREATE TABLE updates (
  event_key TEXT PRIMARY KEY,
  bot_id INTEGER NOT NULL REFERENCES bots (bot_id),
  update_id INTEGER,
  kind TEXT NOT NULL,
  chat_id INTEGER,
  user_id INTEGER,
  state TEXT NOT NULL CONSTRAINT update_state_known CHECK (state IN ('accepted', 'ignored', 'quarantined')),
  reason TEXT,
  received_at_ms INTEGER NOT NULL,
  -- How often the same bytes came again.
  redelivered INTEGER NOT NULL DEFAULT 0,
  -- The update as JSON text; NULL after retention.
  body TEXT,
  CONSTRAINT update_says_why CHECK (state = 'accepted' OR reason IS NOT NULL)
) STRICT;
CREATE INDEX updates_by_id ON updates (update_id);
CREATE INDEX updates_not_accepted ON updates (state) WHERE state <> 'accepted';
CREATE INDEX updates_quarantined ON updates (received_at_ms) WHERE state = 'quarantined';
CREATE INDEX updates_redelivered ON updates (redelivered) WHERE redelivered > 0;

CREATE TABLE operations (
  operation_id TEXT PRIMARY KEY,
  business_key TEXT NOT NULL CONSTRAINT operation_is_done_once UNIQUE,
  code TEXT NOT NULL,
  kind TEXT NOT NULL,
  action TEXT NOT NULL,
  bot_id INTEGER NOT NULL REFERENCES bots (bot_id),
  contact_id INTEGER REFERENCES contacts (contact_id),
  created_at_ms INTEGER NOT NULL,
  -- OperationInput as JSON; NULL after retention.
  input TEXT,
  -- The saved result that every repeat is answered with, as JSON.
  result TEXT
) STRICT;
CREATE INDEX operations_by_code ON operations (code);
CREATE INDEX operations_by_contact ON operations (contact_id);
CREATE INDEX operations_by_time ON operations (kind, created_at_ms);

CREATE TABLE operation_updates (
  operation_id TEXT NOT NULL REFERENCES operations (operation_id),
  event_key TEXT NOT NULL REFERENCES updates (event_key),
  -- NULL where the update took no message (an edit).
  message_identity TEXT CONSTRAINT message_belongs_to_one_operation UNIQUE,
  PRIMARY KEY (operation_id, event_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX operation_updates_by_event ON operation_updates (event_key);

CREATE TABLE job_transitions (
  from_state TEXT NOT NULL,
  to_state TEXT NOT NULL,
  PRIMARY KEY (from_state, to_state)
) STRICT, WITHOUT ROWID;
INSERT INTO job_transitions (from_state, to_state) VALUES
  ('blocked', 'pending'), ('blocked', 'failed'), ('blocked', 'cancelled'), ('blocked', 'needs_reconciliation'),
  ('pending', 'leased'), ('pending', 'needs_reconciliation'), ('pending', 'cancelled'), ('pending', 'done'),
  ('leased', 'done'), ('leased', 'failed'), ('leased', 'pending'), ('leased', 'needs_reconciliation'),
  ('leased', 'cancelled'),
  ('failed', 'pending'), ('failed', 'blocked'), ('failed', 'done'), ('failed', 'cancelled'),
  ('failed', 'needs_reconciliation'),
  ('needs_reconciliation', 'done'), ('needs_reconciliation', 'pending'), ('needs_reconciliation', 'blocked'),
  ('needs_reconciliation', 'cancelled');

CREATE TABLE jobs (
  -- Grows in accept order, which is the order of one person's effects.
  job_id INTEGER PRIMARY KEY AUTOINCREMENT,
  operation_id TEXT NOT NULL REFERENCES operations (operation_id),
  destination TEXT NOT NULL,
  step TEXT NOT NULL,
  contact_id INTEGER REFERENCES contacts (contact_id),
  follows_job_id INTEGER REFERENCES jobs (job_id),
  state TEXT NOT NULL CONSTRAINT job_state_known CHECK (state IN
    ('blocked', 'pending', 'leased', 'done', 'failed', 'needs_reconciliation', 'cancelled')),
  reason TEXT,
  -- For people, beside the reason; known personal values masked.
  detail TEXT,
  run_at_ms INTEGER NOT NULL,
  -- Attempts that count; a refusal of our credentials and a job given back do not.
  attempts INTEGER NOT NULL DEFAULT 0,
  -- Rises with each operator's retry; part of the idempotency key from 2 on.
  key_number INTEGER NOT NULL DEFAULT 1,
  -- Attempts up to this one were settled by a decision: a person's, a proof of absence, or an accepted repeat.
  closed_through_n INTEGER NOT NULL DEFAULT 0,
  external_id TEXT,
  link TEXT,
  created_at_ms INTEGER NOT NULL,
  state_at_ms INTEGER NOT NULL,
  finished_at_ms INTEGER,
  CONSTRAINT job_is_one_effect UNIQUE (operation_id, destination, step),
  CONSTRAINT job_finished_exactly_when_final CHECK ((finished_at_ms IS NOT NULL) = (state IN ('done', 'cancelled'))),
  CONSTRAINT job_blocked_behind_something CHECK (state <> 'blocked' OR follows_job_id IS NOT NULL),
  CONSTRAINT job_says_why CHECK (state NOT IN ('failed', 'needs_reconciliation', 'cancelled') OR reason IS NOT NULL)
) STRICT;
CREATE INDEX jobs_ready ON jobs (destination, run_at_ms, job_id) WHERE state = 'pending';
CREATE INDEX jobs_holding_back ON jobs (destination, contact_id, job_id) WHERE state IN ('pending', 'leased');
CREATE INDEX jobs_blocked ON jobs (follows_job_id) WHERE follows_job_id IS NOT NULL;
CREATE INDEX jobs_not_done ON jobs (state, state_at_ms) WHERE state <> 'done';
CREATE INDEX jobs_by_external_id ON jobs (external_id) WHERE external_id IS NOT NULL;

CREATE TABLE job_bodies (
  job_id INTEGER PRIMARY KEY REFERENCES jobs (job_id),
  -- The OperationInput that the body was made from; a retry by a person renders it anew.
  input TEXT NOT NULL,
  -- 1 while body is what goes out unchanged; 0 after a person's retry.
  rendered INTEGER NOT NULL CHECK (rendered IN (0, 1)),
  -- Secrets in it are placeholders; NULL: the request has no body.
  body TEXT
) STRICT;

CREATE TABLE leases (
  job_id INTEGER PRIMARY KEY REFERENCES jobs (job_id),
  token TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE attempts (
  job_id INTEGER NOT NULL REFERENCES jobs (job_id),
  n INTEGER NOT NULL,
  token TEXT NOT NULL,
  run_id TEXT NOT NULL,
  begun_at_ms INTEGER NOT NULL,
  -- "May have left from here on"; cleared only when the outcome proves that it was not applied.
  sent_at_ms INTEGER,
  ended_at_ms INTEGER,
  outcome TEXT CONSTRAINT outcome_known CHECK (outcome IN
    ('confirmed', 'already', 'refused', 'not_applied', 'unauthorised', 'unknown')),
  status INTEGER,
  detail TEXT,
  external_id TEXT,
  link TEXT,
  -- The destination's total pause when the attempt began: pauses do not count towards giving up.
  paused_ms_before INTEGER NOT NULL,
  PRIMARY KEY (job_id, n),
  CONSTRAINT attempt_ended_with_an_outcome CHECK ((ended_at_ms IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER job_transition_is_legal BEFORE UPDATE OF state ON jobs
WHEN OLD.state <> NEW.state AND NOT EXISTS
  (SELECT 1 FROM job_transitions WHERE from_state = OLD.state AND to_state = NEW.state)
BEGIN SELECT RAISE(ABORT, 'illegal transition of a job'); END;
CREATE TRIGGER job_leased_has_a_lease BEFORE UPDATE OF state ON jobs
WHEN NEW.state = 'leased' AND NOT EXISTS (SELECT 1 FROM leases WHERE job_id = NEW.job_id)
BEGIN SELECT RAISE(ABORT, 'a leased job needs a lease'); END;
CREATE TRIGGER job_released_has_no_lease BEFORE UPDATE OF state ON jobs
WHEN OLD.state = 'leased' AND NEW.state <> 'leased' AND EXISTS (SELECT 1 FROM leases WHERE job_id = OLD.job_id)
BEGIN SELECT RAISE(ABORT, 'only a leased job may have a lease'); END;
CREATE TRIGGER job_is_never_born_leased BEFORE INSERT ON jobs
WHEN NEW.state NOT IN ('pending', 'blocked', 'done')
BEGIN SELECT RAISE(ABORT, 'a job begins as pending, blocked or done'); END;

CREATE TABLE reconciliations (
  reconciliation_id INTEGER PRIMARY KEY,
  job_id INTEGER NOT NULL REFERENCES jobs (job_id),
  reason TEXT NOT NULL,
  opened_at_ms INTEGER NOT NULL,
  -- When the attempt whose outcome is unknown may have left; the look-ups are scheduled from here.
  unknown_at_ms INTEGER NOT NULL,
  -- Look-ups that were answered.
  checks INTEGER NOT NULL DEFAULT 0,
  -- Look-ups in a row that were not answered.
  failed_checks INTEGER NOT NULL DEFAULT 0,
  -- NULL: no automatic look-up is left, a person decides.
  next_check_at_ms INTEGER,
  -- JSON list of what the look-ups saw: at_ms, found, detail.
  evidence TEXT NOT NULL DEFAULT '[]',
  resolved_at_ms INTEGER,
  resolution TEXT,
  CONSTRAINT reconciliation_resolved_somehow CHECK ((resolved_at_ms IS NULL) = (resolution IS NULL))
) STRICT;
CREATE UNIQUE INDEX reconciliation_open_once ON reconciliations (job_id) WHERE resolved_at_ms IS NULL;
CREATE INDEX reconciliations_due ON reconciliations (next_check_at_ms)
  WHERE resolved_at_ms IS NULL AND next_check_at_ms IS NOT NULL;
CREATE INDEX reconciliations_by_job ON reconciliations (job_id);

CREATE TABLE operator_actions (
  action_id INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  job_id INTEGER REFERENCES jobs (job_id),
  subject TEXT,
  why TEXT,
  detail TEXT
) STRICT;
CREATE INDEX operator_actions_by_job ON operator_actions (job_id) WHERE job_id IS NOT NULL;

CREATE TABLE alerts (
  alert_id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  message TEXT NOT NULL,
  raised_at_ms INTEGER NOT NULL,
  last_at_ms INTEGER NOT NULL,
  times INTEGER NOT NULL DEFAULT 1,
  cleared_at_ms INTEGER
) STRICT;
CREATE UNIQUE INDEX alert_open_once ON alerts (kind, subject) WHERE cleared_at_ms IS NULL;

CREATE TABLE destinations (
  destination TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  configured INTEGER NOT NULL CHECK (configured IN (0, 1)),
  fingerprint TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused')),
  reason TEXT,
  detail TEXT,
  paused_since_ms INTEGER,
  next_probe_at_ms INTEGER,
  probes INTEGER NOT NULL DEFAULT 0,
  trial_ready INTEGER NOT NULL DEFAULT 0 CHECK (trial_ready IN (0, 1)),
  trial_job_id INTEGER,
  failure_signature TEXT,
  failure_job_id INTEGER,
  -- JSON list of the different jobs refused in a row.
  refused_jobs TEXT NOT NULL DEFAULT '[]',
  total_paused_ms INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT destination_paused_since CHECK ((paused_since_ms IS NOT NULL) = (state = 'paused'))
) STRICT, WITHOUT ROWID;

-- What each reason means, filled from the code at every open, so that the views can tell people.
CREATE TABLE reasons (
  reason TEXT PRIMARY KEY,
  why TEXT NOT NULL,
  safe TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW v_status AS
  SELECT 'jobs ' || state AS what, count(*) AS n FROM jobs GROUP BY state
  UNION ALL SELECT 'updates ' || state, count(*) FROM updates GROUP BY state
  UNION ALL SELECT 'updates redelivered', coalesce(sum(redelivered), 0) FROM updates WHERE redelivered > 0
  UNION ALL SELECT 'reconciliations open', count(*) FROM reconciliations WHERE resolved_at_ms IS NULL
  UNION ALL SELECT 'alerts open', count(*) FROM alerts WHERE cleared_at_ms IS NULL
  -- With the jobs that wait for it, in whatever state.
  UNION ALL SELECT 'destination ' || d.name || ': ' || CASE d.configured WHEN 1 THEN d.state ELSE 'unconfigured' END,
      (SELECT count(*) FROM jobs j WHERE j.destination = d.destination AND j.state NOT IN ('done', 'cancelled'))
    FROM destinations d;

-- Without GROUP BY, so that a query for a few operations looks at those alone.
CREATE VIEW v_operations AS
  SELECT o.operation_id, o.code, o.kind, o.action, o.business_key,
    CASE
      WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.operation_id = o.operation_id
        AND j.state NOT IN ('done', 'cancelled', 'failed')) THEN 'open'
      WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.operation_id = o.operation_id AND j.state = 'failed') THEN 'failed'
      WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.operation_id = o.operation_id)
        AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.operation_id = o.operation_id AND j.state <> 'cancelled') THEN 'cancelled'
      ELSE 'completed'
    END AS state,
    datetime(o.created_at_ms / 1000, 'unixepoch') AS created_at
  FROM operations o;

CREATE VIEW v_pending AS
  SELECT j.job_id, o.code, coalesce(d.name, j.destination) AS destination, j.step, j.state, j.attempts, j.reason,
    datetime(j.run_at_ms / 1000, 'unixepoch') AS run_at, datetime(j.created_at_ms / 1000, 'unixepoch') AS created_at
  FROM jobs j JOIN operations o USING (operation_id) LEFT JOIN destinations d ON d.destination = j.destination
  WHERE j.state IN ('blocked', 'pending', 'leased')
  ORDER BY j.job_id;

CREATE VIEW v_reconciliation AS
  SELECT j.job_id, o.code, coalesce(d.name, j.destination) AS destination, j.step, r.reason, w.why, w.safe,
    'leadonce reconcile link ' || j.job_id || ' ID | leadonce reconcile recreate ' || j.job_id
      || ' | leadonce reconcile dismiss ' || j.job_id || ' --why …' AS next_command,
    datetime(r.opened_at_ms / 1000, 'unixepoch') AS opened_at, r.checks,
    datetime(r.next_check_at_ms / 1000, 'unixepoch') AS next_check_at, r.evidence
  FROM reconciliations r JOIN jobs j USING (job_id) JOIN operations o USING (operation_id)
    LEFT JOIN destinations d ON d.destination = j.destination LEFT JOIN reasons w ON w.reason = r.reason
  WHERE r.resolved_at_ms IS NULL
  ORDER BY r.opened_at_ms;

CREATE VIEW v_failed AS
  SELECT j.job_id, o.code, coalesce(d.name, j.destination) AS destination, j.step, j.attempts, j.reason, w.why, w.safe, j.detail,
    'leadonce retry ' || j.job_id || ' | leadonce link ' || j.job_id || ' ID | leadonce dismiss ' || j.job_id || ' --why …'
      AS next_command,
    datetime(j.state_at_ms / 1000, 'unixepoch') AS failed_at
  FROM jobs j JOIN operations o USING (operation_id)
    LEFT JOIN destinations d ON d.destination = j.destination LEFT JOIN reasons w ON w.reason = j.reason
  WHERE j.state = 'failed'
  ORDER BY j.state_at_ms;

CREATE VIEW v_trace AS
  SELECT u.event_key, u.update_id, u.state AS update_state, u.reason AS update_reason, u.redelivered,
    o.operation_id, o.code, o.business_key, j.job_id, coalesce(d.name, j.destination) AS destination, j.step, j.state AS job_state, j.attempts,
    j.external_id, j.link
  FROM updates u LEFT JOIN operation_updates ou USING (event_key) LEFT JOIN operations o USING (operation_id)
    LEFT JOIN jobs j USING (operation_id) LEFT JOIN destinations d ON d.destination = j.destination;
`,
};
