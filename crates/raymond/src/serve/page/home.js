// The start page: what needs a person, and all runs.

import { h } from "./h.js";
import { View, address, panel } from "./page.js";
import { count, duration, meter, money, plural, when } from "./format.js";
import { badge, icon, runBadge, statusColour } from "./icons.js";
import { askToResume, question } from "./actions.js";
import { firstLine } from "./text.js";

const RUNS_AT_ONCE = 50;
/// In the order of how soon a person is needed.
const KINDS = ["ask", "failed", "over_budget", "limited", "untrusted", "silent"];
const STATUSES = ["running", "waiting", "failed", "over_budget", "limited", "interrupted", "wedged", "completed"];

export class Home extends View {
  constructor(app, route) {
    super(app, route);
    Object.assign(this, { inbox: null, runs: null, next: null, pages: 1, workflows: null, typing: null, typed: null });
  }

  get filter() {
    const query = this.route.query;
    return { status: query.get("status") ?? "", q: query.get("q") ?? "", workflow: query.get("workflow") ?? "", label: query.getAll("label") };
  }

  async load() {
    const [inbox, runs] = await Promise.all([this.data.get(["inbox"]), this.loadRuns()]);
    this.inbox = inbox.items.toSorted((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || Date.parse(a.since) - Date.parse(b.since));
    this.app.needs(this.inbox.length);
    Object.assign(this, runs);
    if (!this.workflows && !this.runs.length) this.workflows = (await this.data.get(["workflows"])).workflows;
  }

  /// As many pages as were asked for.
  async loadRuns() {
    const runs = [];
    let before;
    for (let page = 0; page < this.pages; page += 1) {
      const answer = await this.data.get(["runs"], { ...this.filter, limit: RUNS_AT_ONCE, before });
      runs.push(...answer.runs);
      before = answer.next;
      if (!before) break;
    }
    return { runs, next: before ?? null };
  }

  event() {
    this.refresh();
  }

  isLive() {
    return this.runs?.some((run) => run.live) ?? false;
  }

  hasData() {
    return this.runs !== null;
  }

  title() {
    return "Runs";
  }

  keys() {
    return [["/", "search", () => document.getElementById("search")?.focus()]];
  }

  set(name, value) {
    const query = { ...this.filter, [name]: value };
    this.pages = 1;
    this.app.replace(address([], query));
    this.refresh();
  }

  render() {
    const isFiltered = Object.values(this.filter).some((value) => value.length);
    return [h("h1", { class: "unseen" }, "Raymond"), this.needsYou(),
      !this.runs.length && !isFiltered ? firstSteps(this.workflows ?? []) : panel("runs", "Runs", this.filters(), this.table())];
  }

  needsYou() {
    const items = this.inbox;
    if (!items.length) return this.runs.length ? h("section", { class: "calm", "aria-label": "Needs you" }, icon("completed"), h("h2", {}, "Nothing needs you"), h("span", { class: "dim" }, restingWords(this.runs))) : null;
    return panel("needs", "Needs you", h("span", { class: "number" }, count(items.length)), h("ul", { class: "cards" }, items.slice(0, 30).map((item) => this.card(item))),
      items.length > 30 ? h("p", { class: "dim" }, `and ${count(items.length - 30)} more`) : null);
  }

  card(item) {
    const name = item.run ? h("a", { href: address(["runs", item.run]), "data-row": true, class: "run-name" }, item.run) : h("a", { href: address(["workflows", item.workflow]), "data-row": true, class: "run-name" }, item.workflow);
    const head = h("header", {}, badge(item.kind), name, h("span", { class: "dim" }, item.run ? item.workflow ?? "" : ""), h("span", { class: "since dim" }, when(item.since)));
    return h("li", { class: `card is-${statusColour(item.kind)}`, key: `${item.kind} ${item.run ?? item.workflow} ${item.ask ?? item.agent ?? ""}` }, head, this.cardBody(item));
  }

  cardBody(item) {
    const run = { run: item.run, status: item.kind, cost_usd: item.cost_usd ?? 0, budget_usd: item.budget_usd };
    const resume = (word) => h("button", { onclick: () => askToResume(this.app, run) }, word);
    switch (item.kind) {
      case "ask":
        return question(this.app, item.run, { id: item.ask, agent: item.agent, question: item.question, opened_at: item.since, deadline: item.deadline, next: item.next, empty_ok: item.empty_ok });
      case "over_budget":
        return h("div", { class: "card-line" }, h("p", {}, item.budget_usd ? `${money(item.cost_usd)} of ${money(item.budget_usd)} are spent. It goes on with more budget.` : "Its budget is used up. It goes on with more."), resume("Add budget …"));
      case "limited":
        return h("div", { class: "card-line" }, h("p", {}, item.error ? firstLine(item.error, 300) : "The agent program's usage limit is reached."), resume("Resume …"));
      case "silent":
        return h("div", { class: "card-line" }, h("p", {}, [item.agent ?? "A step", " in ", item.state ?? "a step", " has written nothing since ", when(item.since), "."]), item.step ? h("a", { class: "button", href: address(["runs", item.run, "steps", String(item.step)]) }, "Look at it") : null);
      case "untrusted":
        return h("div", { class: "card-line" }, h("p", {}, "Its schedule does not start it: ", firstLine(item.error ?? "it is not trusted", 600)));
      default:
        return h("div", { class: "card-line" }, h("p", {}, item.state ? h("code", {}, item.state) : null, item.state ? " " : null, firstLine(item.error ?? "failed", 300)), resume("Resume …"));
    }
  }

  filters() {
    const { status, q } = this.filter;
    const search = (event) => {
      clearTimeout(this.typing);
      this.typed = event.target.value;
      this.typing = setTimeout(() => this.set("q", this.typed), 200);
    };
    const chosen = Object.entries({ workflow: [this.filter.workflow].filter(Boolean), label: this.filter.label }).flatMap(([name, values]) => values.map((value) => [name, value]));
    return [chosen.map(([name, value]) => h("button", { class: "pill", title: "Remove this filter", onclick: () => this.set(name, name === "label" ? this.filter.label.filter((one) => one !== value) : "") }, `${name}: ${value} ×`)),
      h("select", { "aria-label": "Status", value: status, onchange: (event) => this.set("status", event.target.value) },
        h("option", { value: "" }, "any status"), STATUSES.map((name) => h("option", { value: name }, name.replace("_", " ")))),
      h("input", { id: "search", type: "search", placeholder: "Search runs  ( / )", "aria-label": "Search runs", value: this.typed ?? q, oninput: search })];
  }

  table() {
    if (!this.runs.length) return h("p", { class: "empty" }, "No run matches. ", h("a", { href: "#/" }, "Show all runs"));
    return [h("table", { class: "run-table" },
      h("thead", {}, h("tr", {}, ["Status", "Run", "Steps", "Agents", "Cost", "Started", "Took"].map((name) => h("th", { scope: "col", class: name.toLowerCase() }, name)))),
      h("tbody", {}, this.runs.map((run) => runRow(run)))),
    this.next ? h("p", { class: "more" }, h("button", { onclick: () => ((this.pages += 1), this.refresh()) }, "Older runs")) : null];
  }
}

function restingWords(runs) {
  const live = runs.filter((run) => run.live).length;
  return live ? `${plural(live, "run")} at work` : "and nothing is running";
}

/// A run whose journal cannot be read has nothing but its name and the reason.
function damagedRow(run) {
  return h("tr", { key: run.run }, h("td", { class: "status" }, badge("damaged")), h("td", { class: "run", colspan: "6" }, h("span", { class: "run-name" }, run.run), h("span", { class: "under dim" }, run.error)));
}

function runRow(run) {
  if (run.status === "damaged") return damagedRow(run);
  const status = run.status === "running" && run.live === false ? "interrupted" : run.status;
  const agents = run.live_agents ?? run.agents?.length;
  // What came of it, or what it asks.
  const said = run.result ?? run.asks?.[0]?.question;
  const took = run.ended_at && !run.live ? Date.parse(run.ended_at) - Date.parse(run.started_at) : Date.now() - Date.parse(run.started_at);
  return h("tr", { key: run.run },
    h("td", { class: "status" }, runBadge(status, run.failed_workers)),
    h("td", { class: "run" }, h("a", { href: address(["runs", run.run]), "data-row": true, class: "run-name" }, run.run),
      h("span", { class: "under dim" }, run.workflow_id ? h("a", { href: address(["workflows", run.workflow_id]) }, run.workflow) : run.workflow, labels(run.labels), run.stale ? h("span", { class: "said" }, `old: ${run.stale}`) : null, run.schedule_waits_since ? h("span", { class: "said" }, scheduleWaits(run.schedule_waits_since)) : null, said ? h("span", { class: "said", title: firstLine(said, 1000) }, firstLine(said, 200)) : null)),
    h("td", { class: "num steps" }, h("span", { class: "cap" }, "steps "), count(run.steps)),
    h("td", { class: "num agents" }, agents ? [h("span", { class: "cap" }, "agents "), count(agents)] : h("span", { class: "dim" }, "–")),
    h("td", { class: "cost" }, meter(run.cost_usd, run.budget_usd)),
    h("td", { class: "started" }, when(run.started_at)),
    h("td", { class: "num took" }, run.live || run.ended_at ? duration(took) : "–"));
}

/// That nothing is started as long as a run has not ended.
export function scheduleWaits(since) {
  return ["its schedule waits for its end since ", when(since)];
}

export function labels(given) {
  return Object.entries(given ?? {}).map(([name, value]) => h("a", { class: "label", href: address([], { label: `${name}=${value}` }), title: "Runs with this label" }, `${name}=${value}`));
}

/// What to do in a project without runs.
function firstSteps(workflows) {
  const command = (text, about) => h("li", {}, h("code", {}, text), h("span", { class: "dim" }, about));
  return h("section", { class: "panel first", "aria-label": "First steps" },
    h("h2", {}, "No runs yet"),
    workflows.length ? [h("p", {}, "This project has workflows. Start one here, or from a terminal; both are shown on this page."),
      h("ul", { class: "first-list" }, workflows.slice(0, 8).map((workflow) => h("li", {}, h("a", { class: "button", href: address(["workflows", workflow.id]), "data-row": true }, workflow.name ?? workflow.id), h("span", { class: "dim" }, workflow.description ?? workflow.path))))]
      : [h("p", {}, "A workflow is a folder of small files. In a terminal, in this project:"),
        h("ol", { class: "first-list" }, command("raymond init my-flow", "writes a small workflow to start from"), command("raymond lint my-flow", "finds mistakes before a model does"), command("raymond my-flow", "runs it, and it appears here"))]);
}
