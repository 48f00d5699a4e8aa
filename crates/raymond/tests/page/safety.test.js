// Names, questions and results of models, scripts and files stay text, whatever they hold.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, Project, login, visit } from "./harness.js";

const HOSTILE = `<img src=x onerror="alert(1)"><script>alert(2)</script>`;
const BIDI = "safe\u202Egnp.exe";
const NAMES = ["__proto__", "constructor", "toString", "hasOwnProperty"];
const ANSI = "\u001b[31mred\u001b[0m\u001b]0;title\u0007";

let browser, project, server, context;

before(async () => {
  browser = await Browser.start();
  project = new Project();
  project.workflow("hostile", {
    "START.sh": `#!/bin/bash\nprintf '%s\\n' '<print>${HOSTILE}</print>'\nprintf '%s\\n' '${ANSI}'\nprintf '%s\\n' '${HOSTILE}' >&2\nraymond emit ask --next END "\${HOSTILE_QUESTION}"\n`,
    "END.sh": "#!/bin/bash\nraymond emit result \"$RAYMOND_INPUT\"\n",
    "workflow.yaml": `name: '${HOSTILE}'\ndescription: '${BIDI} ${HOSTILE}'\nenvironment:\n  HOSTILE_QUESTION: '${HOSTILE} ${BIDI}'\n`,
  });
  project.workflow("names", {
    "START.sh": "#!/bin/bash\nraymond emit result \"$__proto__ $constructor $toString $hasOwnProperty\"\n",
    "workflow.yaml": `inputs:\n${NAMES.map((name) => `  ${name}: { type: integer, required: true }\n`).join("")}`,
  });
  server = await project.serve("--listen", "127.0.0.1:0");
  context = await browser.window();
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, [], "no violation of the policy, no error, no dialog");
});

test("hostile names, questions, prints and outputs are shown as they are", async () => {
  const ended = project.raymond("hostile", "--id", "hostile-1", "--on-ask", "pause", "--label", "who=<b>me</b>");
  assert.equal(ended.status, 3, ended.stderr);
  const page = await login(context, server, "#/");
  await page.getByText(`${HOSTILE} safe`).first().waitFor();
  await untouched(page);
  await page.getByText("who=<b>me</b>").first().waitFor();
  for (const hash of ["#/runs/hostile-1", "#/runs/hostile-1?at=5", "#/runs/hostile-1/steps/1", "#/workflows", "#/workflows/hostile", "#/workflows/hostile?state=START.sh"]) {
    await visit(page, server, hash);
    await page.getByText("<img src=x").first().waitFor();
    await untouched(page);
  }
  await visit(page, server, `#/runs/hostile-1/steps/1`);
  const output = await page.locator("section[aria-label=Output] pre").innerText();
  assert.match(output, /^red$/m, "escape sequences are dropped");
  await page.close();
});

test("names that every object of the language has are names like any other", async () => {
  const page = await login(context, server, "#/workflows/names");
  for (const name of NAMES) await page.locator(`[name="set ${name}"]`).fill("x");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  for (const name of NAMES) await page.locator(`[id="wrong ${name}"]`).waitFor();
  for (const [index, name] of NAMES.entries()) await page.locator(`[name="set ${name}"]`).fill(String(index));
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".outcome pre", { hasText: "0 1 2 3" }).waitFor();
  await untouched(page);
  await page.close();
});

test("an answer is shown as text too", async () => {
  const page = await login(context, server, "#/runs/hostile-1");
  await page.getByLabel("Your answer").fill(`${HOSTILE}${BIDI}`);
  await page.getByRole("button", { name: "Answer" }).click();
  await page.locator(".outcome pre", { hasText: "<img src=x" }).waitFor();
  await untouched(page);
  await page.close();
});

test("an address of any kind breaks nothing", async () => {
  const page = await login(context, server);
  for (const hash of ["#/runs/%3Cimg%20src%3Dx%3E", "#/runs/%E0%A4%A", "#/runs/../../x", "#/runs/a/steps/%3Cb%3E", "#/workflows/__proto__", "#/workflows/constructor"]) {
    await visit(page, server, hash);
    await page.locator("[role=alert]").first().waitFor();
    await untouched(page);
  }
  await page.close();
});

/// Nothing of the texts became an element, and no character turns the direction of others.
async function untouched(page) {
  const found = await page.evaluate(() => ({ images: document.querySelectorAll("#app img, #app script, #app b b, #app iframe").length, turned: /[\u202a-\u202e\u2066-\u2069\u001b]/.test(document.body.innerText), title: document.title }));
  assert.equal(found.images, 0);
  assert.equal(found.turned, false);
}
