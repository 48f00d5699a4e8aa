// A run as one file, opened from disk with the network off.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Browser, Project, axe, login } from "./harness.js";

let browser, project;

before(async () => {
  browser = await Browser.start();
  project = new Project("ship-feature");
  project.raymond("ship-feature", "--id", "sent", "--on-ask", "pause");
  project.raymond("answer", "--no-resume", "sent", "yes");
  assert.equal(project.raymond("resume", "sent").status, 0);
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, []);
});

test("the exported file shows the run without network", async () => {
  const file = join(project.home, "sent.html");
  const ended = project.raymond("export", "sent", "-o", file);
  assert.equal(ended.status, 0, ended.stderr);
  const context = await browser.window({ offline: true });
  const page = await context.newPage();
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(`file://${file}`);
  await page.locator(".outcome", { hasText: "Merged: downloads resume" }).waitFor();
  await page.locator(".graph .node", { hasText: "REVIEW.md" }).waitFor();
  assert.equal(await page.locator(".t-row").count(), 4);
  assert.deepEqual(await axe(page), []);
  // Any step, and the slider.
  await page.locator(".step-row a", { hasText: "PLAN.md" }).click();
  await page.locator("section[aria-label=Prompt] pre", { hasText: "Plan this feature" }).waitFor();
  await page.keyboard.press("u");
  await page.getByRole("slider").focus();
  await page.keyboard.press("Home");
  await page.getByText("the run starts: ship-feature").first().waitFor();
  assert.deepEqual(requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:")), []);
  await context.close();
});

test("the page hands out the same file", async () => {
  const server = await project.serve("--listen", "127.0.0.1:0");
  const context = await browser.window({ acceptDownloads: true });
  const page = await login(context, server, "#/runs/sent");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  const path = await (await download).path();
  assert.match(readFileSync(path, "utf8"), /id="run-data"/);
  await context.close();
});
