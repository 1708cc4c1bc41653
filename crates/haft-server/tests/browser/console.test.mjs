/** The console in a real Chromium against a real `haft serve`. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { at, browser, button, decideTogether, decisions, opensDesk, server, shot } from "./desk.mjs";
import { MARKUP } from "./fixtures.mjs";
import { armed, axeFindings, open, serveStatic, settled } from "./harness.mjs";
import { KEY, Server } from "./server.mjs";

opensDesk();

/** The views that the docs show, and how. */
const PICTURED = ["inbox-light", "inbox-dark", "session-narrow"];

// S4-18, S4-32: what runs and what waits, each shown by who runs it.
test("a fresh install leads from the printed address through a question, a diff, an approval and an undo", async () => {
  const own = await Server.start();
  const page = await open(browser, own.address, { deviceScaleFactor: 1, width: 1360 });
  await page.getByText("Nothing waits for you").waitFor();
  assert.equal(new URL(page.url()).hash, "#/inbox");
  await page.getByRole("link", { name: "Start a session" }).click();
  await page.getByText("Take the tour").waitFor();
  await shot(page, "sessions");
  await page.getByText("Take the tour").click();
  await page.getByLabel("Who is it for?").fill("A");
  await button(page, "Send answer").click();
  await page.getByText("At least 2 characters; this has 1.").waitFor();
  await shot(page, "question");
  await page.getByLabel("Who is it for?").fill("Ann");
  await page.getByLabel("friendly").check();
  await button(page, "Send answer").click();
  await page.getByText("workspace/note.md").first().waitFor();
  await page.locator("haft-approval tr.added").waitFor();
  await armed(page);
  await shot(page, "session");
  await button(page, "Approve").click();
  await page.getByText("That was the tour").waitFor();
  await button(page, "Undo").last().click();
  await page.getByText("Taken back").waitFor();
  await shot(page, "undo");
  assert.deepEqual(page.troubles, []);
  await page.reload();
  await page.getByText("Taken back").waitFor();
  // The token was good once: another tab is asked for the key.
  const other = await open(browser, own.address);
  await other.getByLabel("API key").waitFor();
  await other.context().close();
  await page.context().close();
  await own.stop();
});

test("a wrong key is refused, and a good one is kept for the tab alone", async () => {
  const page = await open(browser, server.base);
  await page.getByLabel("API key").fill("wrong");
  await button(page, "Sign in").click();
  await page.getByText("That key is not known here").waitFor();
  await page.getByLabel("API key").fill(KEY);
  await button(page, "Sign in").click();
  await page.getByRole("heading", { name: "Inbox" }).waitFor();
  const other = await page.context().newPage();
  await other.goto(server.base);
  await other.getByLabel("API key").waitFor();
  assert.deepEqual(await page.context().cookies(), []);
  await page.context().close();
});

test("the inbox is live, and a denial takes its note to the model", async () => {
  const page = await at("/inbox");
  await page.getByText("Nothing waits for you").waitFor();
  const session = await server.tourAtApproval();
  await page.getByRole("textbox", { name: "Note" }).fill("not on a Friday");
  await button(page, "Deny").click();
  await page.getByText("Denied by you").waitFor();
  const outcome = await server.until(async () => (await server.events(session)).find(({ event }) => event.type === "call.finished" && event.outcome.result.err?.class === "denied"));
  assert.match(outcome.event.outcome.result.err.message, /not on a Friday/);
  await page.context().close();
});

test("an approver can change what runs, is shown what that would do, and the log says so", async () => {
  const session = await server.tourAtApproval();
  const page = await at(`/sessions/${session}`);
  await button(page, "Edit").click();
  await page.getByLabel("New string").fill("Haft 0.1 is here.");
  await button(page, "Approve with changes").click();
  await page.getByText("The arguments were edited; this is what they would do.").waitFor();
  await page.locator("tr.added", { hasText: "Haft 0.1 is here." }).waitFor();
  await button(page, "Approve").click();
  await page.getByText("That was the tour").waitFor();
  const ran = (await server.events(session)).find(({ event }) => event.type === "call.resolved" && event.decision.type === "approve");
  assert.equal(ran.event.decision.arguments.record.new_string, "Haft 0.1 is here.");
  await page.locator("details.call", { hasText: "edit" }).last().locator("summary").first().click();
  await page.getByText("As the model proposed them").waitFor();
  await page.context().close();
});

