// One run: where it is, what it has cost, what it asks, and how it was at any event.

import { h } from "./h.js";
import { View, address, panel } from "./page.js";
import { clockTime, count, duration, exact, meter, money, plural, tokens, when } from "./format.js";
import { icon, runBadge, stateIcon, statusColour, statusDot } from "./icons.js";
import { askToResume, question, saveExport, stopButtons, stopRun } from "./actions.js";
import { eventColour, sentence } from "./wording.js";
import { graphView } from "./graph.js";
import { Timeline } from "./timeline.js";
import { StepList } from "./steps.js";
import { labels, scheduleWaits } from "./home.js";
import { inTable } from "./text.js";

const EVENTS_SHOWN = 60;
const PRINTS_SHOWN = 40;
const AGENTS_SHOWN = 30;
const STATES_SHOWN = 40;
const BRANCHES_SHOWN = 20;
const SLIDE_PAUSE = 60;
/// How often a run on other machines is looked at: that nothing is heard of it is no event.
const LOOK_ELSEWHERE = 3000;

export class RunPage extends View {
  constructor(app, route) {
    super(app, route);
    const open = (step) => app.go(address(["runs", this.id, "steps", String(step)]));
    Object.assign(this, { id: route.parts[1], run: null, overview: null, past: null, pastRun: null, graph: null, scope: 0, events: [], pastEvents: null, slide: null, abort: null });
    this.at = Number(route.query.get("at")) || null;
    this.timeline = new Timeline(() => app.draw(), open);
    this.steps = new StepList(app, this.id);
  }

  async load() {
    const [run, overview] = await Promise.all([this.data.get(["runs", this.id]).then((run) => this.showEarly(run)), this.data.get(["runs", this.id, "overview"])]);
    const hasChanged = overview.last_seq !== this.overview?.last_seq;
    Object.assign(this, { run, overview });
    this.steps.update(overview.last_step ?? overview.steps, hasChanged);
    if (!this.graph || this.lacksState()) this.graph = await this.data.get(["runs", this.id, "graph"]).catch(() => ({ scopes: [], counts: [] }));
    if (hasChanged) await this.fillEvents();
    if (this.at && !this.past) await this.loadPast();
    clearTimeout(this.elsewhereTimer);
    if (run.engine && run.live && !this.isOver && !this.data.isEmbedded) this.elsewhereTimer = setTimeout(() => this.refresh(), LOOK_ELSEWHERE);
  }

  /// The head of a run is there at once; reading the course of a long one for the first time takes a moment.
  showEarly(run) {
    if (!this.run && !this.isOver) {
      this.run = run;
      this.app.draw();
    }
    return run;
  }

  early() {
    if (!this.run) return null;
    return h("div", { class: "run-page" }, this.head(this.run), h("p", { class: "loading", role: "status" }, "Reading what happened …"));
  }

  /// Whether an agent is where the graph has no node yet.
  lacksState() {
    const known = new Set(this.graph.scopes.flatMap((scope) => scope.graph?.nodes.map((node) => node.name) ?? []));
    const unknown = this.run.agents.map((agent) => agent.state).filter((state) => !known.has(state)).join();
    const isNew = unknown !== (this.unknown ?? "");
    this.unknown = unknown;
    return isNew;
  }

  /// The events after the last one that is shown, so that none is left out and none comes twice.
  async fillEvents() {
    const shown = this.events.at(-1)?.seq ?? Math.max((this.overview.first_seq ?? 1) - 1, this.overview.last_seq - EVENTS_SHOWN);
    const answer = await this.data.get(["runs", this.id, "events"], { after: shown, limit: EVENTS_SHOWN }).catch(() => ({ events: [] }));
    for (const event of answer.events) if (event.seq > (this.events.at(-1)?.seq ?? 0)) this.pushEvent(event);
  }

  /// Takes an event that has just happened. Whether some before it were missed.
  addEvent(event) {
    const last = this.events.at(-1)?.seq;
    if (last !== undefined && event.seq !== last + 1) return event.seq > last;
    this.pushEvent(event);
    return false;
  }

  pushEvent(event) {
    // Where a run was taken back, the numbers of the events that it dropped are missing.
    if (event.origin?.run === this.id) this.events = this.events.filter((before) => before.seq <= event.origin.seq);
    this.events.push(event);
    if (this.events.length > 2 * EVENTS_SHOWN) this.events.splice(0, EVENTS_SHOWN);
  }

  event(event) {
    if (event.run !== this.id) return;
    // An event that does not follow the last one means that some were missed: they are asked for.
    if (this.isLoaded && !this.addEvent(event)) this.app.draw();
    this.refresh();
  }

