#!/usr/bin/env bash
# The suite on each Node version we promise, every version in its own copy of the tree, because native modules are
# compiled for one version each. Takes a few minutes a version; not part of every push.
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
[ $# -gt 0 ] || versions=(20 22 24 26)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()
for version in "${versions[@]}"; do
  printf '\n== Node %s\n' "$version"
  node_home="$work/node$version"
  tree="$work/tree$version"
  mkdir -p "$node_home"
  (cd "$node_home" && echo '{"private":true}' >package.json && npm install --silent --no-audit --no-fund "node@$version" >/dev/null)
  git clone --quiet . "$tree"
  # Headers of this very version: the ones of another compile without a word and fail at run time.
  headers=$(dirname "$(dirname "$(find "$node_home/node_modules" -path '*include/node/node_api.h' -print -quit)")")
  if (
    cd "$tree"
    export PATH="$node_home/node_modules/node/bin:$PATH" npm_config_nodedir="${headers%/include}"
    node --version
    npm test
  ) >"$work/log$version" 2>&1; then
    grep -E '^(v[0-9]|ℹ (tests|pass|fail|skipped))' "$work/log$version"
  else
    tail -40 "$work/log$version"
    failed+=("$version")
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  printf '\nFailed on Node: %s\n' "${failed[*]}"
  exit 1
fi
printf '\nPassed on Node: %s\n' "${versions[*]}"