// S4-20, S4-30
test("S4-20 S4-30 of two tabs one decides, and the other is told who was first", async () => {
  const session = await server.tourAtApproval();
  const tabs = await Promise.all([at(`/sessions/${session}`), at(`/sessions/${session}`)]);
  const answers = [];
  for (const tab of tabs) tab.on("response", (response) => response.url().endsWith("/resolve") && answers.push(response.status()));
  for (const tab of tabs) await button(tab, "Approve").waitFor();
  for (const tab of tabs) await armed(tab);
  await decideTogether(tabs);
  await Promise.all(tabs.map((tab) => tab.evaluate(() => {
    const card = document.querySelector("haft-timeline").shadowRoot.querySelector("haft-approval");
    card.shadowRoot.querySelector(".primary").click();
  })));
  await server.until(() => answers.length === 2);
  assert.deepEqual(answers.sort(), [200, 409]);
  assert.equal((await decisions(session)).filter((decision) => decision === "approve").length, 1);
  for (const tab of tabs) await tab.context().close();
});

test("S4-20 whoever looks at a card that someone else decides sees by whom", async () => {
  const session = await server.tourAtApproval();
  const wait = (await server.get(`/pending?session=${session}`)).data[0];
  const page = await at(`/inbox/${wait.call} ${wait.round}`);
  await button(page, "Approve").waitFor();
  await server.post(`/sessions/${session}/calls/${wait.call}/resolve`, { type: "deny" });
  await page.getByText("Denied by admin").waitFor();
  const late = await server.call("POST", `/haft/v1/sessions/${session}/calls/${wait.call}/resolve`, { type: "approve" });
  assert.equal(late.status, 409);
  assert.deepEqual([late.body.error.details.code, late.body.error.details.decided.decision, late.body.error.details.decided.by.id], ["stale", "deny", "admin"]);
  await page.context().close();
});

test("a wait that runs out while it is looked at says so, and the session goes on", async () => {
  let wasSeenOpen = false;
  // A page that takes longer to load than the wait lasts starts over with a longer wait.
  for (let seconds = 4; !wasSeenOpen; seconds *= 4) {
    assert.ok(seconds <= 256, "the page does not show the question");
    const own = await Server.start({ args: ["--suspend-ttl", `${seconds}s`] });
    const session = await own.tour();
    const page = await at(`/sessions/${session}`, { of: own });
    // The expiry is the question's outcome; the script then goes on to the next call.
    const expired = page.locator("details.call[data-status=error]").first();
    const question = page.locator("haft-elicitation", { hasText: "A question for you" });
    await question.or(expired).first().waitFor();
    wasSeenOpen = await question.isVisible();
    await expired.waitFor();
    await own.until(async () => (await own.events(session)).some(({ event }) => event.type === "call.resolved" && event.decision.type === "expired"));
    await page.context().close();
    await own.stop();
  }
});

test("several alike are approved together", async () => {
  const own = await Server.start();
  const sessions = await Promise.all([own.tourAtApproval(), own.tourAtApproval()]);
  const page = await at("/inbox", { of: own });
  const boxes = page.getByLabel("Choose edit");
  await boxes.nth(1).waitFor();
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await button(page, "Approve all 2").click();
  for (const session of sessions) await own.until(async () => (await decisions(session, own)).includes("approve"));
  await page.context().close();
  await own.stop();
});

test("nothing is lost when the server is killed while people look and is started again", async () => {
  const own = await Server.start();
  const session = await own.tourAtApproval();
  const page = await at(`/sessions/${session}`, { of: own });
  await button(page, "Approve").waitFor();
  const before = await page.evaluate(() => document.querySelector("haft-timeline").model.seq);
  await own.kill();
  await page.getByText("Connection lost").waitFor();
  await own.up();
  await page.getByText("Connection lost").waitFor({ state: "hidden" });
  await button(page, "Approve").click();
  await page.getByText("That was the tour").waitFor();
  const events = await own.until(async () => {
    const all = await own.events(session);
    const seen = await page.evaluate(() => document.querySelector("haft-timeline").model.seq);
    return all.some(({ event }) => event.type === "turn.ended") && seen === all.at(-1).seq && all;
  }, "the page to show the whole session");
  assert.ok(events.at(-1).seq > before);
  assert.deepEqual(events.map(({ seq }) => seq), events.map((_, index) => index + 1));
  assert.equal(events.filter(({ event }) => event.type === "call.started" && event.cause === "first").length, 3);
  await page.context().close();
  await own.stop();
});