  async loadPast() {
    this.abort?.abort();
    this.abort = new AbortController();
    const options = { signal: this.abort.signal };
    const at = this.at;
    const [pastRun, past, events] = await Promise.all([
      this.data.get(["runs", this.id], { at }, options),
      this.data.get(["runs", this.id, "overview"], { at, buckets: 60 }, options),
      this.data.get(["runs", this.id, "events"], { after: Math.max(0, at - EVENTS_SHOWN), limit: EVENTS_SHOWN }, options)]);
    if (this.at === at) Object.assign(this, { pastRun, past, pastEvents: events.events.filter((event) => event.seq <= at) });
  }

  /// Shows the run as it was after an event, or as it is.
  slideTo(seq) {
    if (!this.overview) return;
    const { first_seq: first = 1, last_seq: last } = this.overview;
    this.at = seq === null || seq >= last ? null : Math.max(first, seq);
    clearTimeout(this.slide);
    this.app.replace(address(["runs", this.id], { at: this.at }));
    if (this.at === null) {
      this.abort?.abort();
      Object.assign(this, { past: null, pastRun: null, pastEvents: null });
    } else this.slide = setTimeout(() => this.loadPast().catch((problem) => problem.name === "AbortError" || this.app.say(problem.message)).then(() => this.app.draw()), SLIDE_PAUSE);
    this.app.draw();
  }

  hasData() {
    return this.overview !== null;
  }

  isLive() {
    return this.run?.live ?? false;
  }

  title() {
    return this.id;
  }

  stop() {
    super.stop();
    this.abort?.abort();
    clearTimeout(this.slide);
    clearTimeout(this.elsewhereTimer);
  }

  keys() {
    const here = () => this.at ?? this.overview?.last_seq ?? 1;
    const keys = [["[", "one event back", () => this.slideTo(here() - 1)], ["]", "one event on", () => this.slideTo(here() + 1)],
      ["{", "to the first event", () => this.slideTo(1)], ["}", "to now", () => this.slideTo(null)]];
    if (this.data.isEmbedded) return keys;
    return [...keys, ["a", "answer the first question", () => document.querySelector("[data-answer]")?.focus()],
      ["s", "stop the run", () => this.run?.live && stopRun(this.app, this.id, false)],
      ["r", "resume the run", () => this.canResume() && askToResume(this.app, this.run)],
      ["e", "save the run as one file", () => saveExport(this.app, this.id)]];
  }

  canResume() {
    return this.run && !this.run.live && this.run.status !== "completed" && !this.run.ended_there;
  }

  render() {
    const shown = this.at ? this.pastRun ?? this.run : this.run;
    const overview = this.at ? this.past ?? this.overview : this.overview;
    return h("div", { class: `run-page ${this.at ? "is-past" : ""}` },
      this.head(shown), this.at ? null : this.needs(), this.slider(),
      panel("course", "Course", null, this.timeline.view(this.overview, this.timeAt(), this.isLive(), this.statusesThen())),
      h("div", { class: "columns" },
        h("div", { class: "column" }, this.graphPanel(shown, overview), this.printsPanel()),
        h("div", { class: "column" }, this.agentsPanel(shown), this.statesPanel(overview), this.eventsPanel())),
      panel("step-panel", "Steps", this.stepFilter(), this.steps.view(this.timeAt() && this.past ? { time: Date.parse(this.timeAt()), last: this.past.last_step ?? this.past.steps } : null)));
  }

  head(run) {
    const status = run.status === "running" && !run.live && !this.at ? "interrupted" : run.status;
    const end = this.at ? Date.parse(this.timeAt() ?? run.started_at) : run.live ? Date.now() : Date.parse(run.ended_at ?? this.overview?.last_at ?? run.started_at);
    const fact = (name, value) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
    return h("header", { class: "run-head" },
      h("div", { class: "run-line" }, runBadge(status, run.failed_workers), h("h1", {}, run.run), this.actions(run)),
      h("p", { class: "run-about dim" }, run.workflow_id && !this.data.isEmbedded ? h("a", { href: address(["workflows", run.workflow_id]) }, icon("workflow"), run.workflow) : run.workflow, this.data.isEmbedded ? null : labels(run.labels)),
      this.lineage(), this.elsewhere(), run.schedule_waits_since ? h("p", { class: "run-about" }, scheduleWaits(run.schedule_waits_since)) : null,
      h("dl", { class: "facts" }, fact("Cost", meter(run.cost_usd, run.budget_usd)), run.tokens ? fact("Tokens", tokens(run.tokens)) : null, fact("Steps", h("span", { class: "big" }, count(run.steps))),
        fact("Agents", h("span", { class: "big" }, count(run.agents.length))), fact("Started", when(run.started_at)),
        fact(run.live || this.at ? "For" : "Took", duration(end - Date.parse(run.started_at)))),
      run.result !== null && run.result !== undefined ? h("div", { class: `outcome is-${run.failed_workers ? "limited" : "completed"}` }, h("h2", {}, icon(run.failed_workers ? "failed" : "completed"), "Result"), h("pre", {}, run.result)) : null,
      run.live || this.at ? null : this.reason(run, status));
  }

