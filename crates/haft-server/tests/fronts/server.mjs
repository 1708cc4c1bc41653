// A real `haft serve` whose model is a local fake of the provider's HTTP API, and two agents on it.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { fakeProvider } from "../sdk-ts/fake_provider.mjs";
import { PATIENCE_MS, apiOf, endsWithUs, stopped } from "../sdk-ts/serving.mjs";

const KEY = "test-admin-key";
export const timeout = PATIENCE_MS;
export const headers = { authorization: `Bearer ${KEY}` };
export const ASKING = {
  type: "agent_toolset_20260401",
  default_config: { permission_policy: { type: "always_ask" } },
};
export const CUSTOM = {
  type: "custom",
  name: "pick_colour",
  description: "Lets the person pick a colour.",
  input_schema: { type: "object", properties: { of: { type: "string" } } },
};

export async function start() {
  const provider = await fakeProvider();
  const data = mkdtempSync(join(tmpdir(), "haft-fronts-"));
  const process_ = endsWithUs(process.env.HAFT, ["serve", "--listen", "127.0.0.1:0", "--data", data], {
    env: { ...process.env, HAFT_API_KEY: KEY, ANTHROPIC_BASE_URL: provider.url, ANTHROPIC_API_KEY: "fake" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = await apiOf(process_);
  const post = async (path, body) => {
    const answer = await fetch(url + path, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const environment = await post("/v1/environments", { name: "test" });
  return {
    url,
    provider,
    environment: environment.id,
    agent: async (tools) => (await post("/v1/agents", { name: "test", model: "claude-opus-5-5", tools })).id,
    stop: async () => {
      await stopped(process_);
      provider.close();
      rmSync(data, { recursive: true });
    },
  };
}
