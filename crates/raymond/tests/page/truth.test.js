// The page says what is in the journal, and nothing else.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Browser, Project, axe, login, shows, until, visit } from "./harness.js";

let browser, project, server, context;

before(async () => {
  browser = await Browser.start();
  project = new Project();
  const script = (text) => `#!/bin/bash\n${text}\n`;
  project.workflow("workers", {
    "START.sh": script("echo '<fork title=\"the good one\">GOOD</fork><fork title=\"the bad one\">BAD</fork><join>DONE</join>'"),
    "GOOD.sh": script("echo '<result>fine</result>'"),
    "BAD.sh": "#!/bin/bash\n# raymond: fatal=agent\necho no >&2\nexit 3\n",
    "DONE.sh": script("echo '<result>all in</result>'"),
  });
  project.workflow("inner", { "START.sh": script("echo '<goto>END</goto>'"), "END.sh": script("echo '<result>inner</result>'") });
  project.workflow("outer", {
    "START.sh": script("echo '<call-workflow return=\"BACK\">../inner</call-workflow>'"),
    "BACK.sh": script("echo '<fork-workflow next=\"REST\">../inner</fork-workflow>'"),
    "REST.sh": script("echo '<join>LAST</join>'"),
    "LAST.sh": script("echo '<call return=\"OVER\">ASIDE</call>'"),
    "ASIDE.sh": script("echo '<result>aside</result>'"),
    "OVER.sh": script("echo '<result>outer</result>'"),
  });
  project.workflow("hands", {
    "START.sh": script("echo '<goto input=\"from the start\">NEXT</goto>'"),
    "NEXT.sh": script("echo '<call return=\"LAST\">ASIDE</call>'"),
    "ASIDE.sh": script("echo '<result>from aside</result>'"),
    "LAST.sh": script("echo '<result>over</result>'"),
  });
  project.workflow("chat", { "START.md": "---\nallowed_transitions:\n  - { tag: result }\n---\nSay something.\n", "workflow.yaml": "backend: mine\n" });
  project.workflow("talk", { "START.md": "---\nallowed_transitions:\n  - { tag: result }\n---\nSay something.\n", "workflow.yaml": "backend: theirs\n" });
  // Two agent programs that say something and go on when they are told: one in plain text, one in events.
  const wait = "until [ -e \"$GATE\" ]; do sleep 0.05; done";
  const program = (name, text) => writeFileSync(join(project.home, name), script(text), { mode: 0o755 });
  program("chat.sh", `GATE="${project.home}/open"\necho first words\n${wait}\necho '<result>said</result>'`);
  const message = (text) => `echo '{"type":"message","role":"assistant","content":"${text}","delta":true}'`;
  program("gemini.sh", `GATE="${project.home}/open"\nwhile [ $# -gt 0 ] && [ "$1" != --session-id ]; do shift; done\necho '{"type":"init","session_id":"'"$2"'","model":"m"}'\n${message("first words")}\necho '{"type":"tool_use","tool_name":"look","tool_id":"t1","parameters":{}}'\n${wait}\n${message("<result>said</result>")}\necho '{"type":"result","status":"success","stats":{"total_tokens":2,"input_tokens":1,"output_tokens":1}}'`);
  mkdirSync(join(project.home, "config/raymond"), { recursive: true });
  writeFileSync(join(project.home, "config/raymond/config.toml"), `[backend.mine]\nkind = "command"\ncost = "none"\ncommand = "${project.home}/chat.sh"\n[backend.theirs]\nkind = "gemini"\ncost = "none"\ncommand = "${project.home}/gemini.sh"\n`);
  for (const run of ["workers", "outer", "hands"]) assert.equal(project.raymond(run, "--id", run).status, 0);
  server = await project.serve("--listen", "127.0.0.1:0");
  context = await browser.window();
});

after(async () => {
  await browser.end();
  project.end();
  assert.deepEqual(browser.problems, []);
});

const api = async (path) => (await fetch(`${server.base}/api/v1/${path}`, { headers: { Authorization: `Bearer ${server.token}` } })).json();

test("a failed worker is shown as failed, and so is its run", async () => {
  const failed = project.events("workers").filter((event) => event.event === "step_failed").map((event) => event.agent);
  assert.equal(failed.length, 1);
  assert.equal(project.status("workers").status, "completed");
  assert.equal(project.status("workers").failed_workers, 1);
  const page = await login(context, server, "#/");
  const badge = page.locator(".run-table tr", { hasText: "all in" }).locator(".badge");
  assert.equal(await badge.innerText(), "completed, 1 worker failed");
  assert.equal(await page.locator(".run-table tr", { hasText: "all in" }).locator(".is-completed").count(), 0);
  await visit(page, server, "#/runs/workers");
  await page.locator(".run-line .badge", { hasText: "completed, 1 worker failed" }).waitFor();
  const row = (agent) => page.locator(".t-row").filter({ has: page.locator(`[title^="${agent}:"], [title^="${agent},"]`) }).locator(".dot");
  for (const event of project.events("workers").filter((event) => event.event === "agent_started")) {
    const expected = failed.includes(event.agent) ? "failed" : "completed";
    await until(`${event.agent} is ${expected}`, async () => (await row(event.agent).getAttribute("class")).includes(`is-${expected}`));
  }
  assert.equal(await page.locator(".outcome.is-completed, .run-line .is-completed, .event.run_finished.is-completed").count(), 0);
  assert.deepEqual(await axe(page), []);
  await page.close();
});