  /// What the run came from, and what came from it.
  lineage() {
    const { origin, branched_off: first, branches = [] } = this.run;
    if (!origin && !branches.length) return null;
    const link = (run, step) => [this.data.isEmbedded ? run : h("a", { href: address(["runs", run]) }, run), step ? h("span", {}, " at ", this.data.isEmbedded ? `step ${step}` : h("a", { href: address(["runs", run, "steps", String(step)]) }, `step ${count(step)}`)) : null];
    const from = ({ run, step }) => ["goes on from ", link(run, step)];
    const takenBack = ({ step, dropped }) => [first ? [from(first), ", and "] : null, "was taken back", step ? ` to step ${count(step)}` : null, "; what came then is in ", link(dropped)];
    const came = !origin ? null : origin.dropped ? takenBack(origin) : from(origin);
    const shown = branches.slice(0, BRANCHES_SHOWN);
    return h("p", { class: "lineage dim" }, icon("branch"), came ? h("span", {}, came) : null,
      shown.length ? h("span", {}, plural(branches.length, "branch", "branches"), ": ", shown.map((branch, index) => [index ? ", " : null, link(branch.run), branch.step ? ` from step ${count(branch.step)}` : null]), branches.length > shown.length ? " …" : null) : null);
  }

  /// Where a run on other machines is, and whether what is shown of it is old.
  elsewhere() {
    const { engine, stale, seen_at: seen } = this.run;
    if (!engine) return null;
    return [h("p", { class: "run-about dim" }, "on ", engine),
      stale && this.run.live ? h("div", { class: "outcome is-limited", role: "status" }, h("h2", {}, icon("limited"), "Old"), h("p", {}, "This is how it was ", when(seen), ". Since then ", stale, ".")) : null];
  }

  /// Why a run stands still, and what can be done.
  reason(run, status) {
    const failed = run.agents.filter((agent) => agent.error);
    const words = { over_budget: `${money(run.cost_usd)} of a budget of ${money(run.budget_usd)} are spent. Resume it with more.`, limited: "The agent program's usage limit is reached. Resume it when the limit has ended.",
      interrupted: run.ended_there ? `It ${run.ended_there} on ${run.engine}, so it does not go on.` : "It was stopped, or its process ended. A resume goes on where it was.", failed: failed.length ? null : run.error ?? "See its last events." };
    if (!inTable(words, status) && !(status === "failed" && failed.length)) return null;
    return h("div", { class: `outcome is-${statusColour(status)}` }, h("h2", {}, icon(statusColour(status)), "Why it stopped"),
      inTable(words, status) ? h("p", {}, inTable(words, status)) : failed.slice(0, 5).map((agent) => [h("p", {}, h("code", {}, agent.state), ` ${agent.error}`), agent.stderr ? h("pre", { class: "dim" }, agent.stderr) : null]));
  }

  actions() {
    if (this.data.isEmbedded) return null;
    return h("div", { class: "actions" }, this.run.live ? stopButtons(this.app, this.id) : null,
      this.canResume() ? h("button", { class: "primary", key: "resume", onclick: () => askToResume(this.app, this.run), title: "Go on with this run (r)" }, "Resume …") : null,
      h("button", { key: "export", onclick: () => saveExport(this.app, this.id), title: "Save the run as one HTML file (e)" }, icon("save"), "Export"));
  }

  needs() {
    if (!this.run.asks.length || this.data.isEmbedded) return null;
    return panel("needs", this.run.asks.length === 1 ? "A question for you" : "Questions for you", null, this.run.asks.slice(0, 20).map((ask) => h("div", { class: "card is-waiting", key: ask.id }, question(this.app, this.id, ask))));
  }

  timeAt() {
    if (!this.at) return null;
    return this.pastEvents?.at(-1)?.time ?? this.past?.last_at ?? null;
  }

  statusesThen() {
    return this.at && this.past ? new Map(this.past.agents.map((agent) => [agent.id, agent.status || "done"])) : null;
  }

