/** The client and its elements as other people use them: packed by npm, in plain HTML, React and Vue pages. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { button } from "./desk.mjs";
import { armed, axeFindings, launch, open, serveStatic } from "./harness.mjs";
import { asPages, exported, packed, react, typeChecked, vue } from "./packed.mjs";
import { KEY, Server } from "./server.mjs";

let browser;
let server;
let site;
let pack;

const page = (script) => `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Somebody’s page</title>
<link rel="icon" href="data:,"><script type="module" src="${script}"></script></head><body><main><h1>Somebody’s page</h1><h2>What waits</h2><div id="root"></div></main></body></html>`;

/** What all three pages do before they show anything. */
const shared = (from) => `
import { Haft } from ${JSON.stringify(from("."))};
import ${JSON.stringify(from("./elements/approval"))};
import ${JSON.stringify(from("./elements/elicitation"))};
import ${JSON.stringify(from("./elements/timeline"))};
const [base, key, session] = JSON.parse(decodeURIComponent(location.hash.slice(1)));
const client = new Haft({ base, key });
const waiting = async () => (await client.pending()).data.filter((wait) => wait.session === session && wait.kind !== "client_exec");
const tags = { approval: "haft-approval", elicitation: "haft-elicitation" };
const clientTools = { get_browser_language: () => ({ language: navigator.language }) };
window.over = [];
`;

const PLAIN = `
const timeline = document.createElement("haft-timeline");
Object.assign(timeline, { clientTools, client, session });
const cards = document.createElement("div");
document.getElementById("root").append(cards, timeline);
const look = async () => {
  const [wait] = await waiting();
  if (!wait) return cards.replaceChildren();
  const card = Object.assign(document.createElement(tags[wait.kind]), { client, pending: wait });
  card.addEventListener("haft-over", (event) => window.over.push(event.detail.decision));
  cards.replaceChildren(card);
};
client.watchPending(() => void look());
`;

const REACT = `
import { React, createRoot } from "/react.js";
const h = React.createElement;
function App() {
  const [waits, setWaits] = React.useState([]);
  React.useEffect(() => {
    const watch = client.watchPending(() => void waiting().then(setWaits));
    return () => watch.close();
  }, []);
  return h("div", null, waits.map((wait) => h(tags[wait.kind], { key: wait.call + wait.round, client, pending: wait, "onhaft-over": (event) => window.over.push(event.detail.decision) })),
    h("haft-timeline", { clientTools, client, session }));
}
createRoot(document.getElementById("root")).render(h(App));
`;

const VUE = `
import { createApp, h, markRaw, onMounted, onUnmounted, shallowRef } from "/vue.js";
markRaw(client);
createApp({ setup() {
  const waits = shallowRef([]);
  let watch;
  onMounted(() => { watch = client.watchPending(() => void waiting().then((found) => { waits.value = found; })); });
  onUnmounted(() => watch.close());
  return () => h("div", [...waits.value.map((wait) => h(tags[wait.kind], { key: wait.call + wait.round, client, pending: wait, onHaftOver: (event) => window.over.push(event.detail.decision) })),
    h("haft-timeline", { clientTools, client, session })]);
} }).mount("#root");
`;

before(async () => {
  [browser, pack] = await Promise.all([launch(), packed()]);
  const from = (name) => `/haft-client/${exported(pack.manifest, name).slice(2)}`;
  const pages = { ...(await asPages(pack)), "/react.js": await react(), "/vue.js": await vue() };
  for (const [name, script] of Object.entries({ plain: PLAIN, react: REACT, vue: VUE })) {
    pages[`/${name}.html`] = page(`/${name}-page.js`);
    pages[`/${name}-page.js`] = shared(from) + script;
  }
  // A strict policy of somebody else's: no inline script or style, no eval.
  const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src http://127.0.0.1:*";
  site = await serveStatic(pages, { policy });
  server = await Server.start({ args: ["--allow-origin", site.base] });
});
after(async () => {
  await browser.close();
  site.close();
  await server.stop();
  await pack.remove();
});

test("the npm package holds the client, its elements and their types, and nothing of the console", () => {
  const code = pack.files.filter((name) => name.endsWith(".js"));
  const types = pack.files.filter((name) => name.endsWith(".d.ts"));
  assert.deepEqual(pack.files.filter((name) => !code.includes(name) && !types.includes(name)), ["README.md", "package.json"]);
  assert.deepEqual(types, code.map((name) => `types/${name.replace(/\.js$/, ".d.ts")}`).sort(), "a declaration for each module");
  for (const needed of ["haft.js", "elements/approval.js", "elements/elicitation.js", "elements/timeline.js"]) assert.ok(code.includes(needed), needed);
  assert.deepEqual(code.filter((name) => /^(app|views)/.test(name)), []);
  assert.equal(pack.manifest.dependencies, undefined);
  for (const [name, target] of Object.entries(pack.manifest.exports)) {
    for (const file of Object.values(target)) assert.ok(pack.files.includes(file.slice(2)), `${name}: ${file}`);
  }
});

test("a TypeScript program is checked against the package's types", async () => {
  const sound = `
import { Haft, HaftError, type Pending, type Entry } from "haft-client";
import { HaftApproval } from "haft-client/elements/approval";
import { HaftTimeline } from "haft-client/elements/timeline";
import { SessionModel } from "haft-client/session-model";
const haft = new Haft({ base: "http://127.0.0.1:7800", key: "k" });
const first: Pending | undefined = (await haft.pending()).data[0];
const card: HaftApproval = new HaftApproval();
card.pending = first ?? null;
haft.follow("sesn_x", { onEntry: (entry: Entry) => entry.seq + 1, tools: { get_location: async (args, { signal }) => ({ args, gone: signal.aborted }) } });
await haft.resolve("sesn_x", "call_x", { type: "approve", grant: { uses: 3 } }).catch((error: unknown) => error instanceof HaftError && error.decided?.by?.id);
const timeline: HaftTimeline = new HaftTimeline();
timeline.model = new SessionModel("sesn_x");
`;
  assert.equal(await typeChecked(pack, sound), "");
  const wrong = await typeChecked(pack, sound.replace('type: "approve"', 'type: "maybe"').replace("entry.seq + 1", "entry.sequence"));
  assert.match(wrong, /"maybe"/);
  assert.match(wrong, /'sequence'/);
});

for (const name of ["plain", "react", "vue"]) {
  // S4-31: the components are the same wherever they are used.
  test(`S4-31 a ${name} page answers a question, approves a change and follows the session`, async () => {
    const session = await server.tour();
    const hash = encodeURIComponent(JSON.stringify([server.base, KEY, session]));
    const opened = await open(browser, `${site.base}/${name}.html#${hash}`);
    await opened.getByLabel("Who is it for?").fill("Ann");
    await opened.getByLabel("plain").check();
    await button(opened, "Send answer").first().click();
    const card = opened.locator("#root haft-approval").first();
    await card.locator("tr.added").waitFor();
    await armed(opened);
    assert.deepEqual(await axeFindings(opened), []);
    await card.getByRole("button", { name: "Approve", exact: true }).click();
    await opened.locator("haft-timeline").getByText("That was the tour").waitFor();
    // The log may say that it goes on before the card has its answer.
    await server.until(() => opened.evaluate(() => window.over.length === 2), "both cards to be over");
    assert.deepEqual(await opened.evaluate(() => window.over), ["answer", "approve"]);
    assert.deepEqual(opened.troubles, []);
    await opened.context().close();
  });
}
