// The course of a run: money over time against the budget, and a row for each agent. Times in which nothing ran are
// drawn short. A row is a few paths, however many steps it has.

import { h } from "./h.js";
import { Rows } from "./rows.js";
import { count, duration, exact, money, plural } from "./format.js";
import { statusDot } from "./icons.js";
import { inTable } from "./text.js";

const ROW_HEIGHT = 24;
const MOST_ROWS = 12;
/// The chart's own units; it is stretched to the width that there is.
const WIDE = 1000;
const MONEY_HIGH = 56;
const THINNEST = 1.6;

const SPAN_WORDS = { prompt: "prompt", script: "script", failed: "failed", wait: "waits for its turn", ask: "waits for an answer", join: "waits for workers", delay: "waits", limit: "usage limit" };

export class Timeline {
  constructor(redraw, open) {
    Object.assign(this, { open, rows: new Rows(ROW_HEIGHT, redraw), known: null, scale: null });
  }

  /// `at`: the time that the slider is at, or nothing, and `statuses` those of the agents then. `isLive`: what has no end goes on until now.
  view(overview, at, isLive, statuses) {
    this.read(overview, isLive);
    this.statuses = statuses;
    const total = overview.agents.length;
    const left = at ? `${this.scale.x(Date.parse(at)) / WIDE * 100}%` : null;
    // What came later is pale.
    const playhead = () => at ? [h("div", { class: "veil", style: { left } }), h("div", { class: "playhead", style: { left } })] : null;
    return h("div", { class: "timeline" },
      // A run without a turn costs nothing: a flat line would only take room.
      overview.cost_usd ? h("div", { class: "t-head" }, h("div", { class: "t-label dim" }, "Money"), h("div", { class: "t-chart" }, moneyChart(overview, this.scale), playhead())) : null,
      h("div", { class: "t-body" },
        h("div", { class: "t-overlay", "aria-hidden": "true" }, this.scale.gaps.map((gap) => gapBand(gap)), playhead()),
        this.rows.view({ class: `t-rows ${total > MOST_ROWS ? "is-long" : ""}`, role: "list", "aria-label": "Agents over time" }, total, (index) => this.row(this.known.agents[index], index))),
      h("div", { class: "t-head t-axis" }, h("div", { class: "t-label" }), h("div", { class: "t-chart" }, this.ticks())),
      overview.more ? h("p", { class: "dim" }, `${plural(overview.more, "more agent")} not shown.`) : null,
      legend(overview));
  }

  read(overview, isLive) {
    const end = isLive ? Date.now() : Date.parse(overview.last_at);
    if (this.known?.of === overview && this.known.end === end) return;
    const agents = overview.agents.map((agent) => ({ ...agent, spans: agent.spans.map((span) => readSpan(span, end)) }));
    this.known = { of: overview, end, agents };
    this.scale = timeScale(agents, Date.parse(overview.started_at), Math.max(end, Date.parse(overview.started_at) + 1));
  }

  row(agent, index) {
    const paths = [...byLook(agent.spans)];
    const name = agent.title ? `${agent.title}` : agent.id;
    const depth = Math.min(4, agent.id.split("_").length - 1);
    const summary = `${agent.id}${agent.title ? `, ${agent.title}` : ""}: ${plural(agent.steps, "step")}, ${money(agent.cost_usd)}`;
    return h("div", { class: "t-row", role: "listitem", key: agent.id, "aria-label": summary },
      h("div", { class: "t-label", title: summary, style: { "padding-inline-start": `${depth * 10}px` } }, statusDot(this.statuses ? this.statuses.get(agent.id) ?? "later" : agent.status || "done"), h("span", { class: "t-name" }, name)),
      h("div", { class: "t-chart", onmousemove: (event) => this.explain(event, agent), onclick: (event) => this.clicked(event, agent) },
        h("svg", { viewBox: `0 0 ${WIDE} 10`, preserveAspectRatio: "none", "aria-hidden": "true" },
          paths.map(([look, spans]) => h("path", { class: `span ${look}`, key: look, d: spans.map((span) => bar(this.scale, span)).join("") })))));
  }

  spanAt(event, agent) {
    const box = event.currentTarget.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * WIDE;
    const near = (span) => this.scale.x(span.start) - 3 <= x && x <= Math.max(this.scale.x(span.end), this.scale.x(span.start) + THINNEST) + 3;
    return agent.spans.findLast(near);
  }

  explain(event, agent) {
    const span = this.spanAt(event, agent);
    const what = span && (span.kind === "step" ? `${span.state}${span.steps > 1 ? `, ${plural(span.steps, "step")}` : ""}` : inTable(SPAN_WORDS, span.look));
    event.currentTarget.title = span ? `${what}, ${duration(span.end - span.start)}\n${exact(span.from)}` : "";
    event.currentTarget.classList.toggle("can-open", Boolean(span?.step));
  }

  clicked(event, agent) {
    const span = this.spanAt(event, agent);
    if (span?.step) this.open(span.step);
  }

  ticks() {
    const { from, x, time } = this.scale;
    return [0, 0.25, 0.5, 0.75, 1].map((share, index) => {
      const at = time(share * WIDE);
      return h("span", { class: `tick tick-${index}`, style: { left: `${x(at) / WIDE * 100}%` }, title: exact(at) }, at - from < 1 ? "0" : `+${duration(at - from)}`);
    });
  }
}

