// The list of a run's steps, the latest first. Steps are loaded in blocks when they come into view.

import { h } from "./h.js";
import { Rows } from "./rows.js";
import { address } from "./page.js";
import { count, duration, exact, money } from "./format.js";
import { icon, stateIcon, statusDot } from "./icons.js";
import { askToBranch, canBranch } from "./actions.js";

const STEP_HEIGHT = 30;
const BLOCK = 100;
const MOST_BLOCKS = 60;

export class StepList {
  constructor(app, run) {
    const redraw = () => app.draw();
    Object.assign(this, { app, data: app.data, run, redraw, agent: null, last: 0, blocks: new Map(), list: [], next: 1, isLoading: false });
    this.rows = new Rows(STEP_HEIGHT, redraw);
  }

  /// The number of the run's last step. Blocks that had a running step are loaded again.
  update(last, hasChanged) {
    if (last > this.last && this.last) this.rows.grewAbove(last - this.last);
    this.last = last;
    if (!hasChanged) return;
    for (const block of this.blocks.values()) block.isStale = block.isStale || block.steps.length < BLOCK || block.steps.some((step) => step.status === "running");
    if (this.agent && this.next === null) this.next = (this.list.at(-1)?.step ?? 0) + 1;
  }

  /// Shows the steps of one agent only, or of all.
  only(agent) {
    Object.assign(this, { agent, list: [], next: 1 });
    this.rows.toTop();
    this.redraw();
  }

  /// `then`: the time and the last step of the moment that is shown, if that is not now.
  view(then) {
    const last = then?.last ?? this.last;
    const total = this.agent ? this.list.length + (this.next === null ? 0 : 1) : last;
    if (!total) return h("p", { class: "empty" }, "No step has started yet.");
    const stepAt = (index) => (this.agent ? this.listed(index) : this.numbered(last - index));
    return h("div", { class: "steps" },
      h("div", { class: "step-row step-head", "aria-hidden": "true" }, ["#", "", "State", "Agent", "Led to", "Time", "Cost", ""].map((name) => h("span", {}, name))),
      this.rows.view({ class: "step-rows", role: "list", "aria-label": `${count(this.last)} steps, the latest first` }, total, (index) => stepRow(this, asOf(stepAt(index), then), this.agent ? `a${index}` : last - index)));
  }

  numbered(number) {
    const index = Math.floor((number - 1) / BLOCK);
    const block = this.blocks.get(index);
    if (!block || block.isStale) this.loadBlock(index, block);
    return block?.steps.find((step) => step.step === number) ?? { step: number, isMissing: true };
  }

  async loadBlock(index, before) {
    const block = before ?? { steps: [], isStale: false };
    block.isStale = false;
    this.blocks.set(index, block);
    if (this.blocks.size > MOST_BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
    const answer = await this.data.get(["runs", this.run, "steps"], { from: index * BLOCK + 1, limit: BLOCK }).catch(() => null);
    if (!answer) return;
    block.steps = answer.steps.filter((step) => step.step <= (index + 1) * BLOCK);
    this.redraw();
  }

  listed(index) {
    if (index >= this.list.length) this.loadMore();
    return this.list[index] ?? { step: "…", isMissing: true };
  }

  async loadMore() {
    if (this.isLoading || this.next === null) return;
    this.isLoading = true;
    const agent = this.agent;
    const answer = await this.data.get(["runs", this.run, "steps"], { from: this.next, limit: BLOCK, agent }).catch(() => ({ steps: [], next: null }));
    this.isLoading = false;
    if (agent !== this.agent) return;
    this.list.push(...answer.steps);
    this.next = answer.next;
    this.redraw();
  }
}

/// A step as it was at a moment: running, if it ended later.
function asOf(step, then) {
  const start = Date.parse(step.started_at);
  if (!then || step.isMissing || start + (step.duration_ms ?? 0) <= then.time) return step;
  return { ...step, status: "running", tag: null, cost_usd: null, duration_ms: then.time - start, isPast: true };
}

function stepRow({ app, run }, step, key) {
  if (step.isMissing) return h("div", { class: "step-row", role: "listitem", key }, h("span", { class: "num dim" }, String(step.step)), h("span", {}), h("span", { class: "dim" }, "…"));
  const led = step.tag ? `${step.tag}${step.target ? ` ${step.target}` : ""}` : "";
  return h("div", { class: `step-row ${step.status}`, role: "listitem", key },
    h("span", { class: "num dim" }, count(step.step)), statusDot(step.status === "done" ? "completed" : step.status),
    h("a", { class: "state", href: address(["runs", run, "steps", String(step.step)]), "data-row": true, title: `${step.state}, ${exact(step.started_at)}` }, stateIcon(step.state), h("span", {}, step.state)),
    h("span", { class: "agent", title: step.agent }, step.agent),
    h("span", { class: "led dim", title: led }, led),
    h("span", { class: "num" }, step.status === "running" && !step.isPast ? duration(Date.now() - Date.parse(step.started_at)) : duration(step.duration_ms)),
    h("span", { class: "num" }, step.cost_usd ? money(step.cost_usd) : ""),
    canBranch(app.data, step) ? h("button", { class: "ghost branch", title: "Branch from here", "aria-label": `Branch from step ${step.step}`, onclick: () => askToBranch(app, run, step.step) }, icon("branch")) : h("span", {}));
}
