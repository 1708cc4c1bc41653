/** The page of examples/browser-page in a real Chromium, against the real binary. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { start } from "../../../../examples/browser-page/serve.mjs";
import { axeFindings, launch, open } from "./harness.mjs";
import { BINARY } from "./server.mjs";

// S4-31: a client's tool and a form, on a page of another origin.
test("the example's page runs a tool and asks with a form", async (context) => {
  const browser = await launch();
  context.after(() => browser.close());
  const { url, stop } = await start(BINARY);
  context.after(stop);
  const page = await open(browser, url);
  await page.getByLabel("Who is it for?").fill("Ann");
  await page.getByLabel("plain").check();
  assert.deepEqual(await axeFindings(page), []);
  await page.getByRole("button", { name: "Send answer" }).click();
  await page.getByText("(get_browser_language done)").waitFor();
  await page.getByText("That was the tour.").waitFor();
});
