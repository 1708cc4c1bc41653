/** What people look at and edit beside the sessions: agents and their like, rules, wakes, journals. */

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";

import { at, button, decisions, opensDesk, server, shot } from "./desk.mjs";
import { axeFindings } from "./harness.mjs";
import { Server } from "./server.mjs";

opensDesk();

async function made(path, body) {
  const { status, body: thing } = await server.call("POST", `/v1/${path}`, body);
  assert.equal(status, 200, JSON.stringify(thing));
  return thing;
}

test("an agent is edited with a diff before it is saved, and its versions say what changed", async () => {
  const agent = await made("agents", { name: "Writer", model: "scripted/demo", system: "You write.\nBe brief.\nUse plain words.", tools: [{ type: "agent_toolset_20260401" }] });
  const page = await at(`/agents/agents/${agent.id}`, { width: 1360 });
  await button(page, "Edit").click();
  await page.getByLabel("Instructions").fill("You write.\nBe brief, and kind.\nUse plain words.");
  await button(page, "Review changes").click();
  const diff = page.locator("form .diff");
  await diff.locator("tr.removed", { hasText: "Be brief." }).waitFor();
  await diff.locator("tr.added", { hasText: "Be brief, and kind." }).waitFor();
  assert.equal(await diff.locator("tr.added, tr.removed").count(), 2, "only what changed");
  assert.equal((await server.call("GET", `/v1/agents/${agent.id}`)).body.version, 1, "nothing is saved by looking");
  await shot(page, "agent-edit");
  assert.deepEqual(await axeFindings(page), []);
  await button(page, "Save as version 2").click();
  await page.locator(".versions summary", { hasText: "changed system" }).click();
  await page.locator(".versions tr.added", { hasText: "Be brief, and kind." }).waitFor();
  await shot(page, "agent-versions");
  const saved = (await server.call("GET", `/v1/agents/${agent.id}`)).body;
  assert.deepEqual([saved.version, saved.system, saved.name], [2, "You write.\nBe brief, and kind.\nUse plain words.", "Writer"]);
  assert.deepEqual(page.troubles, []);
  await page.context().close();
});

test("whoever edits what someone else changed meanwhile is told, and nothing is lost", async () => {
  const agent = await made("agents", { name: "Shared", model: "scripted/demo" });
  const page = await at(`/agents/agents/${agent.id}`);
  await button(page, "Edit").click();
  await page.getByLabel("Description").fill("Mine");
  await server.call("POST", `/v1/agents/${agent.id}`, { version: 1, description: "Theirs" });
  await button(page, "Review changes").click();
  await button(page, "Save as version 2").click();
  await page.getByText("the agent is at version 2").waitFor();
  assert.equal(await page.getByLabel("Description").inputValue(), "Mine");
  assert.equal((await server.call("GET", `/v1/agents/${agent.id}`)).body.description, "Theirs");
  await page.context().close();
});

test("what cannot be read or is refused says so beside the form", async () => {
  const agent = await made("agents", { name: "Strict", model: "scripted/demo" });
  const page = await at(`/agents/agents/${agent.id}`);
  await button(page, "Edit").click();
  await page.getByLabel("Tools and who is asked").fill("[{");
  await button(page, "Review changes").click();
  await page.getByText("Tools and who is asked: expected JSON").waitFor();
  await page.getByLabel("Tools and who is asked").fill('[{"type": "custom"}]');
  await button(page, "Review changes").click();
  await button(page, "Save as version 2").click();
  await page.getByRole("alert").filter({ hasText: "tools" }).waitFor();
  assert.equal((await server.call("GET", `/v1/agents/${agent.id}`)).body.version, 1);
  await page.context().close();
});

