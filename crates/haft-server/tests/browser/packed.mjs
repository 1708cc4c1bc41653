/** The npm package as it would be published, and the frameworks whose pages use it. */

import { execFile } from "node:child_process";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const HERE = import.meta.dirname;

/** Packs the client and unpacks it, as `npm install` would. */
export async function packed() {
  const place = await mkdtemp(path.join(tmpdir(), "haft-packed-"));
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", place], { cwd: path.join(HERE, "../../console") });
  const [{ filename }] = JSON.parse(stdout);
  await run("tar", ["-xzf", path.join(place, filename), "-C", place]);
  const root = path.join(place, "package");
  const files = (await readdir(root, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name))).sort();
  const manifest = JSON.parse(await readFile(path.join(root, "package.json"), "utf8"));
  return { place, root, files, manifest, remove: () => rm(place, { recursive: true, force: true }) };
}

/** Where an import of the package leads, by its `exports`. */
export function exported(manifest, name) {
  return manifest.exports[name].default;
}

/** Everything of the package, as pages below `/haft-client/`. */
export async function asPages({ root, files }) {
  const pages = {};
  for (const file of files.filter((name) => name.endsWith(".js"))) pages[`/haft-client/${file}`] = await readFile(path.join(root, file), "utf8");
  return pages;
}

/** React as modules that a page can import: it is published for bundlers only. */
export async function react() {
  const wrapped = async (name, file) => `
known[${JSON.stringify(name)}] = (() => {
  const module = { exports: {} };
  ((module, exports, require, process) => {
${await readFile(path.join(HERE, "node_modules", file), "utf8")}
  })(module, module.exports, (name) => known[name], { env: { NODE_ENV: "production" } });
  return module.exports;
})();`;
  const parts = [["react", "react/cjs/react.production.js"], ["scheduler", "scheduler/cjs/scheduler.production.js"],
    ["react-dom", "react-dom/cjs/react-dom.production.js"], ["client", "react-dom/cjs/react-dom-client.production.js"]];
  const bodies = await Promise.all(parts.map(([name, file]) => wrapped(name, file)));
  return `const known = {};\n${bodies.join("\n")}\nexport const React = known.react;\nexport const { createRoot } = known.client;\n`;
}

export function vue() {
  return readFile(path.join(HERE, "node_modules/vue/dist/vue.runtime.esm-browser.prod.js"), "utf8");
}

/** Checks a program that uses the package; returns what the compiler says. */
export async function typeChecked({ place, root }, program) {
  const { mkdir, rename, writeFile } = await import("node:fs/promises");
  const home = path.join(place, "consumer");
  await mkdir(path.join(home, "node_modules"), { recursive: true });
  await rename(root, path.join(home, "node_modules/haft-client"));
  await writeFile(path.join(home, "main.mts"), program);
  const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2024", "--lib", "es2024,dom,dom.iterable", "main.mts"];
  try {
    await run(path.join(HERE, "node_modules/.bin/tsc"), options, { cwd: home });
    return "";
  } catch (error) {
    return error.stdout;
  } finally {
    await rename(path.join(home, "node_modules/haft-client"), root);
  }
}
