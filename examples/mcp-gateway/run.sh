#!/usr/bin/env bash
# A gateway in front of two MCP servers: their tools behind one address, one inbox and one log.
#
#     examples/mcp-gateway/run.sh
#
# needs `haft`, `python3` and `jq` on the path.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; rm -rf "$place"' EXIT
cd "$place"
export HAFT_DATA=data

haft mcp add units -- python3 "$here/units.py" 2>/dev/null
haft mcp add notes -- python3 "$here/notes.py" 2>/dev/null

haft serve --listen 127.0.0.1:0 >said 2>log &
until grep -qs '^data' said; do sleep 0.1; done
until haft tools show units_miles >/dev/null 2>&1 && haft tools show notes_add >/dev/null 2>&1; do sleep 0.2; done
haft tools list --json | jq -r '.data[] | select(.ownership == "mcp") | "\(.name): \(.description)"' | sort

# Whatever a mounted server says about its tools, their calls ask.
call() {
  local waiting id
  # Something waits: `haft` says so by its exit code.
  waiting=$(haft tools call "$1" --args "$2" --json </dev/null) || [ $? = 3 ]
  id=$(jq -r .call <<<"$waiting")
  echo "$1 is $(jq -r .state <<<"$waiting"), because $(haft policy explain "$id" --json | jq -r '.derivation.findings[0].reason')"
  haft approve "$id" --json |
    jq -r '"\(.by.id): \(.decision)", (.outcome | "\(.provenance.trust): \(.result.ok.content[0].text // .result.ok.value)")'
}
call units_miles '{"km": "42"}'
call notes_add '{"text": "run a marathon"}'
