#!/usr/bin/env bash
# A gateway in front of two MCP servers: their tools behind one address, one inbox and one log.
#
#     examples/mcp-gateway/run.sh
#
# needs `haft`, `python3`, `curl` and `jq` on the path.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; rm -rf "$place"' EXIT
cd "$place"
export HAFT_API_KEY=example-key

haft mcp add units -- python3 "$here/units.py" 2>/dev/null
haft mcp add notes -- python3 "$here/notes.py" 2>/dev/null

haft serve --listen 127.0.0.1:0 --data data >said 2>log &
until grep -q '^api' said; do sleep 0.1; done
base=$(sed -n 's|^api *\(http.*\)/v1$|\1|p' said)
api() { curl -s -H "authorization: Bearer $HAFT_API_KEY" -H 'content-type: application/json' "$base/haft/v1$@"; }

until [ "$(api /mcp/servers | jq '[.data[] | select(.tools | length > 0)] | length')" = 2 ]; do sleep 0.2; done
api /mcp/servers | jq -r '.data[] | "\(.name): \(.tools | join(", "))"'

# Whatever a mounted server says about its tools, their calls ask.
call() {
  local waiting session id
  waiting=$(api "/tools/$1/call" -d "{\"arguments\": $2}")
  session=$(jq -r .session <<<"$waiting") id=$(jq -r .call <<<"$waiting")
  echo "$1 is $(jq -r .state <<<"$waiting"), because $(api /pending | jq -r '.data[0].derivation.findings[0].reason')"
  api "/sessions/$session/calls/$id/resolve" -d '{"type": "approve"}' | jq -r '"\(.by.id): \(.decision)"'
  until api "/sessions/$session/calls/$id" | jq -e '.stage == "settled"' >/dev/null; do sleep 0.2; done
  api "/sessions/$session/events?after=0" |
    jq -r '.data[].event | select(.type == "call.finished").outcome | "\(.provenance.trust): \(.result.ok.content[0].text // .result.ok.value)"'
}
call units_miles '{"km": "42"}'
call notes_add '{"text": "run a marathon"}'
