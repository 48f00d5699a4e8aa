// Takes the pictures in docs/pictures: `scripts/page-tests.sh pictures`. They are committed and change only on demand.

import { join } from "node:path";
import { Browser, Project, login, repository, visit } from "./harness.js";

const PICTURES = join(repository, "docs/pictures");

const browser = await Browser.start();
const project = new Project("ship-feature", "broken");
try {
  // Some history, the latest last.
  project.raymond("broken", "--id", "nightly-build-0713", "--label", "team=core");
  project.raymond("ship-feature", "--id", "ship-feature-ranges", "--budget", "1", "--on-ask", "pause");
  project.raymond("ship-feature", "--id", "ship-feature-proxy", "--on-ask", "pause", "--label", "team=net");
  project.raymond("answer", "--no-resume", "ship-feature-proxy", "yes");
  project.raymond("resume", "ship-feature-proxy");
  project.raymond("ship-feature", "--id", "ship-feature-resume", "--on-ask", "pause", "--label", "team=core");
  const server = await project.serve("--listen", "127.0.0.1:0");

  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.window({ colorScheme, viewport: { width: 1280, height: 860 }, deviceScaleFactor: 1.5 });
    const page = await login(context, server);
    await page.locator(".run-table").waitFor();
    await picture(page, `page-home-${colorScheme}`);
    await page.setViewportSize({ width: 1280, height: 1290 });
    await visit(page, server, "#/runs/ship-feature-resume?at=21");
    await page.locator(".is-past .graph .chip").first().waitFor();
    await picture(page, `page-run-${colorScheme}`);
    await context.close();
  }
  const context = await browser.window({ viewport: { width: 1280, height: 860 }, deviceScaleFactor: 1.5 });
  const page = await login(context, server, "#/workflows/ship-feature?state=PLAN.md");
  await page.locator(".state-panel pre").waitFor();
  await picture(page, "page-workflow-light");
  await context.close();
  const phone = await browser.window({ colorScheme: "dark", viewport: { width: 360, height: 740 }, deviceScaleFactor: 2 });
  const small = await login(phone, server);
  await small.locator(".run-table").waitFor();
  await picture(small, "page-phone-dark");
  await phone.close();
} finally {
  await browser.end();
  project.end();
}
if (browser.problems.length) throw new Error(browser.problems.join("\n"));

async function picture(page, name) {
  await page.evaluate(() => document.fonts.ready);
  await page.screenshot({ path: join(PICTURES, `${name}.png`), animations: "disabled" });
  console.log(`docs/pictures/${name}.png`);
}
