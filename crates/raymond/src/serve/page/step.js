// One step: what went in, what came out, and what it led to. The output of a running step is shown as it comes.

import { h } from "./h.js";
import { View, address } from "./page.js";
import { count, duration, fullness, money, tokens, when } from "./format.js";
import { badge, icon, stateIcon } from "./icons.js";
import { askToBranch, canBranch } from "./actions.js";
import { inTable } from "./text.js";

/// More of a text is shown when asked for.
const SHOWN_AT_FIRST = 100000;
const KEPT_WHILE_RUNNING = 300000;
const COLOURED_LINES = 1000;

export class StepPage extends View {
  constructor(app, route) {
    super(app, route);
    Object.assign(this, { id: route.parts[1], number: Number(route.parts[3]), step: null, hasNext: false, live: Object.create(null), opened: new Set() });
  }

  async load() {
    const [step, later] = await Promise.all([this.data.get(["runs", this.id, "steps", String(this.number)]),
      this.data.get(["runs", this.id, "steps"], { from: this.number + 1, limit: 1 }).catch(() => ({ steps: [] }))]);
    Object.assign(this, { step, hasNext: later.steps.length > 0 });
    this.app.wantOutputs();
  }

  event(event) {
    // The next step may be one that was not there before.
    if (event.run === this.id && (event.step === this.number || !this.hasNext)) this.refresh();
  }

  outputs() {
    return this.step?.status === "running" ? [`${this.id}/${this.number}`] : [];
  }

  output(chunk) {
    if (chunk.run !== this.id || Number(chunk.step) !== this.number) return;
    const before = chunk.start ? "" : inTable(this.live, chunk.stream) ?? "";
    this.live[chunk.stream] = (before + chunk.text).slice(-KEPT_WHILE_RUNNING);
    this.app.draw();
  }

  hasData() {
    return this.step !== null;
  }

  isLive() {
    return this.step?.status === "running";
  }

  title() {
    return `Step ${this.number} · ${this.id}`;
  }

  keys() {
    return [["[", "the step before", () => this.number > 1 && this.go(-1)], ["]", "the next step", () => this.hasNext && this.go(1)], ["u", "up to the run", () => this.app.go(address(["runs", this.id]))],
      ["b", "branch from this step", () => this.step && canBranch(this.data, this.step) && askToBranch(this.app, this.id, this.number)]];
  }

  go(distance) {
    this.app.go(address(["runs", this.id, "steps", String(this.number + distance)]));
  }

