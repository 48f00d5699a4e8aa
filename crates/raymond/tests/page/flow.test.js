// What a person does: start, watch, answer, stop, resume, look at a step.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Browser, Project, login, shows, until, visit } from "./harness.js";

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
  project.workflow("typed", {
    "START.sh": "#!/bin/bash\necho \"<result>$issue $ratio $dry $level $title</result>\"\n",
    "workflow.yaml": "input: { mode: none }\ninputs:\n  issue: { type: integer, required: true }\n  ratio: { type: number, default: 0.5 }\n  dry: { type: boolean, default: true }\n  level: { type: choice, choices: [low, medium, high], default: medium }\n  notes: { type: file }\n  title: { required: true }\n",
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
  await shows(page, /#\/runs\/ship-feature-/);
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
  assert.equal(project.raymond("answer", "--no-resume", run, "yes").status, 0);
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
  await visit(page, server, `#/runs/${run}`);
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await page.locator(".outcome", { hasText: "through the gate" }).waitFor();
  await page.close();
});

test("a step shows prompt, reply and what it led to", async () => {
  const run = startWaiting("steps");
  const page = await login(context, server, `#/runs/${run}`);
  await page.locator(".step-row a", { hasText: "PLAN.md" }).click();
  await shows(page, /\/steps\/2$/);
  await page.locator("section[aria-label=Prompt] pre", { hasText: "Plan this feature" }).waitFor();
  await page.locator("section[aria-label=Reply] pre", { hasText: "<fork title=\"Range headers\"" }).waitFor();
  await page.keyboard.press("[");
  await shows(page, /\/steps\/1$/);
  await page.locator("h1", { hasText: "START.sh" }).waitFor();
  await page.close();
});

test("a form with inputs of all kinds says at the field what is wrong, and sends what was given", async () => {
  const page = await login(context, server, "#/workflows/typed");
  const form = page.locator(".start form");
  await form.waitFor();
  const names = await form.locator("[name^='set ']").evaluateAll((fields) => fields.map((field) => field.name.slice(4)));
  assert.deepEqual(names, ["issue", "ratio", "dry", "level", "notes", "title"], "in the order of the manifest");
  assert.equal(await page.getByLabel("dry").isChecked(), true);
  assert.equal(await page.getByLabel("level").inputValue(), "medium");
  assert.equal(await page.getByLabel("ratio").inputValue(), "0.5");
  await page.getByLabel("issue").fill("twelve");
  await page.getByLabel("notes").fill("/etc/passwd");
  await page.getByLabel("title").fill("-x <b>y</b>");
  const start = page.getByRole("button", { name: "Start", exact: true });
  await start.click();
  const wrong = async (name) => page.locator(`[id="${await page.locator(`[name="set ${name}"]`).getAttribute("aria-describedby")}"]`).textContent();
  await page.locator("[aria-invalid=true]").first().waitFor();
  assert.match(await wrong("issue"), /`twelve` is not a whole number/);
  assert.match(await wrong("notes"), /not below the roots/);
  assert.equal(await page.locator("[aria-invalid=true]").count(), 2);
  assert.equal(await page.evaluate(() => document.activeElement.name), "set issue", "the first wrong field has the focus");
  await page.getByLabel("issue").fill("12");
  await page.getByLabel("notes").fill("typed/START.sh");
  await page.getByLabel("dry").uncheck();
  await page.getByLabel("level").selectOption("high");
  await start.click();
  await shows(page, /#\/runs\/typed-/);
  await page.locator(".outcome", { hasText: "12 0.5 false high -x <b>y</b>" }).waitFor();
  await page.close();
});

test("of fifty answers from pages, the API and the command line one is taken, and every page that was late is told", async () => {
  const run = startWaiting("raced");
  const [PAGES, CALLS, COMMANDS] = [5, 35, 10];
  const pages = [];
  for (let number = 0; number < PAGES; number += 1) {
    const page = await login(context, server, `#/runs/${run}`);
    await page.getByLabel("Your answer").fill(`page ${number}`);
    pages.push(page);
  }
  const ask = project.status(run).asks[0].id;
  const call = (number) => fetch(`${server.base}/api/v1/runs/${run}/answers`, { method: "POST", headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" }, body: JSON.stringify({ ask, text: `call ${number}` }) });
  const numbers = (count) => [...Array(count).keys()];
  const press = async (page) => {
    await page.getByRole("button", { name: "Answer" }).click();
    const told = await Promise.race([page.locator(".toast", { hasText: "Answered." }).waitFor().then(() => "taken"), page.locator(".wrong, .toast", { hasText: /Not taken|closed already/ }).first().waitFor().then(() => "late")]);
    return told === "taken";
  };
  const told = await Promise.all([...pages.map(press), ...numbers(CALLS).map((number) => call(number).then(async (answer) => {
    const body = await answer.json();
    if (!answer.ok) assert.ok(answer.status === 409 && /closed already/.test(body.detail), JSON.stringify(body));
    return answer.ok;
  })), ...numbers(COMMANDS).map((number) => project.later("answer", "--no-resume", run, ask, `command ${number}`).then(({ status, said }) => {
    if (status !== 0) assert.match(said, /closed already/);
    return status === 0;
  }))]);
  assert.equal(told.length, 50);
  assert.equal(told.filter(Boolean).length, 1, JSON.stringify(told));
  for (const page of pages) await page.close();
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