test("every way that was taken is drawn as taken, as often as it was", async () => {
  const page = await login(context, server, "#/runs/workers");
  await page.locator(".graph .edge").first().waitFor();
  // Its failed worker has no result, so that way was not taken.
  const taken = { workers: [["[start] plain START.sh", 1], ["START.sh fork GOOD.sh", 1], ["START.sh fork BAD.sh", 1], ["START.sh plain DONE.sh", 1], ["GOOD.sh return DONE.sh", 1], ["DONE.sh plain [end]", 1]] };
  const ways = new Map((await api("runs/workers/overview")).edges.map((edge) => [edge.way, edge.count]));
  assert.deepEqual([...ways].sort(), taken.workers.toSorted());
  assert.equal(await page.locator(".graph .edge.taken").count(), taken.workers.length);
  // Here each way is taken, those into another workflow and back too, and the other workflow was gone through twice.
  await visit(page, server, "#/runs/outer");
  await page.locator(".graph .edge").first().waitFor();
  const { scopes } = await api("runs/outer/graph");
  const edges = page.locator(".graph .edge");
  const shown = async (scope) => {
    await page.getByLabel("Workflow", { exact: true }).selectOption(String(scope));
    await until("its graph is shown", async () => (await edges.count()) === scopes[scope].graph.edges.length);
    const names = await page.locator(".graph .node > text:first-of-type").allTextContents();
    return { names, taken: await page.locator(".graph .edge.taken").count(), times: await page.locator(".graph .times").allTextContents() };
  };
  const outer = await shown(0);
  assert.equal(outer.taken, scopes[0].graph.edges.length, JSON.stringify(await api("runs/outer/overview").then((all) => all.edges)));
  assert.deepEqual([...new Set(outer.times)], ["×1"]);
  const inner = await shown(1);
  assert.equal(inner.taken, scopes[1].graph.edges.length);
  assert.deepEqual([...new Set(inner.times)], ["×2"]);
  await page.close();
});

test("a step shows the input that it got, a script too, and what it handed on", async () => {
  const events = project.events("hands");
  const page = await login(context, server);
  const pane = (name) => page.locator(`section[aria-label="${name}"] pre`);
  const expected = { START: [null, "from the start"], NEXT: ["from the start", null], ASIDE: [null, "from aside"], LAST: ["from aside", null] };
  for (const { step, state, input } of events.filter((event) => event.event === "step_finished")) {
    const [got, handed] = expected[state.split(".")[0]];
    assert.equal(input ?? null, handed, "the journal has what was handed on");
    await visit(page, server, `#/runs/hands/steps/${step}`);
    await page.locator("h1", { hasText: state }).waitFor();
    assert.deepEqual(await pane("Input").allInnerTexts(), got ? [got] : []);
    assert.deepEqual(await pane("Handed on").allInnerTexts(), handed ? [handed] : []);
  }
  await page.close();
});

test("the output of every kind of agent program is shown while it runs", async () => {
  const gate = join(project.home, "open");
  for (const workflow of ["chat", "talk"]) {
    rmSync(gate, { force: true });
    const page = await login(context, server, `#/workflows/${workflow}`);
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await shows(page, new RegExp(`#/runs/${workflow}-`));
    await page.locator(".agent-state a", { hasText: "START.md" }).click();
    await page.locator("section[aria-label=Reply] pre", { hasText: "first words" }).waitFor();
    assert.equal(await page.locator(".badge", { hasText: "running" }).count(), 1);
    writeFileSync(gate, "");
    await page.locator("section[aria-label=Reply] pre", { hasText: "<result>said</result>" }).waitFor();
    await page.locator(".badge", { hasText: "done" }).waitFor();
    await page.close();
  }
});

test("nothing is live before somebody has logged in, and an old key is called that", async () => {
  const stranger = await browser.window();
  const page = await stranger.newPage();
  await page.goto(`${server.base}/`);
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  assert.equal(await page.getByText("live", { exact: true }).count(), 0);
  assert.equal(await page.getByText("no longer valid").count(), 0);
  await page.getByLabel("Link or token").fill("wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("This key is no longer valid").waitFor();
  assert.equal(await page.getByText("live", { exact: true }).count(), 0);
  await page.getByLabel("Link or token").fill(server.link);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.locator(".run-table").waitFor();
  await page.getByText("live", { exact: true }).waitFor();
  // The server gets another token, and the page learns of it by itself.
  server.child.kill("SIGKILL");
  await page.getByText("cannot be reached").waitFor();
  const file = join(project.folder, ".raymond/serve.token");
  const before = readFileSync(file, "utf8");
  rmSync(file);
  server = await project.serve("--listen", `127.0.0.1:${server.port}`);
  assert.notEqual(server.token, before.trim());
  await page.getByText("This key is no longer valid").waitFor();
  assert.equal(await page.getByText("cannot be reached").count(), 0);
  assert.equal(await page.getByText("live", { exact: true }).count(), 0);
  assert.deepEqual(await axe(page), []);
  await page.getByLabel("Link or token").fill(server.link);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.locator(".run-table").waitFor();
  await stranger.close();
});