function byLook(spans) {
  const groups = new Map();
  for (const span of spans) {
    if (!groups.has(span.look)) groups.set(span.look, []);
    groups.get(span.look).push(span);
  }
  return groups;
}

function readSpan(span, end) {
  const look = span.failed ? "failed" : span.kind === "step" ? (/\.md$/i.test(span.state ?? "") ? "prompt" : "script") : span.kind;
  const start = Date.parse(span.from);
  return { ...span, look, start, end: Math.max(start, span.to ? Date.parse(span.to) : end) };
}

function bar(scale, span) {
  const from = scale.x(span.start);
  const wide = Math.max(THINNEST, scale.x(span.end) - from);
  return `M${from.toFixed(1)} 0h${wide.toFixed(1)}v10h-${wide.toFixed(1)}z`;
}

/// Times → places. Long times in which no step ran get a small part of the width.
function timeScale(agents, from, to) {
  const busy = mergedTimes(agents.flatMap((agent) => agent.spans.filter((span) => span.kind === "step")));
  const active = busy.reduce((sum, [start, end]) => sum + end - start, 0);
  const least = Math.max(1000, active * 0.08);
  const edges = [[from, from], ...busy, [to, to]];
  const gaps = [];
  for (let index = 0; index + 1 < edges.length; index += 1) {
    const [start, end] = [edges[index][1], edges[index + 1][0]];
    if (end - start > least) gaps.push({ start, end });
  }
  const gapWidth = gaps.length ? Math.min(36, WIDE * 0.3 / gaps.length) : 0;
  const idle = gaps.reduce((sum, gap) => sum + gap.end - gap.start, 0);
  const perMs = (WIDE - gapWidth * gaps.length) / Math.max(1, to - from - idle);
  const x = (time) => placeOf(Math.min(to, Math.max(from, time)), from, gaps, gapWidth, perMs);
  const timeAt = (place) => {
    let [low, high] = [from, to];
    for (let turn = 0; turn < 40; turn += 1) x((low + high) / 2) < place ? (low = (low + high) / 2) : (high = (low + high) / 2);
    return high;
  };
  return { from, to, x, time: timeAt, gaps: gaps.map((gap) => ({ ...gap, left: x(gap.start), width: gapWidth })) };
}

function placeOf(time, from, gaps, gapWidth, perMs) {
  let place = (time - from) * perMs;
  for (const gap of gaps) {
    if (time <= gap.start) break;
    const inside = Math.min(time, gap.end) - gap.start;
    place += inside / (gap.end - gap.start) * gapWidth - inside * perMs;
  }
  return place;
}

function mergedTimes(spans) {
  const sorted = spans.map((span) => [span.start, span.end]).sort((a, b) => a[0] - b[0]);
  const merged = [];
  for (const [start, end] of sorted) {
    const last = merged.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}

function gapBand(gap) {
  const label = duration(gap.end - gap.start);
  return h("div", { class: "gap", style: { left: `${gap.left / WIDE * 100}%`, width: `${gap.width / WIDE * 100}%` }, title: `Nothing ran for ${label}` }, h("span", {}, label));
}

function moneyChart(overview, scale) {
  const budget = overview.budget_usd;
  const most = Math.max(overview.cost_usd, budget ? Math.min(budget, Math.max(overview.cost_usd * 3, 0.01)) : 0, 0.01) * 1.08;
  const y = (dollars) => MONEY_HIGH - dollars / most * MONEY_HIGH;
  let [line, last] = [`M0 ${y(0)}`, 0];
  for (const point of overview.money) {
    const x = scale.x(Date.parse(point.time)).toFixed(1);
    line += `L${x} ${y(last).toFixed(2)}L${x} ${y(point.cost_usd).toFixed(2)}`;
    last = point.cost_usd;
  }
  line += `L${scale.x(Date.parse(overview.last_at)).toFixed(1)} ${y(last).toFixed(2)}`;
  const isBudgetIn = budget && budget <= most;
  const label = `Money over time: ${money(overview.cost_usd)}${budget ? ` of a budget of ${money(budget)}` : ""}`;
  return h("div", { class: "money-chart", role: "img", "aria-label": label, title: label },
    h("svg", { viewBox: `0 0 ${WIDE} ${MONEY_HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      h("path", { class: "money-area", d: `${line}L${scale.x(Date.parse(overview.last_at)).toFixed(1)} ${MONEY_HIGH}L0 ${MONEY_HIGH}Z` }),
      h("path", { class: "money-line", d: line }),
      isBudgetIn ? h("path", { class: "budget-line", d: `M0 ${y(budget)}H${WIDE}` }) : null),
    h("span", { class: "money-now" }, money(overview.cost_usd)),
    budget ? h("span", { class: `money-budget ${isBudgetIn ? "" : "beyond"}`, style: { top: isBudgetIn ? `${y(budget) / MONEY_HIGH * 100}%` : "0" } }, isBudgetIn ? `budget ${money(budget)}` : `↑ budget ${money(budget)}`) : null);
}

function legend(overview) {
  const used = new Set(overview.agents.flatMap((agent) => agent.spans.map((span) => readSpan(span, 0).look)));
  const words = Object.entries(SPAN_WORDS).filter(([look]) => used.has(look));
  return h("p", { class: "legend dim" }, words.map(([look, word]) => h("span", {}, h("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" }, h("path", { class: `span ${look}`, d: "M0 0h10v10h-10z" })), word)),
    h("span", {}, `${count(overview.agents.length + (overview.more ?? 0))} ${overview.agents.length === 1 ? "agent" : "agents"}`));
}
