// For everybody: what axe finds, small screens, and everything by keyboard.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, Project, axe, login, shows, until, visit } from "./harness.js";

/// A word that cannot be broken.
const LONG = "unbroken".repeat(12);
let browser, project, server;

before(async () => {
  browser = await Browser.start();
  project = new Project("ship-feature", "morning-report", "broken");
  project.raymond("ship-feature", "--id", "waits", "--on-ask", "pause", "--label", `${LONG}=${LONG}`);
  project.raymond("broken", "--id", "fails");
  // So many that the number beside them in the bar is long.
  for (let number = 0; number < 9; number += 1) project.raymond("broken", "--id", `fails-${number}`, "--label", `${LONG}=${number}`);
  server = await project.serve("--listen", "127.0.0.1:0");
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, []);
});

const VIEWS = {
  "#/": ".run-table",
  "#/runs/waits": ".t-row",
  "#/runs/waits?at=20": ".is-past .agent-row",
  "#/runs/fails": ".agent-error",
  "#/runs/waits/steps/2": "section[aria-label=Prompt]",
  "#/runs/fails/steps/2": ".outcome",
  "#/workflows": ".workflow-list",
  "#/workflows/ship-feature?state=PLAN.md": ".state-panel pre",
  "#/workflows/morning-report": ".start form",
};

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 1024, 320]) {
    test(`axe finds nothing and nothing is cut off: ${colorScheme}, ${width} px`, async () => {
      const context = await browser.window({ colorScheme, viewport: { width, height: 800 } });
      const page = await login(context, server);
      for (const [hash, ready] of Object.entries(VIEWS)) {
        await visit(page, server, hash);
        await page.locator(ready).first().waitFor();
        assert.deepEqual(await axe(page), [], `${hash} ${colorScheme} ${width}`);
        const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(tooWide <= 0, `${hash} is ${tooWide} px too wide at ${width}`);
      }
      await page.keyboard.press("?");
      await page.getByRole("dialog").waitFor();
      assert.deepEqual(await axe(page), [], "the list of keys");
      await context.close();
    });
  }
}

test("everything can be done by keyboard", async () => {
  const context = await browser.window();
  const page = await login(context, server);
  await page.locator(".run-table").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog").getByText("show these keys").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  // A search, and out of it.
  await page.keyboard.press("/");
  await page.keyboard.type("waits");
  await until("the list is filtered", async () => (await page.locator(".run-table tbody tr").count()) === 1);
  await page.keyboard.press("Escape");
  // To a row and into it.
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press("k");
  assert.equal(await focused(), "waits");
  await page.keyboard.press("Enter");
  await shows(page, /#\/runs\/waits$/);
  await page.locator(".t-row").first().waitFor();
  // To a state of the graph.
  await page.locator(".graph .node[tabindex]").first().focus();
  await page.keyboard.press("Enter");
  await shows(page, /#\/workflows\/ship-feature\?state=/);
  // The address changes before the page does.
  await page.locator("[data-answer]").waitFor({ state: "detached" });
  await page.goBack();
  await page.locator("[data-answer]").waitFor();
  // The answer.
  await page.keyboard.press("a");
  await page.keyboard.type("yes");
  assert.equal(await page.locator("[data-answer]").inputValue(), "yes");
  await page.keyboard.press("Control+Enter");
  await page.locator(".outcome", { hasText: "Merged" }).waitFor();
  // Back, and to the workflows, and the form that starts one.
  await page.keyboard.press("h");
  await page.locator(".run-table").waitFor();
  await page.keyboard.press("w");
  await page.locator(".workflow-list").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.locator(".start form").waitFor();
  await page.keyboard.press("i");
  assert.ok(await page.evaluate(() => document.activeElement.closest(".start") !== null));
  await context.close();
});

test("what listens to the page hears what happens", async () => {
  const context = await browser.window();
  const page = await login(context, server);
  await page.locator(".run-table").waitFor();
  project.raymond("ship-feature", "--id", "heard", "--on-ask", "pause");
  await page.locator("[aria-live=polite]", { hasText: "heard" }).waitFor({ state: "attached" });
  const landmarks = await page.evaluate(() => ["header", "nav", "main"].map((name) => document.querySelectorAll(name).length > 0));
  assert.deepEqual(landmarks, [true, true, true]);
  await context.close();
});
