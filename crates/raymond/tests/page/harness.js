// What the tests share: a project in a folder of its own, `raymond serve` in it, and a browser that records every
// violation of the content security policy and every error.

import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// The packages lie outside the checkout.
const require = createRequire(join(process.env.PAGE_TEST_MODULES ?? process.cwd(), "package.json"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const here = dirname(fileURLToPath(import.meta.url));
export const repository = join(here, "../../../..");
const programs = process.env.RAYMOND_PROGRAMS ?? join(repository, "target/debug");
const raymond = join(programs, "raymond");

/// Waits until something is true. The limit is only there so that a test that can never pass ends.
export async function until(what, condition, limit = 60000) {
  for (const end = Date.now() + limit; ; ) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timed out before ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

export class Project {
  /// Copies the workflows of `project/` that are named.
  constructor(...workflows) {
    this.home = mkdtempSync(join(tmpdir(), "raymond-page-"));
    this.folder = join(this.home, "project");
    mkdirSync(join(this.home, "fake"), { recursive: true });
    mkdirSync(join(this.folder, ".git"), { recursive: true });
    cpSync(join(here, "project/script.json"), join(this.home, "fake/script.json"));
    for (const name of workflows) cpSync(join(here, "project", name), join(this.folder, name), { recursive: true });
    this.servers = [];
  }

  get environment() {
    return { ...process.env, HOME: this.home, XDG_CONFIG_HOME: join(this.home, "config"), FAKE_CLAUDE_HOME: join(this.home, "fake"), PATH: `${programs}:${process.env.PATH}` };
  }

  /// A workflow of its own: file names and contents.
  workflow(name, files) {
    mkdirSync(join(this.folder, name), { recursive: true });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(this.folder, name, file), text, { mode: 0o755 });
  }

  /// Runs a command to its end.
  raymond(...args) {
    return spawnSync(raymond, args, { cwd: this.folder, env: this.environment, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /// Starts a command that goes on.
  background(...args) {
    const child = spawn(raymond, args, { cwd: this.folder, env: this.environment, stdio: "ignore" });
    this.servers.push(child);
    return child;
  }

  /// Runs a command beside others: how it ended, and what it said to people.
  later(...args) {
    const child = spawn(raymond, args, { cwd: this.folder, env: this.environment, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (data) => (said += data));
    return new Promise((resolve) => child.on("close", (status) => resolve({ status, said })));
  }

  status(run) {
    return JSON.parse(this.raymond("status", run, "--json").stdout);
  }

  events(run) {
    return this.raymond("log", run, "--json").stdout.trim().split("\n").map((line) => JSON.parse(line));
  }

  /// Starts `raymond serve` and reads its login link.
  async serve(...args) {
    const child = spawn(raymond, ["serve", ...args], { cwd: this.folder, env: this.environment, stdio: ["ignore", "pipe", "pipe"] });
    this.servers.push(child);
    let [out, problems] = ["", ""];
    child.stderr.on("data", (data) => (problems += data));
    child.stdout.on("data", (data) => (out += data));
    child.on("exit", () => (child.isOver = true));
    await until("serve has printed its link", () => {
      if (child.isOver) throw new Error(`serve ended: ${problems}`);
      return out.includes("\n");
    });
    const link = out.split("\n")[0];
    const [base, token] = link.split("/#token=");
    return { child, link, base, token, port: new URL(base).port };
  }

  /// Ends what was started, by its id, and removes the folder.
  end() {
    for (const child of this.servers) child.kill("SIGKILL");
    for (const run of this.liveRuns()) this.raymond("stop", run, "--now");
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }

  liveRuns() {
    const all = this.raymond("list", "--json");
    return all.status === 0 ? JSON.parse(all.stdout || "[]").filter((run) => run.status === "running").map((run) => run.run) : [];
  }
}

export class Browser {
  static async start() {
    const browser = new Browser();
    browser.chromium = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
    browser.problems = [];
    return browser;
  }

  /// A window whose pages report every violation and every error.
  async window(options = {}) {
    const context = await this.chromium.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    context.setDefaultTimeout(30000);
    await context.exposeFunction("reportViolation", (text) => this.problems.push(text));
    await context.addInitScript(() => addEventListener("securitypolicyviolation", (event) => window.reportViolation(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`)));
    context.on("page", (page) => {
      page.on("pageerror", (error) => this.problems.push(`error: ${error.message}`));
      page.on("dialog", (dialog) => (this.problems.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
    });
    return context;
  }

  end() {
    return this.chromium.close();
  }
}

/// Opens the page with its login link.
export async function login(context, server, hash = "") {
  const page = await context.newPage();
  await page.goto(server.link);
  await page.locator(".bar").waitFor();
  if (hash) await visit(page, server, hash);
  return page;
}

/// Goes to a view, and waits until the one before is gone.
export async function visit(page, server, hash) {
  await page.goto(`${server.base}/${hash}`);
  await shows(page, hash);
}

/// Waits until the page shows the view of an address. The address changes first, and until then the page still shows the view
/// before, in which a test would find what it looks for.
export async function shows(page, address) {
  const names = (hash) => (typeof address === "string" ? hash === address : address.test(hash));
  await page.waitForURL((url) => names(url.hash));
  await page.waitForFunction(() => document.querySelector("main")?.dataset.view === location.hash);
}

/// What axe finds wrong. It is put in by the debugger's protocol, which the content security policy does not concern.
export async function axe(page) {
  await page.evaluate(AXE);
  const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return result.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
}