  slider() {
    const { first_seq: first = 1, last_seq: last } = this.overview;
    const now = this.at ?? last;
    const event = this.at ? this.pastEvents?.findLast((one) => one.seq <= now) : this.events.at(-1);
    const step = (distance, name, label) => h("button", { class: "ghost", "aria-label": label, title: label, disabled: distance < 0 ? now <= first : now >= last, onclick: () => this.slideTo(now + distance) }, icon(name));
    return h("section", { class: "slider", key: "slider", "aria-label": "Time" }, step(-1, "left", "One event back ( [ )"),
      h("input", { type: "range", min: first, max: last, step: "1", value: now, "aria-label": "Event", "aria-valuetext": event ? `event ${now} of ${last}, ${sentence(event)}` : `event ${now} of ${last}`, oninput: (input) => this.slideTo(Number(input.target.value)) }),
      step(1, "right", "One event on ( ] )"),
      h("span", { class: "slider-place num" }, `${count(now)} / ${count(last)}`),
      this.at ? h("button", { class: "primary", onclick: () => this.slideTo(null) }, "Back to now") : h("span", { class: "slider-now dim" }, this.isLive() ? "now" : "the end"),
      h("p", { class: "slider-event" }, event ? [h("time", { datetime: event.time, title: exact(event.time), class: "dim" }, clockTime(event.time)), " ", event.agent ? h("b", {}, `${event.agent} `) : null, sentence(event)] : ""));
  }

  graphPanel(run, overview) {
    const scopes = this.graph.scopes;
    const scope = scopes[Math.min(this.scope, scopes.length - 1)];
    const choose = scopes.length > 1 ? h("select", { "aria-label": "Workflow", value: String(this.scope), onchange: (event) => ((this.scope = Number(event.target.value)), this.app.draw()) }, scopes.map((one, index) => h("option", { value: String(index) }, one.path))) : null;
    // What is in the run's own workflow names none.
    const here = (one) => (one.scope ?? scopes[0].path) === scope.path;
    const open = this.data.isEmbedded || !scope?.workflow_id ? null : (name) => this.app.go(address(["workflows", scope.workflow_id], { state: name }));
    return panel("graph-panel", "Graph", choose, scope?.graph ? graphView(scope.graph, { counts: overview.edges.filter(here), states: overview.states.filter(here), agents: run.agents.filter(here), select: open })
      : h("p", { class: "empty" }, scope?.missing ? `The workflow is not there any more: ${scope.missing}` : "The workflow is not there any more, so there is no graph."));
  }

  statesPanel(overview) {
    const states = [...overview.states].sort((a, b) => b.cost_usd - a.cost_usd || b.duration_ms - a.duration_ms);
    const most = Math.max(...states.map((state) => state.cost_usd), 1e-9);
    const row = (state) => h("tr", { key: `${state.scope ?? ""}/${state.state}` }, h("th", { scope: "row" }, stateIcon(state.state), state.state), h("td", { class: "num" }, count(state.visits)),
      h("td", { class: "num" }, state.failed ? h("span", { class: "is-failed" }, count(state.failed)) : h("span", { class: "dim" }, "–")), h("td", { class: "num" }, state.duration_ms ? duration(state.duration_ms) : h("span", { class: "dim" }, "–")),
      h("td", { class: "num" }, state.cost_usd ? money(state.cost_usd) : h("span", { class: "dim" }, "–")), h("td", { class: "share", "aria-hidden": "true" }, h("span", { style: { width: `${state.cost_usd / most * 100}%` } })));
    return panel("states", "Money and time by state", h("span", { class: "num" }, money(overview.cost_usd)), states.length ? h("table", {},
      h("thead", {}, h("tr", {}, ["State", "Visits", "Failed", "Time", "Cost", ""].map((name) => (name ? h("th", { scope: "col" }, name) : h("td", {}))))),
      h("tbody", {}, states.slice(0, STATES_SHOWN).map(row))) : h("p", { class: "empty" }, "No step has started yet."));
  }

  agentsPanel(run) {
    const titles = new Map(this.overview.agents.map((agent) => [agent.id, agent.title]));
    const shown = run.agents.slice(0, AGENTS_SHOWN);
    return panel("agents", "Agents", h("span", { class: "num" }, count(run.agents.length)), shown.length ? h("ul", {}, shown.map((agent) => agentRow(this.id, agent, titles.get(agent.id) ?? agent.title, run.live, this.at)))
      : h("p", { class: "empty" }, run.status === "completed" ? "All agents have ended." : "No agent is alive."),
    (run.fan_outs ?? []).slice(0, 8).map((fan) => fanOutLine(fan)),
    run.agents.length > shown.length ? h("p", { class: "dim" }, `and ${plural(run.agents.length - shown.length, "more agent")}, in the course above`) : null);
  }