test("an interrupt ends what waits", async () => {
  const session = await server.tourAtApproval();
  const page = await at(`/sessions/${session}`);
  await button(page, "Interrupt").click();
  await page.getByText("Interrupted by admin").waitFor();
  await page.getByText("idle", { exact: true }).waitFor();
  await page.context().close();
});

test("a standing permission is tried on what happened, given, used and taken back", async () => {
  const session = await server.tourAtApproval();
  const page = await at(`/permissions/${session}`);
  await page.getByRole("heading", { name: "Decisions" }).waitFor();
  await page.locator("summary", { hasText: "edit" }).click();
  await page.getByText("the agent's permission policy for this tool").first().waitFor();
  await button(page, "Propose a standing permission").click();
  await page.getByText("1 of 1").waitFor();
  await page.getByText("1 of them waits now and would go on at once").waitFor();
  await button(page, "Save").scrollIntoViewIfNeeded();
  await shot(page, "permissions");
  assert.deepEqual(await axeFindings(page), []);
  await button(page, "Save").click();
  await server.until(async () => (await decisions(session)).includes("granted"));
  await button(page, "Revoke").click();
  await server.until(async () => (await server.get(`/sessions/${session}/grants`)).data.length === 0);
  await page.context().close();
});

test("a yes for the session lets the next call through, with its reason on record", async () => {
  const session = await server.tourAtApproval();
  const page = await at(`/sessions/${session}`);
  await page.getByText("This session", { exact: true }).click();
  await button(page, "Approve for the session").click();
  await page.getByText("That was the tour").waitFor();
  await page.getByLabel("Message").fill("again");
  await page.keyboard.press("Enter");
  await page.getByLabel("Who is it for?").fill("Bob");
  await page.getByLabel("formal").check();
  await button(page, "Send answer").click();
  await server.until(async () => (await server.events(session)).some(({ event }) => event.type === "call.admitted" && event.permit.basis.grant));
  await page.context().close();
});

// S0-17: what only reads runs without consent.
test("S0-17 a tool is tried with a form, through the whole lifecycle", async () => {
  const page = await at("/tools/glob");
  await page.getByLabel("Pattern").fill("**/*.md");
  await button(page, "Run").click();
  await page.getByText("This is needed.").waitFor();
  await page.getByLabel("Path", { exact: true }).fill("/workspace");
  await button(page, "Run").click();
  await page.locator("[data-try=glob] .badge.good").waitFor();
  await shot(page, "tools");
  await page.context().close();
});

test("what people, models and tools write is never taken for markup", async () => {
  const make = async (path, body) => {
    const { status, body: made } = await server.call("POST", `/v1/${path}`, body);
    assert.equal(status, 200, JSON.stringify(made));
    return made.id;
  };
  const name = MARKUP.slice(0, 200);
  const agent = await make("agents", { name, model: "scripted/demo", description: MARKUP, system: MARKUP, metadata: { note: MARKUP }, tools: [{ type: "custom", name: "look", description: MARKUP, input_schema: { type: "object", properties: { at: { type: "string", title: MARKUP, description: MARKUP } } } }] });
  const changed = await server.call("POST", `/v1/agents/${agent}`, { version: 1, system: `${MARKUP}\n${MARKUP}` });
  assert.equal(changed.status, 200);
  const environment = await make("environments", { name, description: MARKUP });
  const store = await make("memory_stores", { name, description: MARKUP });
  await make(`memory_stores/${store}/memories`, { path: "/<img src=x onerror=alert(1)>.md", content: MARKUP });
  const session = await server.tour(MARKUP);
  const question = await server.until(async () => (await server.get(`/pending?session=${session}`)).data[0]);
  await server.post(`/sessions/${session}/calls/${question.call}/resolve`, { type: "answer", value: { reader: MARKUP.slice(0, 78), tone: "plain" } });
  const wait = await server.until(async () => (await server.get(`/pending?session=${session}`)).data.find(({ kind }) => kind === "approval"));
  const edited = { ...wait.arguments, new_string: MARKUP };
  await server.post(`/sessions/${session}/calls/${wait.call}/resolve`, { type: "approve", arguments: edited, note: MARKUP });
  await server.until(async () => (await server.get(`/pending?session=${session}`)).data.find(({ round }) => round === 2), "the second look");
  await server.post(`/sessions/${session}/calls/${wait.call}/resolve`, { type: "approve", note: MARKUP });
  await server.until(async () => (await server.events(session)).some(({ event }) => event.type === "turn.ended"));
  await server.post(`/wakes/${session}`, { after_ms: 3_600_000, reason: MARKUP, note: MARKUP });
  for (const place of ["/inbox", "/sessions", `/sessions/${session}`, `/permissions/${session}`, `/permissions/rules/${agent}`, "/tools", `/agents/agents/${agent}`,
    `/agents/environments/${environment}`, `/agents/memory_stores/${store}`, `/audit/${session}`]) {
    const page = await at(place);
    await settled(page);
    await page.evaluate(() => {
      const roots = [document, ...[...document.querySelectorAll("*")].map((element) => element.shadowRoot).filter(Boolean)];
      for (const root of roots) for (const details of root.querySelectorAll("details")) details.open = true;
    });
    await settled(page);
    const edit = page.getByRole("button", { name: "Edit", exact: true }).first();
    if (place.startsWith("/agents") && await edit.isVisible()) {
      await edit.click();
      await page.locator("form textarea").first().fill(`${MARKUP}!`);
      await page.getByRole("button", { name: "Review changes" }).first().click();
      await page.locator("form .diff").waitFor();
    }
    assert.equal(await page.evaluate(() => window.hacked), undefined, place);
    const foreign = await page.evaluate(() => {
      const roots = [document, ...[...document.querySelectorAll("*")].map((element) => element.shadowRoot).filter(Boolean)];
      return roots.flatMap((root) => [...root.querySelectorAll("img:not([src='/console/icon.svg']), script:not([src]), [onerror], svg[onload]")]).length;
    });
    assert.equal(foreign, 0, place);
    assert.deepEqual(page.troubles, [], place);
    await page.context().close();
  }
});

