// One stream for all tabs, and no event lost or shown twice, whatever ends.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Browser, Project, login, until } from "./harness.js";

const TABS = 10;
let browser, project, server;

before(async () => {
  browser = await Browser.start();
  project = new Project();
  // Takes a step for each line of a file.
  project.workflow("steps", {
    "START.sh": "#!/bin/bash\nuntil [ \"$(wc -l < ../ticks 2>/dev/null || wc -l < ticks)\" -ge \"$RAYMOND_VISITS\" ]; do sleep 0.02; done\nif grep -q stop ticks; then echo '<result>over</result>'; else echo '<goto>START</goto>'; fi\n",
  });
  writeFileSync(join(project.folder, "ticks"), "");
  server = await project.serve("--listen", "127.0.0.1:0");
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, []);
});

const tick = (text = "go") => appendFileSync(join(project.folder, "ticks"), `${text}\n`);
const shown = (page) => page.locator(".event").evaluateAll((rows) => rows.map((row) => Number(row.dataset.seq)));
const has = (page, seq) => until(`event ${seq} is shown`, async () => (await shown(page)).includes(seq));
const last = () => project.events("many").at(-1).seq;

/// The median of how long after its time in the journal an event was on the screen, in milliseconds.
async function delay(page) {
  const seen = await page.evaluate(() => window.seen);
  const times = new Map(project.events("many").map((event) => [event.seq, Date.parse(event.time)]));
  const delays = seen.filter(([seq]) => times.has(seq)).map(([seq, time]) => time - times.get(seq)).sort((a, b) => a - b);
  assert.ok(delays.length > 5, `${delays.length} events were seen to come`);
  return delays[Math.floor(delays.length / 2)];
}

/// The events that a tab shows follow each other without a gap and without repetition.
async function unbroken(page) {
  const seqs = await shown(page);
  seqs.forEach((seq, index) => index && assert.equal(seq, seqs[index - 1] - 1, `a gap or a repetition in ${seqs}`));
}

test("ten tabs share one stream; when its tab is closed, none misses anything", async () => {
  project.background("steps", "--id", "many");
  await until("the run is there", () => project.raymond("status", "many").status === 0);
  const context = await browser.window();
  let streams = 0;
  context.on("request", (request) => (streams += /\/api\/v1\/events(\?|$)/.test(request.url()) ? 1 : 0));
  const pages = [];
  for (let tab = 0; tab < TABS; tab += 1) pages.push(await login(context, server, "#/runs/many"));
  for (const page of pages) await page.locator(".event").first().waitFor();
  assert.equal(streams, 1, "one stream is enough");
  tick();
  await until("a step is taken", () => last() > 4);
  const seen = last();
  for (const page of pages) await has(page, seen);
  await pages.shift().close();
  tick();
  tick();
  await until("two more are taken", () => last() >= seen + 4);
  const later = last();
  for (const page of pages) {
    await has(page, later);
    await unbroken(page);
  }
  await until("another tab reads the stream", () => streams === 2);
  await context.close();
});

test("an event is on the screen soon after it is on disk", async () => {
  const context = await browser.window();
  const page = await login(context, server, "#/runs/many");
  await has(page, last());
  await page.evaluate(() => {
    window.seen = [];
    const known = new Set();
    const note = () => {
      for (const row of document.querySelectorAll(".event[data-seq]")) {
        const seq = Number(row.dataset.seq);
        if (!known.has(seq)) window.seen.push([seq, Date.now()]);
        known.add(seq);
      }
    };
    note();
    window.seen = [];
    new MutationObserver(note).observe(document.body, { childList: true, subtree: true, attributes: true });
  });
  for (let step = 0; step < 10; step += 1) {
    const before = last();
    tick();
    await until("a step is taken", () => last() >= before + 2);
    await has(page, last());
  }
  const median = await delay(page);
  console.log(`# on the screen after ${median} ms`);
  // How fast a busy machine is says nothing about the page.
  if (process.env.RAYMOND_PAGE_LIMITS) assert.ok(median < 200, `${median} ms`);
  await context.close();
});

test("serve is killed and started again: the run goes on, nothing is missed or shown twice", async () => {
  const context = await browser.window();
  const page = await login(context, server, "#/runs/many");
  await page.locator(".event").first().waitFor();
  await has(page, last());
  server.child.kill("SIGKILL");
  await page.getByText("cannot be reached").waitFor();
  const before = last();
  tick();
  tick();
  await until("the run goes on by itself", () => last() >= before + 4);
  server = await project.serve("--listen", `127.0.0.1:${server.port}`);
  await has(page, last());
  await page.getByText("cannot be reached").waitFor({ state: "detached" });
  tick();
  await until("a step more", () => last() >= before + 6);
  await has(page, last());
  await unbroken(page);
  tick("stop");
  await page.locator(".outcome", { hasText: "over" }).waitFor();
  await unbroken(page);
  await context.close();
});
