// Going back: a new run from a step, where a run came from, and what a step changed.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Browser, Project, axe, login, shows } from "./harness.js";

let browser, project, server, context;

before(async () => {
  browser = await Browser.start();
  project = new Project();
  project.workflow("count", {
    "START.sh": "#!/bin/bash\necho one > count.txt\necho '<goto>TWO</goto>'\n",
    "TWO.sh": "#!/bin/bash\necho '<b onclick=x>two</b>' >> count.txt\necho '<goto>THREE</goto>'\n",
    "THREE.sh": "#!/bin/bash\necho '<result>three</result>'\n",
  });
  rmSync(join(project.folder, ".git"), { recursive: true });
  const git = (...args) => execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.org", ...args], { cwd: project.folder, env: project.environment });
  git("init", "-q");
  git("add", "count");
  git("commit", "-qm", "one");
  assert.equal(project.raymond("count", "--id", "first", "--snapshots").status, 0);
  server = await project.serve("--listen", "127.0.0.1:0");
  context = await browser.window();
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, []);
});

test("a step is branched, and both runs lead to each other", async () => {
  const page = await login(context, server, "#/runs/first");
  await page.getByRole("button", { name: "Branch from step 2" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name of the new run").fill("second");
  assert.deepEqual(await axe(page), []);
  await dialog.getByRole("button", { name: "Branch", exact: true }).click();
  await shows(page, /#\/runs\/second$/);
  await page.locator(".badge", { hasText: "completed" }).first().waitFor();
  assert.equal(project.status("second").status, "completed");
  const lineage = page.locator(".lineage");
  assert.match(await lineage.innerText(), /goes on from first at step 2/);
  await lineage.getByRole("link", { name: "first", exact: true }).click();
  await shows(page, /#\/runs\/first$/);
  await page.locator(".lineage", { hasText: "1 branch: second from step 2" }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.close();
});

test("a step shows what it changed, as text, and is branched with a key", async () => {
  const page = await login(context, server, "#/runs/first/steps/2");
  const changes = page.getByRole("region", { name: "Changed files" });
  await changes.locator(".added", { hasText: "+<b onclick=x>two</b>" }).waitFor();
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await axe(page), []);
  }
  await page.keyboard.press("b");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name of the new run").fill("first");
  await page.keyboard.press("Enter");
  await page.getByText("there is a run `first` already").waitFor();
  await page.keyboard.press("b");
  await dialog.getByLabel("Name of the new run").fill("third");
  await dialog.getByLabel("Let it go on at once").uncheck();
  await page.keyboard.press("Enter");
  await shows(page, /#\/runs\/third$/);
  await page.locator(".badge", { hasText: "interrupted" }).first().waitFor();
  assert.equal(project.status("third").steps, 2);
  await page.close();
});

test("a run that is taken back while it is shown goes on without a gap", async () => {
  const page = await login(context, server, "#/runs/second");
  await page.locator(".event.run_finished").waitFor();
  assert.equal(project.raymond("rewind", "second", "--to", "1").status, 0);
  await page.locator(".lineage", { hasText: "goes on from first at step 1, and was taken back to step 1" }).waitFor();
  await page.locator(".event", { hasText: "the run is taken back to step 1" }).waitFor();
  await page.locator(".event.run_finished").waitFor({ state: "detached" });
  assert.equal(project.raymond("resume", "second").status, 0);
  await page.locator(".event.run_finished").waitFor();
  await page.close();
});

test("an exported branch names what it came from without links", async () => {
  const file = join(project.home, "second.html");
  project.raymond("export", "second", "-o", file);
  const page = await (await browser.window({ offline: true })).newPage();
  await page.goto(`file://${file}`);
  await page.locator(".lineage", { hasText: "goes on from first at step 1, and was taken back" }).waitFor();
  assert.equal(await page.locator(".lineage a").count(), 0);
  assert.equal(await page.getByRole("button", { name: /Branch/ }).count(), 0);
  await page.close();
});
