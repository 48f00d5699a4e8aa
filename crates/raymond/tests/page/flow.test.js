// What a person does: start, watch, answer, stop, resume, look at a step.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Browser, Project, login, until } from "./harness.js";

let browser, project, server, context;

before(async () => {
  browser = await Browser.start();
  project = new Project("ship-feature", "morning-report");
  project.workflow("gate", {
    "START.sh": "#!/bin/bash\necho first line\nuntil [ -e ../open ] || [ -e open ]; do sleep 0.05; done\necho second line\necho '<goto>END</goto>'\n",
    "END.sh": "#!/bin/bash\necho '<result>through the gate</result>'\n",
  });
  project.workflow("costly", {
    "START.md": "---\nallowed_transitions:\n  - { tag: goto, target: MORE }\n---\nSpend.\n",
    "MORE.md": "---\nallowed_transitions:\n  - { tag: result }\n---\nSpend more.\n",
    "workflow.yaml": "backend: scripted\ndefault_budget: 0.50\n",
    "replies.yaml": "START: { reply: \"<goto>MORE</goto>\", cost: 0.60 }\nMORE: { reply: \"<result>it was worth it</result>\", cost: 0.20 }\n",
  });
  server = await project.serve("--listen", "127.0.0.1:0");
  context = await browser.window();
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, []);
});

test("a run is started with the form, moves, asks, is answered, and ends", async () => {
  const page = await login(context, server, "#/workflows/ship-feature");
  await page.getByLabel("Feature").fill("Resume a download");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.waitForURL(/#\/runs\/ship-feature-/);
  await page.locator(".badge", { hasText: "running" }).first().waitFor();
  // It is seen to move: agents appear on the graph and in the list.
  await page.locator(".agent-row", { hasText: "main_write2" }).waitFor();
  await page.locator(".graph .chip").first().waitFor();
  await page.getByText("Range headers").first().waitFor();
  const question = page.getByText("Merge it?").first();
  await question.waitFor();
  await page.getByLabel("Your answer").pressSequentially("yes");
  await page.getByRole("button", { name: "Answer" }).click();
  await page.locator(".outcome", { hasText: "Merged: downloads resume" }).waitFor();
  await page.locator(".badge", { hasText: "completed" }).first().waitFor();
  const run = page.url().split("/runs/")[1];
  assert.equal(project.status(run).status, "completed");
  await page.close();
});

test("an answer that came second is told so", async () => {
  const run = startWaiting("second-answer");
  const page = await login(context, server, `#/runs/${run}`);
  await page.getByLabel("Your answer").fill("no, not yet");
  assert.equal(project.raymond("answer", run, "yes").status, 0);
  await page.getByRole("button", { name: "Answer" }).click();
  await page.getByText("Not taken:").waitFor();
  await page.close();
});

test("a run over its budget is resumed with more", async () => {
  assert.equal(project.raymond("costly", "--id", "costly-1").status, 4);
  const page = await login(context, server, "#/");
  const card = page.locator(".card", { hasText: "costly-1" });
  await card.getByText("over budget").first().waitFor();
  await card.getByRole("button", { name: "Add budget" }).click();
  await page.getByRole("dialog").getByLabel("Budget in dollars, in all").fill("2");
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await until("the run is completed", () => project.status("costly-1").status === "completed");
  await card.waitFor({ state: "detached" });
  assert.equal(project.status("costly-1").budget_usd, 2);
  await page.close();
});

test("the output of a running step is shown as it comes, and the run is stopped", async () => {
  const page = await login(context, server, "#/workflows/gate");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".agent-state a", { hasText: "START.sh" }).click();
  await page.locator("pre", { hasText: "first line" }).waitFor();
  assert.equal(await page.getByText("second line").count(), 0);
  await page.keyboard.press("u");
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("stops when its running steps have finished").waitFor();
  await page.goBack();
  await page.locator("pre", { hasText: "first line" }).waitFor();
  writeFileSync(join(project.folder, "open"), "");
  await page.locator("pre", { hasText: "second line" }).waitFor();
  const run = page.url().split("/runs/")[1].split("/")[0];
  await until("the run has stopped", () => project.status(run).status === "interrupted");
  await page.goto(`${server.base}/#/runs/${run}`);
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await page.locator(".outcome", { hasText: "through the gate" }).waitFor();
  await page.close();
});

test("a step shows prompt, reply and what it led to", async () => {
  const run = startWaiting("steps");
  const page = await login(context, server, `#/runs/${run}`);
  await page.locator(".step-row a", { hasText: "PLAN.md" }).click();
  await page.waitForURL(/\/steps\/2$/);
  await page.locator("section[aria-label=Prompt] pre", { hasText: "Plan this feature" }).waitFor();
  await page.locator("section[aria-label=Reply] pre", { hasText: "<fork title=\"Range headers\"" }).waitFor();
  await page.keyboard.press("[");
  await page.waitForURL(/\/steps\/1$/);
  await page.locator("h1", { hasText: "START.sh" }).waitFor();
  await page.close();
});

test("a filter and a search stand in the address", async () => {
  startWaiting("found-me");
  const page = await login(context, server, "#/?q=found-me");
  await page.locator(".run-table .run-name", { hasText: "found-me" }).waitFor();
  await until("it is the only one", async () => (await page.locator(".run-table tbody tr").count()) === 1);
  await page.getByLabel("Status").selectOption("completed");
  await page.getByText("No run matches").waitFor();
  assert.match(page.url(), /status=completed/);
  await page.getByRole("link", { name: "Show all runs" }).click();
  await until("more runs are shown", async () => (await page.locator(".run-table tbody tr").count()) > 1);
  await page.close();
});

test("an empty project says what to do first", async () => {
  const empty = new Project();
  try {
    const own = await empty.serve("--listen", "127.0.0.1:0");
    const page = await login(context, own);
    await page.getByText("raymond init my-flow").waitFor();
    await page.close();
  } finally {
    empty.end();
  }
});

test("without the token the page shows nothing but how to log in", async () => {
  const stranger = await browser.window();
  const page = await stranger.newPage();
  await page.goto(`${server.base}/`);
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  assert.equal(await page.locator(".run-table").count(), 0);
  await page.getByLabel("Link or token").fill(server.link);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.locator(".run-table").waitFor();
  assert.ok(!page.url().includes(server.token), "the token stays in the address");
  await stranger.close();
});

/// A run that waits for an answer, without a process.
function startWaiting(id) {
  assert.equal(project.raymond("ship-feature", "--id", id, "--on-ask", "pause").status, 3);
  return id;
}
