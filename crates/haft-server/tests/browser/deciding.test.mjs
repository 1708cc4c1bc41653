/** Deciding in every way: with keys alone, in doubt, from tabs that run tools themselves. */

import assert from "node:assert/strict";
import { after, test } from "node:test";

import { at, button, decideTogether, decisions, opensDesk, server, shot } from "./desk.mjs";
import { armed, axeFindings } from "./harness.mjs";
import { Server } from "./server.mjs";

opensDesk();

/** What became of the tour's call that runs in a browser. */
const language = (session) => server.until(async () => (await server.events(session)).find(({ event }) => event.type === "call.finished" && event.outcome.tool === "get_browser_language"), "the browser's call");

/** Answers the tour's question, after which it asks the browser. */
async function answered(session) {
  const wait = await server.until(async () => (await server.get(`/pending?session=${session}`)).data.find(({ kind }) => kind === "elicitation"));
  await server.post(`/sessions/${session}/calls/${wait.call}/resolve`, { type: "answer", value: { reader: "Ann", tone: "plain" } });
}

/** Counts how a tab's results were taken. */
function results(tab) {
  const statuses = [];
  tab.on("response", (response) => response.url().endsWith("/resolve") && response.request().postData()?.includes('"result"') && statuses.push(response.status()));
  return statuses;
}

// S4-28: what a page says is a result from outside.
test("S4-28 a client's call runs in the one tab that is there", async () => {
  const session = await server.tour();
  const tab = await at(`/sessions/${session}`);
  await tab.getByLabel("Who is it for?").waitFor();
  const statuses = results(tab);
  await answered(session);
  const done = await language(session);
  assert.equal(done.event.outcome.result.ok.value.language, "en-US");
  assert.deepEqual(done.event.outcome.provenance, { executor: "client", trust: "untrusted" });
  // The log may have it before the tab has heard so.
  await server.until(() => statuses.length > 0, "the tab to be answered");
  assert.deepEqual(statuses, [200]);
  await tab.context().close();
});

// S4-30
test("S4-30 of two tabs that run a client's call one wins, and the other is told stale", async () => {
  const session = await server.tour();
  const tabs = await Promise.all([at(`/sessions/${session}`), at(`/sessions/${session}`)]);
  for (const tab of tabs) await tab.getByLabel("Who is it for?").waitFor();
  const statuses = tabs.map(results);
  await decideTogether(tabs);
  await answered(session);
  await server.until(() => statuses.flat().length === 2, "both tabs to answer");
  assert.deepEqual(statuses.flat().sort(), [200, 409]);
  await language(session);
  const counted = (await server.events(session)).filter(({ event }) => event.type === "call.resolved" && event.decision.type === "result");
  assert.equal(counted.length, 1);
  for (const tab of tabs) assert.deepEqual(tab.troubles.filter((trouble) => !trouble.includes("409")), []);
  for (const tab of tabs) await tab.context().close();
});

// S4-29
test("S4-29 a client's call fails soon when no tab is there, and the session goes on", async () => {
  const session = await server.tour();
  await answered(session);
  const gone = await language(session);
  assert.equal(gone.event.outcome.result.err.class, "upstream");
  assert.ok((await decisions(session)).includes("client_gone"));
  await server.until(async () => (await server.get(`/pending?session=${session}`)).data.some(({ kind }) => kind === "approval"), "the next wait");
});

// S4-29: a tab that shows something else does not count as there.
test("S4-29 a tab that left the session runs nothing of it", async () => {
  const session = await server.tour();
  const tab = await at(`/sessions/${session}`);
  await tab.getByLabel("Who is it for?").waitFor();
  await tab.getByRole("link", { name: "Tools" }).click();
  await tab.getByRole("heading", { name: "Tools" }).waitFor();
  await answered(session);
  assert.equal((await language(session)).event.outcome.result.err.class, "upstream");
  await tab.context().close();
});

/** Three commands that were running when their server died, which is back by now; made once. */
let doubted;
function inDoubt() {
  return (doubted ??= (async () => {
    const own = await Server.start();
    const waits = [];
    for (let count = 1; count <= 3; count += 1) {
      void own.post("/tools/shell_exec/call", { arguments: { command: `sleep 60${count}` } }).catch(() => {});
      waits.push(await own.until(async () => (await own.get("/pending")).data.find(({ kind, session }) => kind === "approval" && !waits.some((known) => known.session === session)), "the approval"));
    }
    for (const { session, call } of waits) {
      await own.post(`/sessions/${session}/calls/${call}/resolve`, { type: "approve" });
      await own.until(async () => (await own.events(session)).some(({ event }) => event.type === "call.started"), "the start");
    }
    await own.kill();
    await own.up();
    await own.until(async () => (await own.get("/pending")).data.filter(({ kind }) => kind === "settlement").length === 3, "three calls in doubt");
    return { own, waits };
  })());
}
after(async () => void (await (await doubted)?.own.stop()));