test("an environment is made and changed, and both versions are kept", async () => {
  const page = await at("/agents/environments");
  await page.getByRole("link", { name: "New environment" }).click();
  await page.getByLabel("Name").fill("Quiet room");
  await button(page, "Review changes").click();
  await page.locator("tr.added", { hasText: "Quiet room" }).waitFor();
  await button(page, "Make the environment").click();
  await page.getByRole("heading", { name: "Quiet room" }).waitFor();
  await button(page, "Edit").click();
  await page.getByLabel("Description").fill("Off the network.");
  await button(page, "Review changes").click();
  await button(page, "Save").click();
  await page.locator(".versions summary", { hasText: "changed description" }).waitFor();
  assert.equal(await page.locator(".versions > li").count(), 2);
  await page.context().close();
});

test("a memory is kept, edited with a diff, and what it was stays readable", async () => {
  const store = await made("memory_stores", { name: "Team notes", description: "What the team agreed on." });
  await made(`memory_stores/${store.id}/memories`, { path: "/style.md", content: "# Style\n\nWrite plainly.\nNo jokes.\n" });
  const page = await at(`/agents/memory_stores/${store.id}`, { width: 1360 });
  await page.locator("summary", { hasText: "/style.md" }).click();
  await page.locator(".panel", { hasText: "What it holds" }).getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Text").fill("# Style\n\nWrite plainly.\nJokes are fine.\n");
  await button(page, "Review changes").click();
  await page.locator("tr.added", { hasText: "Jokes are fine." }).waitFor();
  await shot(page, "memory");
  await page.locator("form").getByRole("button", { name: "Save" }).click();
  // The list is made anew once it is saved; until then the old one is there to be clicked.
  await page.getByLabel("Text").waitFor({ state: "detached" });
  await page.locator("summary", { hasText: "/style.md" }).click();
  await page.getByRole("list", { name: "Versions of /style.md" }).locator("summary").first().click();
  await page.locator("tr.removed", { hasText: "No jokes." }).waitFor();
  assert.deepEqual(await axeFindings(page), []);
  await page.context().close();
});

test("the rules of an agent say what is asked about and why, and follow its policy", async () => {
  const page = await at("/permissions/rules/agent_demo", { width: 1360 });
  const rule = page.locator("ul[aria-label=Rules] summary", { hasText: "edit" });
  await rule.locator(".badge.warn").waitFor();
  await rule.click();
  await page.getByText("the agent's permission policy for this tool").first().waitFor();
  await shot(page, "rules");
  assert.deepEqual(await axeFindings(page), []);
  await page.getByLabel("Agent", { exact: true }).selectOption("node");
  await page.getByText("shell_exec").waitFor();
  await page.getByText("declared to ask").first().waitFor();
  await page.context().close();
});

test("a session says when it goes on by itself, and that can be taken back", async () => {
  const session = await server.tour();
  await server.waiting("elicitation", session);
  await server.post(`/wakes/${session}`, { after_ms: 3_600_000, reason: "Look whether anyone answered" });
  const page = await at(`/sessions/${session}`, { width: 1360 });
  await page.getByText("Look whether anyone answered").waitFor();
  await page.getByRole("list", { name: "Wakes" }).getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Look whether anyone answered").waitFor({ state: "detached" });
  assert.deepEqual((await server.get(`/wakes?session=${session}`)).data, []);
  await server.post(`/sessions/${session}/interrupt`, {});
  await page.context().close();
});

test("a journal is shown entry by entry and said to be whole", async () => {
  const session = await server.tour();
  await server.waiting("elicitation", session);
  const page = await at(`/audit/${session}`, { width: 1360 });
  const head = (await server.events(session)).length;
  await page.getByText(`Whole: ${head} entries`).waitFor();
  await page.locator("summary", { hasText: "call.proposed" }).first().click();
  await page.getByText('"contract": {').first().waitFor();
  await shot(page, "audit");
  assert.deepEqual(await axeFindings(page), []);
  await server.post(`/sessions/${session}/interrupt`, {});
  await page.context().close();
});

