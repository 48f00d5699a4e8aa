// A run of 100,000 steps: first paint, and how much of the page there is.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { mkdirSync, openSync, writeSync, closeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { Browser, Project, login, until, visit } from "./harness.js";

const STEPS = 100000;
const PATIENCE = 300000;
/// What a step costs, and how long after one event the next one is.
const COST = 0.00001;
const EVENT_MS = 250;
let browser, project, server;

before(async () => {
  browser = await Browser.start();
  project = new Project();
  project.workflow("loop", { "START.sh": "#!/bin/bash\necho '<goto>START</goto>'\n" });
  // Makes `.raymond` as it must be.
  project.raymond("loop", "--id", "short", "--max-steps", "1");
  writeLongRun("long");
  // Raymond has not made it, so a person has to say that it counts.
  assert.match(project.raymond("doctor", "--adopt", "--yes").stdout, /long/);
  server = await project.serve("--listen", "127.0.0.1:0");
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, []);
});

test("a run of 100,000 steps is shown at once, with few elements, and any step is reached", async () => {
  const context = await browser.window();
  const page = await login(context, server);
  // The first look reads the whole journal, which takes a program that was built for tests a while.
  await page.locator(".run-table").waitFor({ timeout: PATIENCE });
  const cold = Date.now();
  await visit(page, server, `#/runs/long`);
  // What the run is stands there before its history is read. This journal has no snapshot, so that takes as long here.
  await page.locator(".run-head h1", { hasText: "long" }).waitFor({ timeout: PATIENCE });
  console.log(`# its head after ${Date.now() - cold} ms`);
  await page.locator(".step-row a").first().waitFor({ timeout: PATIENCE });
  console.log(`# at first painted after ${Date.now() - cold} ms`);
  // The second time, as a person sees it who comes back to the run.
  await visit(page, server, `#/`);
  await page.locator(".run-table").waitFor();
  const from = Date.now();
  await visit(page, server, `#/runs/long`);
  await page.locator(".step-row a").first().waitFor();
  const painted = Date.now() - from;
  console.log(`# painted after ${painted} ms`);
  // How fast a busy machine is says nothing about the page.
  if (process.env.RAYMOND_PAGE_LIMITS) assert.ok(painted < 1000, `${painted} ms`);
  const count = () => page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok((await count()) < 2000, `${await count()} elements`);
  const rows = page.locator(".step-rows");
  await rows.evaluate((element) => (element.scrollTop = element.scrollHeight / 2));
  await until("a step from the middle is shown", async () => {
    const numbers = await page.locator(".step-row a").evaluateAll((links) => links.map((link) => Number(link.getAttribute("href").split("/").at(-1))));
    return numbers.some((number) => Math.abs(number - STEPS / 2) < 200);
  });
  assert.ok((await count()) < 2000, `${await count()} elements`);
  await context.close();
});

test("the money of a long run rises as it was spent, up to the sum that status tells", async () => {
  const api = async (path) => (await fetch(`${server.base}/api/v1/${path}`, { headers: { Authorization: `Bearer ${server.token}` } })).json();
  const { money, started_at: started, last_at: last } = await api("runs/long/overview");
  const [begin, whole] = [Date.parse(started), Date.parse(last) - Date.parse(started)];
  const spent = (time) => Math.floor((time - begin) / (2 * EVENT_MS)) * COST;
  const total = (await api("runs/long")).cost_usd;
  assert.ok(Math.abs(total - STEPS * COST) < COST, `${total}`);
  assert.equal(money.at(-1).cost_usd, total);
  for (const point of money) assert.ok(Math.abs(point.cost_usd - spent(Date.parse(point.time))) < 3 * COST, JSON.stringify(point));
  const times = [begin, ...money.map((point) => Date.parse(point.time)), Date.parse(last)];
  times.forEach((time, index) => index && assert.ok(time - times[index - 1] < whole / 50, `nothing is told for ${time - times[index - 1]} ms of ${whole}`));
});

/// Writes the journal of a long run: one agent, one state, one event a batch.
function writeLongRun(run) {
  const state = join(project.folder, ".raymond/state");
  mkdirSync(state, { recursive: true });
  const start = Date.parse("2026-01-01T00:00:00Z");
  let [seq, text] = [0, ""];
  const file = openSync(join(state, `${run}.jsonl`), "wx", 0o600);
  const add = (event, fields) => {
    seq += 1;
    const line = JSON.stringify({ seq, time: new Date(start + seq * EVENT_MS).toISOString(), run, event, ...fields });
    text += line;
  };
  const commit = () => {
    const body = text.slice(0, -1);
    text = `${body},"commit":"${crc32(body).toString(16).padStart(8, "0")}"}\n`;
    writeSync(file, text);
    text = "";
  };
  const cwd = project.folder;
  add("run_started", { version: 1, workflow: "loop", scope: join(cwd, "loop"), entry: "START.sh", cwd, nonce: "7f0f8a66-0a43-4d3c-9ea0-6a0d1a2f4a11", options: { budget_usd: 10, max_parallel: 8, no_wait: false, skip_permissions: false } });
  text += "\n";
  add("agent_started", { agent: "main", state: "START.sh", cwd });
  commit();
  for (let step = 1; step <= STEPS; step += 1) {
    add("step_started", { agent: "main", step, attempt: 1, state: "START.sh", visits: step, hash: "507954b802f3484a" });
    commit();
    add("step_finished", { agent: "main", step, state: "START.sh", tag: "goto", target: "START.sh", cost_usd: COST, attempt_cost_usd: COST, duration_ms: 200 });
    commit();
  }
  closeSync(file);
}
