#!/usr/bin/env bash
# Looks into leadonce's database with the plain sqlite3 shell: read-only, with or without a running daemon, and also
# where leadonce itself can't start. The views hold no message text and no phone number.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: inspect.sh [--db PATH] COMMAND

  status           counts by state, open alerts, destinations
  pending          jobs that are on their way
  reconciliation   what is unknown: why, what is safe, the next command
  failed           what failed: why, what is safe, the next command
  trace KEY        from an event key, update id, operation id or code, business key, or a record's id
                   to everything that belongs to it
  sql 'SELECT …'   a query of your own; views: v_status, v_operations, v_pending, v_reconciliation, v_failed, v_trace

The database: --db PATH, else LEADONCE_DB, else data/leadonce.db. It is opened read-only.
Needs the sqlite3 shell, 3.37 or newer (Debian and Ubuntu: apt install sqlite3).
Deciding something takes leadonce itself: leadonce reconcile, retry, link, dismiss.
TEXT
}

# fail CODE MESSAGE…: exit codes as leadonce's own (sysexits).
fail() {
  local code=$1
  shift
  printf 'inspect.sh: %s\n' "$@" >&2
  exit "$code"
}

# shell MODE STATEMENT…: the user's own ~/.sqliterc is left out, and -safe keeps a statement from touching other files.
shell() {
  local mode=$1
  shift
  sqlite3 -batch -init /dev/null -readonly -safe -header "$mode" -cmd '.timeout 5000' "$db" "$@"
}

# show MODE STATEMENT…: an empty answer is said in words.
show() {
  local rows
  rows=$(shell "$@") || fail 74 "the database at $db can't be read as leadonce's" "The message above is sqlite3's."
  printf '%s\n' "${rows:-nothing}"
}

# trace KEY: the key reaches SQL as a bound parameter. `.parameter set` evaluates its value as an expression, so the
# key is handed over as hexadecimal digits: whatever it says, it stays a text.
trace() {
  local hex
  hex=$(printf '%s' "$1" | od -An -v -tx1 | tr -d ' \n')
  show -line ".parameter set :key \"CAST(x'$hex' AS TEXT)\"" \
    "SELECT * FROM v_trace
     WHERE event_key = :key OR CAST(update_id AS TEXT) = :key OR operation_id = lower(:key) OR code = upper(:key)
       OR business_key = :key OR external_id = :key
     ORDER BY job_id"
}

db=${LEADONCE_DB:-data/leadonce.db}
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --db)
      [[ $# -ge 2 ]] || fail 64 "--db takes the path of the database"
      db=$2
      shift 2
      ;;
    --db=*)
      db=${1#--db=}
      shift
      ;;
    -*) fail 64 "there is no option $1" "See: inspect.sh --help" ;;
    *) break ;;
  esac
done

case ${1:-} in
  status | pending | reconciliation | failed)
    [[ $# -eq 1 ]] || fail 64 "$1 takes nothing behind it" "See: inspect.sh --help"
    ;;
  trace) [[ $# -eq 2 && -n $2 ]] || fail 64 "trace takes one KEY" "For example: inspect.sh trace 987654321" ;;
  sql) [[ $# -eq 2 && -n $2 ]] || fail 64 "sql takes one query, in quotes" "For example: inspect.sh sql 'SELECT * FROM v_status'" ;;
  "")
    usage >&2
    exit 64
    ;;
  *) fail 64 "there is no such command" "See: inspect.sh --help" ;;
esac

command -v sqlite3 >/dev/null ||
  fail 69 "the sqlite3 shell is missing" "Debian and Ubuntu: apt install sqlite3. Or use leadonce itself: leadonce status"
sqlite3 -batch -init /dev/null -safe :memory: 'CREATE TABLE t (n INTEGER) STRICT' 2>/dev/null ||
  fail 69 "this sqlite3 shell is too old ($(sqlite3 --version | cut -d ' ' -f 1)); 3.37 or newer is needed"
[[ -f $db ]] ||
  fail 74 "there is no database at $db" "Name it with --db PATH, or start the daemon once: leadonce run"
[[ $db == /* ]] || db=./$db # A relative name must not read as an option or as a URI.

case $1 in
  status) show -column 'SELECT * FROM v_status' ;;
  pending) show -column 'SELECT * FROM v_pending' ;;
  reconciliation) show -line 'SELECT * FROM v_reconciliation' ;;
  failed) show -line 'SELECT * FROM v_failed' ;;
  trace) trace "$2" ;;
  sql) shell -column "$2" || exit 1 ;;
esac
