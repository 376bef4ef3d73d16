#!/usr/bin/env bash
# From a clean clone to the first lead, by the README's own commands, against a stand-in for Telegram on this machine.
# Prints the seconds it took. Usage: scripts/first-lead.sh [REPOSITORY]
set -euo pipefail
repository=${1:-$(cd "$(dirname "$0")/.." && pwd)}
work=$(mktemp -d)
port=$((20000 + RANDOM % 20000))
token="1202555:first_lead_first_lead_first_lead"
daemon="" telegram=""

finish() {
  # setsid gave each a group of its own: npm, the shell and the program end together.
  for group in $daemon $telegram; do kill -TERM -- "-$group" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

# The commands as the README has them; if it changes, this follows or fails.
start=$(grep -oE '^TELEGRAM_BOT_TOKEN=\S+ npm start' "$repository/README.md" | head -1)
leads=$(grep -oE '^npm run leadonce -- leads' "$repository/README.md" | head -1)
[ -n "$start" ] && [ -n "$leads" ] || { echo "The README no longer names the two commands." >&2; exit 1; }

began=$(date +%s.%N)
git clone --quiet "$repository" "$work/leadonce"
cd "$work/leadonce"
# The one thing that no customer has: Telegram on this machine.
printf '[telegram]\napi_root = "http://127.0.0.1:%s"\npoll_timeout = "5s"\n' "$port" >service.conf

echo "\$ ${start/TELEGRAM_BOT_TOKEN=*/TELEGRAM_BOT_TOKEN=… npm start}"
TELEGRAM_BOT_TOKEN="$token" setsid bash -c "exec ${start#* }" >"$work/daemon.log" 2>&1 &
daemon=$!
until [ -f dist/.leadonce-built ]; do
  kill -0 "$daemon" 2>/dev/null || { cat "$work/daemon.log" >&2; exit 1; }
  sleep 0.2
done

setsid node --input-type=module -e "
  import { startTelegramStandIn } from './dist/stand-ins/telegram/index.js';
  const telegram = await startTelegramStandIn({ bots: [{ token: '$token', username: 'first_lead_bot' }], port: $port });
  telegram.bot().say({ from: { id: 12025550100, first_name: 'Test', last_name: 'Person' }, text: 'Good morning' });
" >"$work/telegram.log" 2>&1 &
telegram=$!

echo "\$ $leads"
for _ in $(seq 150); do
  kill -0 "$telegram" 2>/dev/null || { cat "$work/telegram.log" >&2; exit 1; }
  if shown=$($leads 2>/dev/null) && grep -q done <<<"$shown"; then
    echo "$shown"
    awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "from clone to the first lead: %.1f s\n", b - a }'
    exit 0
  fi
  sleep 0.3
done
cat "$work/daemon.log" >&2
echo "No lead appeared." >&2
exit 1