  eventsPanel() {
    const events = (this.at ? this.pastEvents ?? [] : this.events).slice(-EVENTS_SHOWN).reverse();
    return panel("events", "Events", null, h("ol", { class: "event-list", tabindex: "0", "aria-label": "Events, the latest first" }, events.map((event) => h("li", { key: event.seq, "data-seq": event.seq, class: `event ${event.event} ${eventColour(event) ? `is-${statusColour(eventColour(event))}` : ""}` },
      h("button", { class: "link time", title: `${exact(event.time)}\nShow the run as it was then`, onclick: () => this.slideTo(event.seq) }, clockTime(event.time)),
      h("span", { class: "what" }, event.agent ? h("b", {}, event.agent) : null, event.agent ? " " : null, sentence(event))))));
  }

  printsPanel() {
    const then = this.at && this.past?.prints?.length ? this.past : this.overview;
    const prints = then.prints.filter((print) => !this.at || print.seq <= this.at).slice(-PRINTS_SHOWN).reverse();
    if (!prints.length) return null;
    return panel("prints", "Printed", null, h("ol", { class: "event-list", tabindex: "0", "aria-label": "What the workflow printed, the latest first" }, prints.map((print) => h("li", { key: print.seq, class: "event" },
      h("button", { class: "link time", title: `${exact(print.time)}\nShow the run as it was then`, onclick: () => this.slideTo(print.seq) }, clockTime(print.time)), h("span", { class: "what" }, h("b", {}, print.agent), " ", h("span", { class: "printed" }, print.text))))));
  }

  stepFilter() {
    const agents = this.overview.agents.slice(0, 200);
    if (agents.length < 2) return null;
    return h("select", { "aria-label": "Agent", value: this.steps.agent ?? "", onchange: (event) => this.steps.only(event.target.value || null) },
      h("option", { value: "" }, "all agents"), agents.map((agent) => h("option", { value: agent.id }, agent.title ? `${agent.id}: ${agent.title}` : agent.id)));
  }
}

/// How far the workers of an agent are.
function fanOutLine(fan) {
  const share = (number) => `${number / Math.max(1, fan.workers) * 100}%`;
  return h("div", { class: "fan-out", key: `fan ${fan.agent} ${fan.state}` }, h("span", {}, h("b", { class: "agent-id" }, fan.agent), h("span", { class: "dim" }, ` workers at ${fan.state}`)),
    h("span", { class: "num" }, `${count(fan.done)} of ${count(fan.workers)} done${fan.failed ? `, ${count(fan.failed)} failed` : ""}`),
    h("span", { class: "fan-bar", "aria-hidden": "true" }, h("span", { class: "done", style: { width: share(fan.done) } }), h("span", { class: "failed", style: { width: share(fan.failed) } })));
}

function agentRow(run, agent, title, isLive, isPast) {
  const since = agent.running_since && !isPast ? [" for ", h("span", { class: "num", title: exact(agent.running_since) }, duration(Date.now() - Date.parse(agent.running_since)))] : null;
  const silent = agent.last_output_at && !isPast && Date.now() - Date.parse(agent.last_output_at) > 60000 ? [", last output ", when(agent.last_output_at)] : null;
  return h("li", { class: `agent-row is-${statusColour(agent.status)}`, key: agent.id },
    h("div", { class: "agent-line" }, statusDot(agent.status), h("b", { class: "agent-id", title: agent.cwd }, agent.id), title ? h("span", { class: "dim" }, title) : null,
      h("span", { class: "agent-state" }, agent.step ? h("a", { href: address(["runs", run, "steps", String(agent.step)]) }, stateIcon(agent.state), agent.state) : [stateIcon(agent.state), agent.state])),
    h("p", { class: "agent-about dim small" }, badgeWord(agent, isLive), since, silent, agent.until ? [", until ", when(agent.until)] : null),
    agent.stack?.length ? h("p", { class: "stack small dim" }, "returns to ", agent.stack.slice().reverse().map((frame, index) => [index ? " ← " : null, h("code", {}, frame.state)])) : null,
    agent.error ? h("pre", { class: "agent-error" }, [agent.error, agent.stderr].filter(Boolean).join("\n")) : null);
}

function badgeWord(agent, isLive) {
  const words = { running: "works", ready: isLive ? "is about to start" : "goes on after a resume", delayed: "waits", asking: "waits for an answer", joining: "waits for its workers", limited: "waits for a usage limit", failed: "failed" };
  return inTable(words, agent.status) ?? agent.status;
}
