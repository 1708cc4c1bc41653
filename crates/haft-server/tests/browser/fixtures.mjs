/** Waits and logs as the server would tell of them. */

export const DIFF = `--- a/src/greeting.rs
+++ b/src/greeting.rs
@@ -3,4 +3,5 @@
 pub fn greet(name: &str) -> String {
-    format!("Hello, {name}")
+    let name: String = name.chars().take(40).collect();
+    format!("Hello, {name}!")
 }
`;

export function waiting(more = {}) {
  const now = Date.now();
  return {
    session: "sesn_1", call: "call_1", round: 1, kind: "approval", tool: "file_edit", mode: "safe_write", reason: "asked",
    arguments: { path: "/work/a.txt", times: 2 }, expires_at: now + 300_000, since: now,
    input_schema: { type: "object", properties: { path: { type: "string", minLength: 1 }, times: { type: "integer", minimum: 1, maximum: 9 } }, required: ["path", "times"] },
    derivation: { decision: "ask", findings: [{ source: { rule: "protect" }, verdict: "ask", reason: "changes are reviewed" }] },
    preview: { diff: DIFF }, ...more,
  };
}

/** What would run if anything of it were taken for markup. */
export const MARKUP = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script><svg onload="window.hacked=1">{{7*7}}javascript:alert(1)`;

let seq = 0;

/** Numbers events as a log does. */
export function log(events, at = Date.now() - 60_000) {
  seq = 0;
  return events.map((event, index) => ({ seq: ++seq, at: at + index * 100, event }));
}

export function proposed(call, tool, more = {}) {
  return {
    type: "call.proposed", call, provider_id: `p_${call}`, arguments: { record: more.arguments ?? { q: "x" }, digest: "sha256:0" },
    contract: { tool, version: "1.0.0", digest: "sha256:0", ownership: "managed", executor: "server", gate: "auto", mode: "read", mutates: "none", ...more.contract },
    derivation: more.derivation ?? { decision: "allow", findings: [{ source: "tool", verdict: "allow", reason: "declared to need nobody" }] },
  };
}

export function finished(call, tool, result, more = {}) {
  return { type: "call.finished", outcome: { call, tool, attempt: 1, started_at: 1, finished_at: 5, result, provenance: { executor: "server", trust: "trusted" }, ...more } };
}
