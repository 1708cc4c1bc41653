/** The elements in a real Chromium, under the console's own policy, on a page without a server. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";

import { MARKUP, finished, log, proposed, waiting } from "./fixtures.mjs";
import { armed, axeFindings, drawn, launch, open, serveStatic } from "./harness.mjs";

const PAGE = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Elements</title>
<link rel="icon" href="data:,"><script type="module" src="/page.js"></script></head><body><main><h1>A page</h1><h2>Cards</h2><div id="place"></div></main></body></html>`;

const SCRIPT = `
import "/elements/approval.js"; import "/elements/elicitation.js"; import "/elements/settlement.js"; import "/elements/timeline.js";
import { tokens, sheet } from "/elements/theme.js";
import { SessionModel, simpleStatus } from "/session-model.js";
import { classify } from "/haft.js";
document.adoptedStyleSheets = [tokens, sheet("body { background: var(--paper); color: var(--ink) }")];
window.told = [];
window.put = (tag, pending, refusal) => {
  const element = document.createElement(tag);
  element.client = { clockSkew: 0, resolve: async (session, call, response) => {
    window.told.push(response);
    if (refusal) throw Object.assign(new Error(refusal.message), refusal);
    return { decision: response.type, by: { kind: "user", id: "ann" }, at: Date.now() };
  } };
  element.pending = pending;
  document.getElementById("place").replaceChildren(element);
};
window.timeline = (entries, tools = []) => {
  const element = document.createElement("haft-timeline");
  const model = new SessionModel("sesn_1");
  model.apply(entries);
  element.tools = tools;
  document.getElementById("place").replaceChildren(element);
  element.model = model;
  return model;
};
window.model = (entries) => { const model = new SessionModel("s"); model.apply(entries); return model; };
window.simpleStatus = simpleStatus;
window.classify = classify;
window.ready = true;
`;

let browser;
let server;
before(async () => {
  browser = await launch();
  server = await serveStatic({ "/page.html": PAGE, "/page.js": SCRIPT });
});
after(async () => {
  await browser.close();
  server.close();
});

async function page(options) {
  const opened = await open(browser, `${server.base}/page.html`, options);
  await opened.waitForFunction(() => window.ready);
  return opened;
}

const told = (opened) => opened.evaluate(() => window.told);

// S4-31: a boolean gate.
test("S4-31 an approval is sent once, whatever is clicked how often", async () => {
  const shown = await page();
  await shown.evaluate((pending) => window.put("haft-approval", pending), waiting());
  const approve = shown.getByRole("button", { name: "Approve" });
  await approve.dblclick();
  await shown.getByText("Approved by you").waitFor();
  assert.deepEqual((await told(shown)).map(({ type, round }) => [type, round]), [["approve", 1]]);
  await shown.context().close();
});

test("a denial takes its note along", async () => {
  const shown = await page();
  await shown.evaluate((pending) => window.put("haft-approval", pending), waiting());
  await shown.getByLabel("Note").fill("not on a Friday");
  await shown.getByRole("button", { name: "Deny" }).click();
  await shown.getByText("Denied by you").waitFor();
  assert.equal((await told(shown))[0].note, "not on a Friday");
  await shown.context().close();
});

test("edited arguments are checked before they are sent, and replace what was proposed", async () => {
  const shown = await page();
  await shown.evaluate((pending) => window.put("haft-approval", pending), waiting());
  await shown.getByRole("button", { name: "Edit" }).click();
  await shown.getByLabel("Times").fill("12");
  await shown.getByRole("button", { name: "Approve with changes" }).click();
  await shown.getByText("At most 9.").waitFor();
  assert.deepEqual(await told(shown), []);
  await shown.getByLabel("Times").fill("3");
  await shown.getByRole("button", { name: "Approve with changes" }).click();
  await shown.getByText("Approved by you").waitFor();
  assert.deepEqual((await told(shown))[0].arguments, { path: "/work/a.txt", times: 3 });
  await shown.context().close();
});

test("a bounded yes says what it will remember before it is given", async () => {
  const shown = await page();
  await shown.evaluate((pending) => window.put("haft-approval", pending), waiting());
  await shown.getByText("Bounded…").click();
  await shown.getByText("Also allows file_edit in this session when path is /work/a.txt and times is at most 2, at most 5 more times, for 1 hour.").waitFor();
  await shown.getByRole("button", { name: "Approve within bounds" }).click();
  await shown.getByText("Approved by you").waitFor();
  assert.deepEqual((await told(shown))[0].grant, {
    when: [{ field: "/path", test: { equals: "/work/a.txt" } }, { field: "/times", test: { at_most: "2" } }], uses: 5, lasts_ms: 3_600_000,
  });
  await shown.context().close();
});

test("a tool that always asks offers no standing permission", async () => {
  const shown = await page();
  await shown.evaluate((pending) => window.put("haft-approval", pending), waiting({ may_grant: false }));
  await shown.getByRole("button", { name: "Approve" }).waitFor();
  assert.equal(await shown.getByRole("radiogroup").count(), 0);
  await shown.context().close();
});

// S4-20, S4-30: whoever is second is told who was first.
test("S4-30 whoever is second sees who decided and when", async () => {
  const shown = await page();
  const refusal = { code: "stale", message: "stale", decided: { decision: "deny", by: { kind: "user", id: "bob" }, at: Date.now() } };
  await shown.evaluate(([pending, said]) => window.put("haft-approval", pending, said), [waiting(), refusal]);
  await shown.getByRole("button", { name: "Approve" }).click();
  await shown.getByText("Too late: this was already denied by bob").waitFor();
  await shown.context().close();
});

test("a card that runs out while it is looked at says so, and takes no click", async () => {
  const shown = await page();
  await shown.evaluate((pending) => window.put("haft-approval", pending), waiting({ expires_at: Date.now() + 1_800 }));
  await shown.getByText("Expired: nobody decided in time").waitFor();
  assert.equal(await shown.getByRole("button", { name: "Approve" }).count(), 0);
  await shown.context().close();
});

const QUESTION = {
  kind: "elicitation", tool: "ask_user", preview: null, arguments: { question: "Who gets it?" },
  answer_schema: { type: "object", required: ["mail", "when"], properties: {
    mail: { type: "string", format: "email", title: "E-mail" }, when: { enum: ["now", "later"], title: "When" }, copies: { type: "integer", maximum: 5 }, urgent: { type: "boolean" },
    tags: { type: "array", items: { enum: ["a", "b"] } }, size: { enum: ["1", "2", "3", "4", "5", "6", "7"] }, more: { type: "object", properties: { note: { type: "string" } } } } },
};

// S4-31: a form from a schema, through the same mechanism.
test("S4-31 an answer that does not fit is said where, and one that fits is sent", async () => {
  const shown = await page();
  await shown.evaluate((pending) => window.put("haft-elicitation", pending), waiting(QUESTION));
  await shown.getByLabel("E-mail").fill("nobody");
  await shown.getByRole("button", { name: "Send answer" }).click();
  await shown.getByText("Expected an e-mail address").waitFor();
  assert.equal(await shown.getByText("This is needed.").count(), 1);
  assert.equal(await shown.getByLabel("E-mail").getAttribute("aria-invalid"), "true");
  assert.deepEqual(await told(shown), []);
  await shown.getByLabel("E-mail").fill("ann@example.org");
  await shown.getByLabel("later").check();
  await shown.getByLabel("Copies").fill("2");
  await shown.getByLabel("b", { exact: true }).check();
  await shown.getByLabel("Size").selectOption("5");
  await shown.getByLabel("Note").fill("hi");
  await shown.getByRole("button", { name: "Send answer" }).click();
  await shown.getByText("Answered by you").waitFor();
  assert.deepEqual((await told(shown))[0].value, { mail: "ann@example.org", when: "later", copies: 2, tags: ["b"], size: "5", more: { note: "hi" } });
  await shown.context().close();
});

test("a question can be declined, and one without a schema takes any text", async () => {
  const shown = await page();
  await shown.evaluate((pending) => window.put("haft-elicitation", pending), waiting({ ...QUESTION, answer_schema: undefined }));
  await shown.getByLabel("Your answer").fill("Bern");
  await shown.getByRole("button", { name: "Send answer" }).click();
  await shown.getByText("Answered by you").waitFor();
  assert.deepEqual((await told(shown))[0].value, { answer: "Bern" });
  await shown.evaluate((pending) => window.put("haft-elicitation", pending), waiting({ ...QUESTION, call: "call_2" }));
  await shown.getByRole("button", { name: "Decline" }).click();
  await shown.getByText("Denied by you").waitFor();
  await shown.context().close();
});

test("a call in doubt has three answers", async () => {
  const shown = await page();
  for (const [name, verdict] of [["It happened", "happened"], ["It did not: run it again", "run_again"], ["Leave it unknown", "give_up"]]) {
    await shown.evaluate((pending) => window.put("haft-settlement", pending), waiting({ kind: "settlement", reason: "in_doubt", call: verdict }));
    await shown.getByRole("button", { name }).click();
    await shown.getByText("by you").waitFor();
  }
  assert.deepEqual((await told(shown)).map(({ verdict }) => verdict), ["happened", "run_again", "give_up"]);
  await shown.evaluate((pending) => window.put("haft-settlement", pending), waiting({ kind: "settlement", reason: "in_doubt", barred: "it became unsafe" }));
  await shown.getByText("It may not be run again: it became unsafe").waitFor();
  assert.equal(await shown.getByRole("button", { name: /run it again/ }).count(), 0);
  await shown.context().close();
});

test("everything can be done without a mouse", async () => {
  const shown = await page();
  await shown.evaluate((pending) => window.put("haft-approval", pending), waiting({ preview: null }));
  const names = [];
  for (let step = 0; step < 10; step += 1) {
    await shown.keyboard.press("Tab");
    names.push(await shown.evaluate(() => {
      let at = document.activeElement;
      while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
      return at?.getAttribute("aria-label") ?? at?.textContent ?? "";
    }));
    if (names.at(-1).includes("Approve")) break;
  }
  assert.match(names.join(" → "), /Why you are asked.*Edit.*Note.*Deny.*Approve/s);
  await armed(shown);
  await shown.keyboard.press("Enter");
  await shown.getByText("Approved by you").waitFor();
  await shown.context().close();
});

// What comes from models, tools and people is text wherever it is shown.
// approval-024: a text node, whatever it holds.
test("nothing that is displayed is taken for markup", async () => {
  const shown = await page();
  const evil = { title: MARKUP, detail: MARKUP, tool: MARKUP, mode: MARKUP, reach: [MARKUP], changes: MARKUP, barred: MARKUP, reason: MARKUP, consequence: MARKUP,
    arguments: { [MARKUP]: MARKUP, question: MARKUP, deep: { a: [MARKUP] } }, preview: { diff: `--- a/${MARKUP}\n+++ b/${MARKUP}\n@@ -1 +1 @@\n-${MARKUP}\n+${MARKUP}\n`, trouble: MARKUP, targets: [MARKUP] },
    input_schema: { type: "object", properties: { [MARKUP]: { type: "string", title: MARKUP, description: MARKUP }, pick: { enum: [MARKUP, "b"], title: MARKUP } } },
    answer_schema: { type: "object", properties: { a: { type: "string", title: MARKUP, description: MARKUP, default: MARKUP }, b: { enum: [MARKUP], title: MARKUP } } },
    derivation: { decision: "ask", findings: [{ source: { rule: MARKUP }, verdict: "ask", reason: MARKUP }] } };
  for (const tag of ["haft-approval", "haft-elicitation", "haft-settlement"]) {
    await shown.evaluate(([name, pending]) => window.put(name, pending), [tag, waiting(evil)]);
    await shown.evaluate((name) => document.querySelector(name).finish({ decision: "deny", by: { kind: "user", id: "<b>x</b>" }, note: "<img src=x onerror='window.hacked=1'>", at: Date.now() }), tag);
    await shown.evaluate(([name, pending]) => window.put(name, { ...pending, round: 2 }), [tag, waiting(evil)]);
    if (tag === "haft-approval") {
      await shown.getByRole("button", { name: "Edit" }).click();
      await shown.getByText("Bounded…").click();
    }
  }
  const text = (value) => [{ type: "text", text: value }];
  const entries = log([
    { type: "session.opened", session: "sesn_1", config: {}, by: { kind: "user", id: MARKUP } },
    { type: "message.received", message: "msg_1", from: { kind: "user", id: MARKUP }, content: text(`${MARKUP}\n\n\`\`\`\n${MARKUP}\n\`\`\`\n- ${MARKUP}\n# ${MARKUP}\n\`${"<b>"}\` **<i>**`) },
    { type: "turn.started", turn: 1 }, { type: "turn.answered", turn: 1, content: text(MARKUP), narrowed: [{ by: MARKUP, reason: MARKUP, left_out: 1 }] },
    proposed("call_1", MARKUP, { arguments: { [MARKUP]: MARKUP } }), { type: "call.redefined", call: "call_1", contract: { tool: MARKUP, executor: "server" }, changes: MARKUP },
    finished("call_1", MARKUP, { err: { class: MARKUP, message: MARKUP, debug: MARKUP, partial: MARKUP } }, { directives: { user_message: MARKUP, next_action: MARKUP } }),
    { type: "call.rejected", call: "call_2", name: MARKUP, rejection: { reason: "malformed", message: MARKUP, raw_arguments: MARKUP } },
    proposed("call_3", MARKUP, { contract: { executor: "provider" } }), proposed("call_4", "x"), finished("call_4", "x", { ok: { value: { a: MARKUP }, content: text(MARKUP), artifacts: [{ id: "a", media_type: "text/html", bytes: 1, title: MARKUP }] } }),
    { type: "session.interrupted", by: { kind: "user", id: MARKUP }, note: MARKUP }, { type: "turn.ended", turn: 1, ending: { why: "failed", failure: { class: "auth", message: MARKUP } } },
    { type: "grant.added", grant: { id: "g", tool: MARKUP, by: { kind: "user", id: MARKUP }, at: 1 } },
  ]);
  await shown.evaluate((given) => window.timeline(given), entries);
  const slots = shown.locator("haft-timeline details.call");
  await slots.first().waitFor();
  for (let at = 0; at < await slots.count(); at += 1) await slots.nth(at).locator("summary").first().click();
  await shown.waitForFunction(() => [...document.querySelector("haft-timeline").shadowRoot.querySelectorAll("details.call")].every(({ open }) => open));
  const foreign = await shown.evaluate(() => {
    const roots = [document, ...[...document.querySelectorAll("*")].map((element) => element.shadowRoot).filter(Boolean)];
    return roots.flatMap((root) => [...root.querySelectorAll("img, script:not([src]), svg[onload], [onerror], iframe, b, i:not([class]) > *")]).length;
  });
  assert.equal(foreign, 0);
  assert.equal(await shown.evaluate(() => window.hacked), undefined);
  assert.deepEqual(shown.troubles, []);
  await shown.context().close();
});

// S4-17, S4-32: the kind and the executor choose what is shown.
test("S4-17 S4-32 a timeline shows each call by who runs it", async () => {
  const shown = await page();
  const wait = (call, kind, reason = "asked") => ({ type: "call.suspended", call, round: 1, kind, reason, expires_at: Date.now() + 100_000 });
  const entries = log([
    { type: "session.opened", session: "sesn_1", config: {}, by: { kind: "user", id: "ann" } }, { type: "turn.started", turn: 1 }, { type: "turn.answered", turn: 1, content: [] },
    proposed("call_gated", "file_edit", { contract: { gate: "ask" } }), wait("call_gated", "approval"),
    proposed("call_human", "ask_user", { contract: { executor: "human" }, arguments: { question: "Which?" } }), wait("call_human", "elicitation", "executor"),
    proposed("call_client", "get_location", { contract: { executor: "client" } }), wait("call_client", "client_exec", "executor"),
    proposed("call_doubt", "charge", {}), wait("call_doubt", "settlement", "in_doubt"),
    proposed("call_provider", "web_search", { contract: { executor: "provider" } }), finished("call_provider", "web_search", { ok: {} }),
    proposed("call_server", "read_file", {}), { type: "call.started", call: "call_server", attempt: 1, cause: "first" },
  ]);
  await shown.evaluate((given) => {
    const model = window.timeline(given);
    model.progress({ call: "call_server", progress: { message: "reading", done: 1, total: 4 } });
    document.querySelector("haft-timeline").changed(new Set(["call_server"]));
  }, entries);
  await shown.locator("haft-approval").waitFor();
  assert.equal(await shown.locator("haft-elicitation").count(), 1);
  assert.equal(await shown.locator("haft-settlement").count(), 1);
  await shown.getByText("The model’s provider ran").waitFor();
  assert.equal(await shown.getByText("get_location").count(), 0);
  assert.equal(await shown.locator("details.call[data-status=running]").count(), 1);
  assert.equal(await shown.getByLabel("Progress").getAttribute("value"), "0.25");
  // S4-18: what runs and what waits are two lists.
  assert.deepEqual(await shown.evaluate((given) => { const model = window.model(given); return [model.inFlight().map(({ id }) => id), model.waiting().map(({ id }) => id)]; }, entries),
    [["call_server"], ["call_gated", "call_human", "call_client", "call_doubt"]]);
  await shown.context().close();
});

// S0-8, S0-11, S0-12, S0-13, S0-14, S0-37, S4-18
test("S0-8 S0-11 S0-12 S0-13 S0-14 S0-37 S4-18 a call's status follows from its events, and its words are shown where they belong", async () => {
  const shown = await page();
  const steps = [proposed("call_1", "send"), { type: "call.started", call: "call_1", attempt: 1, cause: "first" },
    finished("call_1", "send", { err: { class: "tool_error", message: "for the model", debug: "stack trace" } }, { directives: { user_message: "It could not be sent.", next_action: "retry_later" } })];
  const states = [];
  for (let length = 1; length <= steps.length; length += 1) {
    states.push(await shown.evaluate((entries) => window.simpleStatus([...window.model(entries).calls.values()][0]), log(steps.slice(0, length))));
  }
  assert.deepEqual(states, ["pending", "running", "error"]);
  const done = [proposed("call_1", "send"), { type: "call.started", call: "call_1", attempt: 1, cause: "first" }, finished("call_1", "send", { ok: { value: { id: 7 } } })];
  assert.equal(await shown.evaluate((entries) => window.simpleStatus([...window.model(entries).calls.values()][0]), log(done)), "done");
  await shown.evaluate((entries) => void window.timeline(entries), log(steps));
  await shown.getByText("It could not be sent.").waitFor();
  assert.equal(await shown.locator("details.call").getAttribute("data-status"), "error");
  await shown.locator("details.call > summary").click();
  await shown.getByText("stack trace").waitFor();
  await shown.getByText("Next: retry_later").waitFor();
  await shown.evaluate((entries) => void window.timeline(entries), log(done));
  await shown.locator("details.call > summary").click();
  await shown.getByText('"id": 7').waitFor();
  await shown.context().close();
});

test("a session that a program drives says nothing about a model", async () => {
  const shown = await page();
  const begun = (driver) => log([{ type: "session.opened", config: { driver }, by: { kind: "user", id: "ann" } }, { type: "turn.started", turn: 1 }, proposed("call_1", "send")]);
  await shown.evaluate((entries) => void window.timeline(entries), begun("model"));
  await shown.getByText("The model is thinking").waitFor();
  await shown.evaluate((entries) => void window.timeline(entries), begun("caller"));
  await shown.locator("details.call").waitFor();
  assert.equal(await shown.getByText("The model is thinking").count(), 0);
  assert.deepEqual(await shown.evaluate((entries) => window.model(entries).spans.filter((span) => span.kind === "model").length, begun("caller")), 0);
  await shown.context().close();
});

// S0-19: what cannot be taken back by itself runs, with a way back beside it.
test("S0-19 an irreversible call that ran by itself offers its undo", async () => {
  const shown = await page();
  const contract = { mode: "destructive", mutates: "irreversible", reversal: "undo", gate: "unset" };
  const derivation = { decision: "allow", findings: [{ source: "classifier", verdict: "allow", reason: "irreversible, but an undo is registered" }] };
  const now = Date.now();
  const entries = log([proposed("call_9", "delete_note", { arguments: { note: "n1" }, contract, derivation }),
    { type: "call.started", call: "call_9", attempt: 1, cause: "first" },
    finished("call_9", "delete_note", { ok: { value: { deleted: "n1" } } }, { started_at: now - 40, finished_at: now })]);
  await shown.evaluate(([given, tools]) => {
    const model = window.timeline(given, tools);
    const element = document.querySelector("haft-timeline");
    element.client = { clockSkew: 0, get: async () => ({ state: "none" }), undo: async (session, call) => {
      window.told.push(call);
      return { state: "done", session, call: "call_10" };
    } };
    element.model = model;
  }, [entries, [["delete_note", { undo: { tool: "restore_note", window_ms: 600_000 } }]]]);
  const timeline = shown.locator("haft-timeline");
  await timeline.locator("summary", { hasText: "delete_note" }).click();
  await timeline.getByText("Irreversible", { exact: true }).waitFor();
  await timeline.getByText("irreversible, but an undo is registered").waitFor({ state: "attached" });
  assert.equal(await timeline.locator("haft-approval").count(), 0, "nobody was asked");
  await timeline.getByRole("button", { name: "Undo" }).click();
  await timeline.getByText("Taken back").waitFor();
  assert.deepEqual(await shown.evaluate(() => window.told), ["call_9"]);
  await shown.context().close();
});

// S0-34: whoever reads a stream passes over what it does not know.
test("S0-34 events of a type that the page does not know change nothing", async () => {
  const steps = [proposed("call_1", "get_weather"), finished("call_1", "get_weather", { ok: { content: [] } })];
  const unknown = { type: "call.teleported", call: "call_1", to: "elsewhere" };
  const shown = await page();
  const seen = (events) => shown.evaluate((entries) => {
    const model = window.model(entries);
    return { calls: [...model.calls.values()].map((call) => window.simpleStatus(call)), items: model.items.length };
  }, log(events));
  assert.deepEqual(await seen([unknown, steps[0], unknown, steps[1], unknown]), await seen(steps));
  await shown.context().close();
});

// S0-28, D21: one table and its vectors, read by both.
test("S0-28 D21 the page classifies names as the server does", async () => {
  const table = JSON.parse(await readFile(new URL("../../../haft-core/data/tool-modes.json", import.meta.url), "utf8"));
  const shown = await page();
  const found = await shown.evaluate((given) => given.vectors.map(({ name }) => window.classify(given, name)), table);
  assert.deepEqual(found, table.vectors.map(({ mode }) => mode));
  await shown.context().close();
});

for (const scheme of ["light", "dark"]) {
  test(`axe finds nothing serious, ${scheme}`, async () => {
    const shown = await page({ scheme });
    for (const [tag, more] of [["haft-approval", {}], ["haft-elicitation", QUESTION], ["haft-settlement", { kind: "settlement", reason: "in_doubt" }]]) {
      await shown.evaluate(([name, pending]) => window.put(name, pending), [tag, waiting(more)]);
      await armed(shown);
      if (tag === "haft-approval") {
        await shown.getByRole("button", { name: "Edit" }).click();
        await shown.getByText("Bounded…").click();
      } else if (tag === "haft-elicitation") {
        await shown.getByRole("button", { name: "Send answer" }).click();
      }
      assert.deepEqual(await axeFindings(shown), [], tag);
    }
    await shown.context().close();
  });
}

test("a card is usable on a narrow screen", async () => {
  const shown = await page({ width: 340 });
  await shown.evaluate((pending) => window.put("haft-approval", pending), waiting());
  const width = await shown.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 340, `it is ${width} wide`);
  const box = await shown.getByRole("button", { name: "Approve" }).boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 340 && box.height >= 32);
  await shown.context().close();
});

test("a session of 5,000 events is in the page only where it is looked at", async () => {
  const shown = await page();
  const events = [{ type: "session.opened", session: "sesn_1", config: {}, by: { kind: "user", id: "ann" } }];
  for (let at = 0; events.length < 5000; at += 1) {
    events.push(proposed(`call_${at}`, "read_file", { arguments: { path: `/work/${at}.txt` } }), { type: "call.admitted", call: `call_${at}`, permit: {} },
      { type: "call.started", call: `call_${at}`, attempt: 1, cause: "first" }, finished(`call_${at}`, "read_file", { ok: { content: [{ type: "text", text: `content ${at}` }] } }));
  }
  const { took, items } = await shown.evaluate(async (entries) => {
    const began = performance.now();
    const model = window.timeline(entries);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return { took: performance.now() - began, items: model.items.length };
  }, log(events));
  const { nodes } = await drawn(shown);
  assert.ok(items > 1200 && nodes < 4000, `${items} items, ${nodes} nodes`);
  const frames = await shown.evaluate(async () => {
    const times = [];
    let last = performance.now();
    for (let step = 0; step < 60; step += 1) {
      window.scrollBy(0, 900);
      await new Promise((done) => requestAnimationFrame(done));
      times.push(performance.now() - last);
      last = performance.now();
    }
    return times.sort((a, b) => a - b);
  });
  console.log(`# 5,000 events: ${took.toFixed(0)} ms to show, ${nodes} nodes; scrolling: median ${frames[30].toFixed(0)} ms, worst ${frames.at(-1).toFixed(0)} ms a frame`);
  await shown.context().close();
});
