#!/usr/bin/env node
// Starts the program from the package for this platform, with its input, output and exit code.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const PACKAGES = { "linux x64": "@haft/linux-x64" };

function program() {
  const platform = `${process.platform} ${process.arch}`;
  const name = PACKAGES[platform];
  if (!name) {
    throw new Error(
      `haft has no program for ${platform}, only for ${Object.keys(PACKAGES).join(", ")}; ` +
        "build it from the source with cargo",
    );
  }
  try {
    return require.resolve(`${name}/bin/haft`);
  } catch {
    throw new Error(
      `the package ${name} is not installed beside haft; ` +
        "install again without `--omit=optional` and `--no-optional`",
    );
  }
}

// A terminal sends these to the whole group, so the program has them already.
const FROM_TERMINAL = ["SIGINT", "SIGQUIT", "SIGHUP"];

function start(path) {
  const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
  for (const signal of ["SIGTERM", "SIGUSR1", "SIGUSR2", ...FROM_TERMINAL]) {
    process.on(signal, () => {
      if (!(FROM_TERMINAL.includes(signal) && process.stdin.isTTY)) {
        child.kill(signal);
      }
    });
  }
  child.on("error", (error) => fail(`${path} does not start: ${error.message}`));
  child.on("exit", (code, signal) => {
    process.exit(code ?? 128 + constants.signals[signal]);
  });
}

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}

try {
  start(program());
} catch (error) {
  fail(error.message);
}
