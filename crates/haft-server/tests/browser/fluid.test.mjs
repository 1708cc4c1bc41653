/** How the console feels: its first paint, and a session of 5,000 events. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { at, measured, opensDesk, server } from "./desk.mjs";
import { drawn } from "./harness.mjs";

const EVENTS = 5_000;

opensDesk();

/** A session with at least so many events, of an agent whose model cannot be reached. */
async function sessionOf(events) {
  const { body: agent } = await server.call("POST", "/v1/agents", { name: "Mute", model: "openai/none" });
  const { session } = await server.post("/sessions", { agent: agent.id, message: "0" });
  for (let number = 1; (await server.get(`/sessions/${session}`)).head < events; number += 1) {
    const say = () => server.post(`/sessions/${session}/messages`, { text: `Message ${number}` }).catch(() => {});
    await Promise.all(Array.from({ length: 20 }, say));
  }
  return session;
}

/** Opens a session, scrolls through it by whole screens, and says how that went. */
async function scrolled(session) {
  const { head } = await server.get(`/sessions/${session}`);
  const page = await at(`/sessions/${session}`, { width: 1360 });
  await server.until(() => page.evaluate((seq) => document.querySelector("haft-timeline")?.model?.seq >= seq, head), "all events");
  const timing = await page.evaluate(async () => {
    const paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN;
    const scroller = document.querySelector(".scroll");
    const frames = [];
    let last = performance.now();
    for (let step = 0; step < 80; step += 1) {
      scroller.scrollTop -= 700;
      await new Promise((done) => requestAnimationFrame(done));
      frames.push(performance.now() - last);
      last = performance.now();
    }
    frames.sort((a, b) => a - b);
    return { paint, all: performance.now(), median: frames[40], p95: frames[76] };
  });
  const found = await drawn(page);
  await page.context().close();
  return { ...timing, ...found, head };
}

test("a session of 5,000 events is drawn only where it is looked at", async () => {
  const [short, long] = [await scrolled(await sessionOf(300)), await scrolled(await sessionOf(EVENTS))];
  const ms = (value) => `${value.toFixed(0)} ms`;
  const row = ({ head, paint, median, p95, nodes }) => `| ${head.toLocaleString("en")} events | ${ms(paint)} | ${ms(median)} | ${ms(p95)} | ${nodes.toLocaleString("en")} |`;
  await measured("fluid", ["| session | first paint | frame while scrolling, median | 95 of 100 frames within | nodes in the page |", "|---|---|---|---|---|", row(short), row(long)].join("\n"));
  // The short session is looked at from its start, the long one has something above the window too.
  const said = `${long.shown} of ${long.chunks} chunks for ${long.head} events, ${short.shown} of ${short.chunks} for ${short.head}`;
  assert.ok(long.shown <= short.shown + 3 && long.chunks > 10 * long.shown, said);
  console.log(`# ${said}`);
});
