// The slider: a run as it was at any event.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, Project, login, until } from "./harness.js";

let browser, project, server, context;

before(async () => {
  browser = await Browser.start();
  project = new Project("ship-feature");
  server = await project.serve("--listen", "127.0.0.1:0");
  context = await browser.window();
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, []);
});

test("at an event the page shows what status said then", async () => {
  project.raymond("ship-feature", "--id", "past", "--on-ask", "pause");
  const then = project.status("past");
  const seq = project.events("past").at(-1).seq;
  project.raymond("answer", "--no-resume", "past", "yes");
  assert.equal(project.raymond("resume", "past").status, 0);
  const page = await login(context, server, `#/runs/past?at=${seq}`);
  await page.locator(".badge", { hasText: "waiting for you" }).first().waitFor();
  const fact = (name) => page.locator(".fact", { hasText: name }).locator("dd").innerText();
  assert.match(await fact("Cost"), new RegExp(`\\$${then.cost_usd.toFixed(2)}`));
  assert.equal(await fact("Steps"), String(then.steps));
  assert.deepEqual(await page.locator(".agent-id").allInnerTexts(), then.agents.map((agent) => agent.id));
  assert.deepEqual(await page.locator(".agent-state").allInnerTexts(), then.agents.map((agent) => agent.state));
  await page.getByRole("button", { name: "Back to now" }).click();
  await page.locator(".outcome", { hasText: "Merged" }).waitFor();
  await page.close();
});

test("the slider is moved with keys and the address follows", async () => {
  project.raymond("ship-feature", "--id", "slide", "--on-ask", "pause");
  const last = project.events("slide").at(-1).seq;
  const page = await login(context, server, "#/runs/slide");
  await page.locator(".slider-place", { hasText: `${last} / ${last}` }).waitFor();
  await page.keyboard.press("[");
  await page.locator(".slider-place", { hasText: `${last - 1} / ${last}` }).waitFor();
  assert.match(page.url(), new RegExp(`at=${last - 1}$`));
  await page.getByRole("slider").focus();
  await page.keyboard.press("Home");
  await page.getByText("the run starts: ship-feature").first().waitFor();
  // The first event is in one batch with the start of the first agent.
  await until("one agent is there", async () => (await page.locator(".agent-row").allInnerTexts()).join().includes("main"));
  await until("no step was taken yet", async () => (await page.locator(".step-row a").count()) === 0);
  await page.keyboard.press("}");
  await page.locator(".slider-now").waitFor();
  await page.close();
});