/** Every view by its address and its name. */
const views = (session) => [["/inbox", "inbox"], ["/sessions", "list"], [`/sessions/${session}`, "session"], [`/permissions/${session}`, "permissions"], ["/permissions/rules", "rules"], ["/permissions/grants", "grants"],
  ["/tools", "tools"], ["/agents", "agents"], ["/agents/agents/new", "new agent"], ["/agents/environments", "environments"], ["/agents/memory_stores", "memory"],
  ["/agents/skills", "skills"], ["/agents/vaults", "vaults"], ["/agents/files", "files"], [`/audit/${session}`, "audit"]];

for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 390]]) {
  test(`axe finds nothing serious in any view, ${scheme}, ${width} wide`, async () => {
    const session = await server.tourAtApproval();
    const page = await at("/inbox", { scheme, width });
    for (const [place, name] of views(session)) {
      await page.evaluate((hash) => void (location.hash = hash), place);
      await page.locator("h1").first().waitFor();
      await settled(page);
      assert.deepEqual(await axeFindings(page), [], place);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${place} is ${wide} wide`);
      const look = width < 1000 ? "narrow" : scheme;
      if (PICTURED.includes(`${name}-${look}`)) await shot(page, `${name}-${look}`);
    }
    // A list that the server does not have is asked for, and refused.
    assert.deepEqual(page.troubles, []);
    await page.context().close();
    await server.post(`/sessions/${session}/interrupt`, {});
  });
}

test("a page of another site that the operator named can use the client, and no other", async () => {
  const site = await serveStatic({ "/page.html": `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>A site</title>` }, { policy: "default-src *" });
  const own = await Server.start({ args: ["--allow-origin", site.base] });
  const page = await open(browser, `${site.base}/page.html`);
  const use = (base) => page.evaluate(async ([from, key]) => {
    const { Haft } = await import(`${from}/console/haft.js`);
    return (await new Haft({ base: from, key }).pending()).data.length;
  }, [base, KEY]);
  assert.equal(await use(own.base), 0);
  await assert.rejects(use(server.base));
  await page.context().close();
  await own.stop();
  site.close();
});

test("a page of another site, or one in a frame, gets nothing", async () => {
  const foreign = await fetch(`${server.base}/haft/v1/pending`, { headers: { authorization: `Bearer ${KEY}`, origin: "http://evil.example" } });
  assert.equal(foreign.status, 403);
  const page = await fetch(server.base);
  assert.match(page.headers.get("content-security-policy"), /script-src 'self'.*frame-ancestors 'none'.*require-trusted-types-for 'script'/);
  assert.equal(page.headers.get("x-content-type-options"), "nosniff");
});
