// What the models of a run have read and written, and what they cost.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Browser, Project, login } from "./harness.js";

let browser, project, server, context;

/// An agent program that tells its usage on stderr.
function agent(usage) {
  return `cat > /dev/null\necho 'raymond-usage: ${JSON.stringify(usage)}' >&2\necho '<result>done</result>'\n`;
}

before(async () => {
  browser = await Browser.start();
  project = new Project();
  const tokens = { input: 1200, output: 34, cache_read: 500, cache_write: 0 };
  mkdirSync(join(project.folder, ".raymond"));
  let config = "";
  for (const [name, usage] of Object.entries({
    window: { tokens, cost_usd: 0.25, compacted: true, context: { used: 5000, window: 20000 } },
    summary: { tokens, cost_usd: 0.25, compacted: true },
    nothing: {},
  })) {
    writeFileSync(join(project.folder, `${name}.sh`), agent(usage));
    config += `[backend.${name}]\nkind = "command"\ncommand = "sh"\nargs = ["./${name}.sh"]\ncost = "none"\n`;
    project.workflow(`of-${name}`, { "START.md": `---\nbackend: ${name}\n---\nBegin.` });
  }
  writeFileSync(join(project.folder, ".raymond/config.toml"), config);
  for (const name of ["window", "summary", "nothing"]) assert.equal(project.raymond(`of-${name}`, "--id", name).status, 0);
  server = await project.serve("--listen", "127.0.0.1:0");
  context = await browser.window();
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, []);
});

/// What a page tells under a name, once it is there.
const fact = (page, name) => page.locator(".fact", { has: page.locator("dt", { hasText: name }) }).locator("dd");

test("a run and its steps tell tokens, cost and window", async () => {
  const page = await login(context, server, "#/runs/window");
  assert.equal(await fact(page, "Tokens").innerText(), "1,200 in, 34 out, cache 500 read, 0 written");
  assert.match(await fact(page, "Cost").innerText(), /\$0\.25/);
  await page.goto(`${server.base}/#/runs/window/steps/1`);
  assert.equal(await fact(page, "Context").innerText(), "5,000 of 20,000 (25 %), summarised");
  assert.equal(await fact(page, "Tokens").innerText(), "1,200 in, 34 out, cache 500 read, 0 written");
  assert.match(await fact(page, "Cost").innerText(), /\$0\.25/);
  await page.goto(`${server.base}/#/runs/summary/steps/1`);
  await page.locator(".fact dd", { hasText: /^summarised$/ }).waitFor();
  await page.close();
});

test("where no tokens are told, none are shown", async () => {
  const page = await login(context, server, "#/runs/nothing");
  await fact(page, "Steps").waitFor();
  assert.equal(await fact(page, "Tokens").count(), 0);
  await page.close();
});