// S0-18: a bounded change runs by itself, and what it would do can be seen before.
test("S0-18 a bounded change shows its diff when it is wanted, and runs without anyone being asked", async () => {
  const page = await at("/tools/write", { width: 1360 });
  await page.getByLabel("Path", { exact: true }).fill("/workspace/note.md");
  await page.getByLabel("Content").fill("# A note\n\nWritten from a form.\n");
  await button(page, "Preview").click();
  await page.locator("[data-try=write] tr.added", { hasText: "Written from a form." }).waitFor();
  await page.locator("[data-try=write] .diff").scrollIntoViewIfNeeded();
  await shot(page, "preview");
  assert.deepEqual(await axeFindings(page), []);
  await button(page, "Run").click();
  await page.locator("[data-try=write] .badge.good").waitFor();
  const [listed] = (await server.get("/sessions?limit=1")).data;
  const events = await server.events(listed.id);
  assert.deepEqual(events.filter(({ event }) => event.type === "call.suspended"), [], "nobody was asked");
  assert.equal(events.find(({ event }) => event.type === "call.proposed").event.contract.mode, "safe_write");
  // A preview of what is there by now: the run made what was shown.
  await page.getByLabel("Content").fill("# A note\n\nWritten twice.\n");
  await button(page, "Preview").click();
  await page.locator("[data-try=write] tr.removed", { hasText: "Written from a form." }).waitFor();
  await page.context().close();
});

test("a permission for everyone is tried on what happened, settles what waits, and is taken back", async () => {
  const sessions = await Promise.all([server.tourAtApproval(), server.tourAtApproval()]);
  const page = await at(`/permissions/${sessions[0]}`, { width: 1360 });
  await page.locator("summary", { hasText: "edit" }).click();
  await button(page, "Propose a standing permission").click();
  await page.getByLabel("For whom").selectOption("tenant");
  await page.getByText("2 of them wait now and would go on at once").waitFor();
  await button(page, "Save").click();
  await page.getByText("Given; 2 waiting calls go on because of it.").waitFor();
  for (const session of sessions) await server.until(async () => (await decisions(session)).includes("granted"), "the grant to settle it");
  await page.getByRole("link", { name: "Standing permissions" }).click();
  await page.getByText("everyone here").waitFor();
  await shot(page, "grants");
  assert.deepEqual(await axeFindings(page), []);
  await button(page, "Revoke").click();
  await page.getByText("No standing permission").waitFor();
  assert.deepEqual((await server.get("/grants")).data, []);
  await page.context().close();
});

test("a mounted server's changed tool waits with its difference until somebody accepts it", async () => {
  const own = await Server.start({ args: ["--allow-mcp-commands"] });
  const file = path.join(own.data, "tools.txt");
  await writeFile(file, "echo:Say it again.");
  const peer = path.join(import.meta.dirname, "../../../haft-mcp/tests/it/peer.py");
  const env = { TOOLS_FILE: file, COUNTER: path.join(own.data, "counter") };
  await own.post("/mcp/servers", { name: "parrot", command: ["python3", peer], env });
  await writeFile(file, "echo:Say it louder.,shout:Does shout.");
  const page = await at("/tools", { of: own, width: 1360 });
  const row = page.getByRole("list", { name: "MCP servers" }).locator("li").first();
  await row.locator("summary").click();
  await button(row, "Ask it anew").click();
  await row.getByText("2 to accept").waitFor();
  await row.locator("tr.removed", { hasText: "Say it again." }).waitFor();
  await row.locator("tr.added", { hasText: "Say it louder." }).waitFor();
  assert.deepEqual(await axeFindings(page), []);
  await shot(page, "mounted");
  await button(row, "Accept this definition").first().click();
  await row.getByText("1 to accept").waitFor();
  await button(row, "Accept this definition").click();
  await own.until(async () => (await own.get("/mcp/servers/parrot")).pending.length === 0, "nothing to accept");
  assert.deepEqual(Object.keys((await own.get("/mcp/servers/parrot")).tools), ["echo", "shout"]);
  await row.locator("summary").click();
  await button(row, "Unmount").click();
  await page.getByText("None is mounted.").waitFor();
  assert.deepEqual(page.troubles, []);
  await page.context().close();
  await own.stop();
});
