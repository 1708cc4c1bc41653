/** What a person is shown of hostile text, by the same file of answers as the terminal. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { legible } from "../../console/legible.js";

const ANSWERS = new URL("../../../haft-core/tests/golden/legible.json", import.meta.url);

test("the console shows hostile text as the terminal does", async () => {
  for (const [text, shown] of JSON.parse(await readFile(ANSWERS, "utf8"))) {
    assert.equal(legible(text), shown);
  }
});