/** The card of one of them in the inbox. */
async function doubtedCard(which) {
  const { own, waits } = await inDoubt();
  const { session, call } = waits[which];
  const { round } = (await own.get(`/pending?session=${session}`)).data[0];
  const page = await at(`/inbox/${call} ${round}`, { of: own });
  await page.getByText("Nobody but you can tell whether it took effect").waitFor();
  const ends = () => own.until(async () => (await own.events(session)).find(({ event }) => event.type === "call.finished"), "the call's end");
  return { own, page, session, ends };
}

// S0-20: what touches the machine waits for consent, here and wherever it is called.
test("S0-20 a call whose process died is left unknown by a person", async () => {
  const { page, ends } = await doubtedCard(0);
  await shot(page, "in-doubt");
  assert.deepEqual(await axeFindings(page), []);
  await button(page, "Leave it unknown").click();
  await page.getByText("left as it is by you").waitFor();
  assert.equal((await ends()).event.outcome.result.err.class, "interrupted");
  await page.context().close();
});

test("a call whose process died is said to have happened", async () => {
  const { page, ends } = await doubtedCard(1);
  await button(page, "It happened").click();
  await page.getByText("it happened by you").waitFor();
  assert.ok((await ends()).event.outcome.result.ok);
  await page.context().close();
});

test("a call whose process died is run again because a person says so", async () => {
  const { own, page, session } = await doubtedCard(2);
  await button(page, "It did not: run it again").click();
  const starts = async () => (await own.events(session)).filter(({ event }) => event.type === "call.started").length;
  await own.until(async () => (await starts()) === 2, "the second attempt");
  await page.context().close();
});

/** Presses Tab until something has the focus, inside shadow trees too. */
async function tabTo(page, text, most = 400) {
  const focused = () => page.evaluate(() => {
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    const labelled = element?.labels?.[0]?.textContent ?? "";
    return `${element?.getAttribute("aria-label") ?? ""} ${labelled} ${element?.tagName === "TEXTAREA" || element?.tagName === "INPUT" ? "" : element?.textContent ?? ""}`.trim();
  });
  for (let step = 0; step < most; step += 1) {
    await page.keyboard.press("Tab");
    if ((await focused()).startsWith(text)) return;
  }
  assert.fail(`${text} is not reached with Tab`);
}

test("keys alone decide in the inbox", async () => {
  const own = await Server.start();
  await own.tourAtApproval();
  const page = await at("/inbox", { of: own });
  await button(page, "Approve").waitFor();
  await armed(page);
  await page.keyboard.press("?");
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("n");
  await page.keyboard.type("fine by me");
  await page.keyboard.press("Tab");
  await page.keyboard.press("a");
  await page.getByText("Approved by you").waitFor();
  await page.context().close();
  await own.stop();
});

test("keys alone fill in a form, approve and take back", async () => {
  const session = await server.tour();
  const page = await at(`/sessions/${session}`);
  await page.getByLabel("Who is it for?").waitFor();
  await armed(page);
  await tabTo(page, "Who is it for?");
  await page.keyboard.type("Ann");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  await tabTo(page, "Send answer");
  await page.keyboard.press("Enter");
  await page.locator("haft-approval tr.added").waitFor();
  await armed(page);
  await tabTo(page, "Approve");
  await page.keyboard.press("Enter");
  await page.getByText("That was the tour").waitFor();
  await tabTo(page, "Undo");
  await page.keyboard.press("Enter");
  await page.getByText("Taken back").waitFor();
  assert.deepEqual(page.troubles, []);
  await page.context().close();
});

test("keys alone edit an agent", async () => {
  const page = await at("/agents/agents/agent_demo");
  await page.getByRole("heading", { name: "Demo (scripted)" }).waitFor();
  await tabTo(page, "Edit");
  await page.keyboard.press("Enter");
  await tabTo(page, "Description");
  await page.keyboard.press("End");
  await page.keyboard.type(" Edited with keys.");
  await tabTo(page, "Review changes");
  await page.keyboard.press("Enter");
  await page.locator("form .diff").waitFor();
  // The button that saves has the focus.
  await page.keyboard.press("Enter");
  await page.locator(".versions summary", { hasText: "changed description" }).waitFor();
  await page.context().close();
});
