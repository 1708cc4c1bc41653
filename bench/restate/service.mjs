// The work that is measured: durable steps, and a step that waits for a decision.
import * as restate from "@restatedev/restate-sdk";
import http from "node:http";

const payload = "x".repeat(300);
const waiting = new Map();

const work = restate.service({
  name: "work",
  handlers: {
    steps: async (ctx, count) => {
      for (let number = 0; number < count; number++) await ctx.run(`step ${number}`, () => payload);
      return count;
    },
    ask: async (ctx, key) => {
      await ctx.run("step", () => payload);
      const { id, promise } = ctx.awakeable();
      await ctx.run("publish", () => void waiting.set(key, id));
      return await promise;
    },
  },
});

// Where whoever decides finds what waits.
http
  .createServer((request, response) => response.end(waiting.get(decodeURIComponent(request.url.slice(1))) ?? ""))
  .listen(Number(process.env.WAITING_PORT), "127.0.0.1");
restate.serve({ services: [work], port: Number(process.env.SERVICE_PORT) });