  render() {
    const step = this.step;
    const fact = (name, value) => (value === null || value === undefined ? null : h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value)));
    return h("article", { class: "step-page" },
      h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: address(["runs", this.id]) }, this.id), h("span", { class: "dim" }, " / "), h("span", {}, `step ${count(this.number)}`),
        h("span", { class: "actions" }, this.number > 1 ? h("a", { class: "button", href: address(["runs", this.id, "steps", String(this.number - 1)]), title: "The step before ( [ )" }, "Previous") : null,
          this.hasNext ? h("a", { class: "button", href: address(["runs", this.id, "steps", String(this.number + 1)]), title: "The next step ( ] )" }, "Next") : null)),
      h("header", { class: "run-head" },
        h("div", { class: "run-line" }, badge(step.status), h("h1", {}, stateIcon(step.state), step.state),
          canBranch(this.data, step) ? h("div", { class: "actions" }, h("button", { onclick: () => askToBranch(this.app, this.id, this.number), title: "A new run goes on from the end of this step (b)" }, icon("branch"), "Branch from here …")) : null),
        h("dl", { class: "facts" }, fact("Agent", step.agent), fact("Led to", step.tag ? `${step.tag} ${step.target ?? ""}` : null),
          fact("Time", h("span", { class: "num" }, step.status === "running" ? duration(Date.now() - Date.parse(step.started_at)) : duration(step.duration_ms))),
          fact("Cost", step.cost_usd ? money(step.cost_usd) : null), fact("Tokens", step.tokens ? tokens(step.tokens) : null), fact("Context", step.context || step.compacted ? fullness(step.context, step.compacted) : null), fact("Attempts", step.attempts > 1 ? count(step.attempts) : null), fact("Started", when(step.started_at)),
          fact("Model", step.meta?.model), fact("Exit code", step.meta?.exit_code === undefined || step.meta?.exit_code === null ? null : String(step.meta.exit_code)))),
      step.error ? h("div", { class: "outcome is-failed" }, h("h2", {}, "Error"), h("pre", {}, step.error)) : null,
      step.kept === false ? h("p", { class: "notice" }, "The files of this step are not kept any more. What the journal has of it is below.") : null,
      this.panes());
  }

  panes() {
    const { step, live } = this;
    const running = step.status === "running";
    const texts = [["Input", step.input], ["Prompt", step.prompt], ["Reply", running ? live.reply ?? step.reply : step.reply], ["Output", running ? live.stdout ?? step.stdout : step.stdout],
      ["Stderr", running ? live.stderr ?? step.stderr : step.stderr], ["Result", step.result === step.reply ? null : step.result], ["Handed on", step.handed_on]];
    const shown = texts.filter(([, text]) => text !== null && text !== undefined && text !== "");
    if (!shown.length && !running && !step.changes) return h("p", { class: "empty" }, "This step wrote nothing.");
    return [shown.map(([name, text]) => this.pane(name, text, running)),
      step.changes ? this.changes(step.changes) : null,
      running ? h("p", { class: "working dim", role: "status" }, "The step is running. What it writes appears here.") : null,
      step.meta ? h("details", { class: "pane panel" }, h("summary", {}, "How it was run"), h("pre", { class: "text" }, JSON.stringify(step.meta, null, 2))) : null];
  }

  pane(name, text, isRunning) {
    const isCut = text.length > SHOWN_AT_FIRST && !this.opened.has(name);
    const follow = isRunning && (name === "Reply" || name === "Output");
    return h("section", { class: `pane panel ${name === "Stderr" && this.step.status === "failed" ? "is-error" : ""}`, "aria-label": name, key: name },
      h("header", {}, h("h2", {}, name), h("div", { class: "aside dim small" }, `${count(text.length)} characters`, h("button", { class: "ghost", onclick: () => this.copy(text) }, "Copy"))),
      h("pre", { class: "text", tabindex: "0", "aria-live": follow ? "off" : null }, isCut ? text.slice(0, SHOWN_AT_FIRST) : text),
      isCut ? h("p", {}, h("button", { onclick: () => (this.opened.add(name), this.app.draw()) }, `Show all ${count(text.length)} characters`)) : null);
  }

  /// What the step changed in its folder, where snapshots are on.
  changes({ folder, commit, shared, diff: whole, cut }) {
    const diff = whole?.trimEnd() ?? null;
    const about = diff === null ? "Git does not have the files any more." : diff === "" ? "Nothing was changed." : null;
    return h("section", { class: "pane panel", "aria-label": "Changed files", key: "changes" },
      h("header", {}, h("h2", {}, "Changed files"), h("div", { class: "aside dim small" }, h("code", { title: commit }, commit.slice(0, 12)), diff ? h("button", { class: "ghost", onclick: () => this.copy(diff) }, "Copy") : null)),
      h("p", { class: "dim small" }, `In ${folder}.`, shared ? " Other agents worked there at the same time, so some changes may be theirs." : null, about ? ` ${about}` : null),
      diff ? h("pre", { class: "text diff", tabindex: "0" }, diffLines(diff)) : null,
      cut ? h("p", { class: "dim" }, "There is more than is shown here.") : null);
  }

  copy(text) {
    this.app.try(() => navigator.clipboard.writeText(text), "Copied.");
  }
}

/// A diff with its lines coloured, unless it is so long that they would make the page slow.
function diffLines(diff) {
  const lines = diff.split("\n");
  return lines.length > COLOURED_LINES ? diff : lines.map((line) => h("span", { class: lineKind(line) }, `${line}\n`));
}

/// How a line of a diff is shown. Its sign stays in the text, so colour is not the only mark.
function lineKind(line) {
  if (/^(diff|index|---|\+\+\+|@@) ?/.test(line)) return "place";
  return line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "same";
}
