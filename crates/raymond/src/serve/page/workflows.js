// The workflows that can be started, and one of them: its graph, its states, what is wrong with it, and a form to start it.

import { h } from "./h.js";
import { View, address, panel } from "./page.js";
import { count, plural } from "./format.js";
import { icon, stateIcon } from "./icons.js";
import { graphView } from "./graph.js";
import { inTable } from "./text.js";

export class WorkflowList extends View {
  constructor(app, route) {
    super(app, route);
    this.workflows = null;
  }

  async load() {
    this.workflows = (await this.data.get(["workflows"])).workflows;
  }

  hasData() {
    return this.workflows !== null;
  }

  title() {
    return "Workflows";
  }

  render() {
    if (!this.workflows.length) return h("section", { class: "panel first" }, h("h1", {}, "No workflows yet"), h("p", {}, "A workflow is a folder with a start state. This writes one to begin with:"), h("p", {}, h("code", {}, "raymond init my-flow")));
    return [h("h1", {}, "Workflows"), h("ul", { class: "workflow-list" }, this.workflows.map((one) => h("li", { class: "panel", key: one.id },
      h("a", { class: "workflow-name", href: address(["workflows", one.id]), "data-row": true }, icon("workflow"), one.name ?? shownPath(one)),
      one.name ? h("span", { class: "path dim" }, shownPath(one)) : null, one.description ? h("p", {}, one.description) : null, one.error ? h("p", { class: "wrong" }, one.error) : null, findingsNote(one.findings))))];
  }
}

/// Its path below the project: that is what its id is made of.
function shownPath(workflow) {
  return workflow.id.replace(/~~|~/g, (found) => (found === "~" ? "/" : "~"));
}

function findingsNote(findings) {
  const { errors = 0, warnings = 0 } = findings ?? {};
  if (!errors && !warnings) return null;
  return h("p", { class: "small" }, errors ? h("span", { class: "badge is-failed" }, icon("failed"), plural(errors, "error")) : null, warnings ? h("span", { class: "badge is-silent" }, icon("warning"), plural(warnings, "warning")) : null);
}

export class WorkflowPage extends View {
  constructor(app, route) {
    super(app, route);
    Object.assign(this, { id: route.parts[1], workflow: null, graph: null, findings: [], state: null, text: null, start: { problem: null, findings: [], wrong: new Map(), isSending: false } });
  }

  async load() {
    const path = ["workflows", this.id];
    this.workflow = await this.data.get(path);
    const [graph, lint] = await Promise.all([this.data.get([...path, "graph"]).catch(() => null), this.data.get([...path, "lint"]).catch(() => [])]);
    Object.assign(this, { graph, findings: Array.isArray(lint) ? lint : lint.findings ?? [] });
    const wanted = this.route.query.get("state");
    if (wanted && wanted !== this.state) await this.loadState(wanted);
  }

  async loadState(name) {
    this.state = name;
    this.text = await this.data.get(["workflows", this.id, "states", name]).catch((problem) => ({ name, kind: "missing", text: problem.message }));
  }

  choose(name) {
    this.app.replace(address(["workflows", this.id], { state: name }));
    this.loadState(name).then(() => this.app.draw());
  }

  hasData() {
    return this.workflow !== null;
  }

  title() {
    return this.workflow?.name ?? this.id;
  }

  keys() {
    return [["i", "to the form that starts it", () => document.querySelector(".start input, .start textarea, .start button")?.focus()]];
  }

  render() {
    const { workflow } = this;
    return [h("header", { class: "run-head" }, h("div", { class: "run-line" }, h("h1", {}, workflow.name ?? shownPath(workflow)), h("div", { class: "actions" }, h("a", { class: "button", href: address([], { workflow: workflow.id }) }, "Its runs"))),
      h("p", { class: "run-about dim" }, h("code", { title: workflow.path }, shownPath(workflow)), workflow.form ? h("span", {}, workflow.form) : null, workflow.backend ? h("span", {}, `backend ${workflow.backend}`) : null),
      workflow.description ? h("p", {}, workflow.description) : null),
    h("div", { class: "columns" },
      h("div", { class: "column" }, panel("graph-panel", "Graph", null, this.graph ? graphView(this.graph, { selected: this.state, wrong: this.wrongStates(), select: (name) => this.choose(name) }) : h("p", { class: "empty" }, "It cannot be drawn: see what was found.")), this.statePanel()),
      h("div", { class: "column" }, this.startPanel(), this.findingsPanel()))];
  }

  /// The states with errors or warnings.
  wrongStates() {
    return new Set(this.findings.filter((one) => one.severity !== "info").map((one) => String(one.file ?? "").split("/").at(-1)));
  }

  statePanel() {
    const names = this.graph?.nodes.filter((node) => node.kind === "prompt" || node.kind === "script").map((node) => node.name) ?? [];
    return panel("state-panel", "States", h("span", { class: "num" }, count(names.length)),
      h("ul", { class: "state-list" }, names.map((name) => h("li", {}, h("button", { class: `link ${name === this.state ? "selected" : ""}`, "aria-pressed": String(name === this.state), "data-row": true, onclick: () => this.choose(name) }, stateIcon(name), name)))),
      this.text ? h("pre", { class: "text", tabindex: "0", "aria-label": this.text.name }, this.text.text) : null);
  }

  findingsPanel() {
    const serious = this.findings.filter((one) => one.severity !== "info");
    const notes = this.findings.length - serious.length;
    return panel("findings", "Findings", this.findings.length ? h("span", { class: "num" }, count(serious.length)) : null,
      serious.length ? h("ul", { class: "finding-list" }, serious.map((one) => h("li", {}, h("span", { class: `badge ${one.severity === "error" ? "is-failed" : "is-silent"}` }, icon(one.severity === "error" ? "failed" : "warning"), `${one.severity} ${one.code}`),
        h("span", {}, one.message), h("span", { class: "dim small" }, `${one.file}${one.line ? `:${one.line}` : ""}`), one.help ? h("span", { class: "dim small" }, one.help) : null)))
        : h("p", { class: "calm-line" }, icon("completed"), "Nothing is wrong with it."), notes ? h("p", { class: "dim small" }, `${plural(notes, "note")} in raymond lint`) : null);
  }

  startPanel() {
    const { workflow, start } = this;
    const mode = workflow.input?.mode ?? "optional";
    const inputs = Object.entries(workflow.inputs ?? {}).map(([name, one]) => ({ name: one.name ?? name, ...one }));
    return panel("start", "Start a run", null, h("form", { onsubmit: (event) => this.submit(event, inputs) },
      mode === "none" ? null : field(workflow.input?.label ?? "Input", workflow.input?.description, mode === "required", h("textarea", { name: "input", rows: "3", required: mode === "required" })),
      inputs.map((one) => inputField(one, start.wrong.get(one.name))),
      h("div", { class: "field-row" }, field("Budget in dollars", null, false, h("input", { name: "budget", type: "number", min: "0", step: "any", placeholder: workflow.default_budget ? `${workflow.default_budget}` : "10" })),
        field("Model", null, false, h("input", { name: "model", autocomplete: "off", placeholder: "as the states say" }))),
      h("details", {}, h("summary", {}, "More"), h("div", { class: "field-row" }, field("Effort", null, false, h("input", { name: "effort", autocomplete: "off" })), field("Backend", null, false, h("input", { name: "backend", autocomplete: "off", placeholder: workflow.backend ?? "" }))),
        h("div", { class: "field-row" }, field("Labels", "one a line: team=core", false, h("textarea", { name: "labels", rows: "2" })), field("Id of the run", null, false, h("input", { name: "id", autocomplete: "off", pattern: "[A-Za-z0-9_\\-][A-Za-z0-9._\\-]{0,63}", placeholder: "made up" })))),
      start.problem ? h("div", { class: "wrong", role: "alert" }, h("p", {}, start.problem), start.findings.length ? h("ul", {}, start.findings.slice(0, 20).map((one) => h("li", {}, typeof one === "string" ? one : [one.file, one.line, one.message].filter(Boolean).join(": ")))) : null) : null,
      h("div", { class: "buttons" }, h("button", { class: "primary", type: "submit", disabled: start.isSending }, start.isSending ? "Starting …" : "Start"))));
  }

  async submit(event, inputs) {
    event.preventDefault();
    const form = event.target.elements;
    const text = (name) => form[name]?.value.trim() || undefined;
    const body = { workflow: this.id, input: text("input"), budget: text("budget") && Number(text("budget")), model: text("model"), effort: text("effort"), backend: text("backend"), id: text("id") };
    const named = inputs.map((one) => [one.name, inputValue(one, form[`set ${one.name}`])]).filter(([, value]) => value !== undefined);
    if (named.length) body.inputs = Object.fromEntries(named);
    const labels = (text("labels") ?? "").split("\n").map((line) => line.split("=")).filter(([name]) => name.trim());
    if (labels.length) body.labels = Object.fromEntries(labels.map(([name, ...value]) => [name.trim(), value.join("=").trim()]));
    Object.assign(this.start, { isSending: true, problem: null, findings: [], wrong: new Map() });
    this.app.draw();
    try {
      const answer = await this.data.post(["runs"], body);
      this.app.go(address(["runs", answer.run]));
    } catch (problem) {
      const wrong = new Map(Object.entries(problem.body?.inputs ?? {}));
      const isShownAtField = (name) => inputs.some((one) => one.name === name);
      const isAllShown = wrong.size > 0 && [...wrong.keys()].every(isShownAtField);
      Object.assign(this.start, { problem: isAllShown ? "Some of it is not right yet: see above." : problem.message, findings: problem.body?.findings ?? [], wrong });
    }
    this.start.isSending = false;
    this.app.draw();
    if (this.start.wrong.size) requestAnimationFrame(() => document.querySelector(".start [aria-invalid=true]")?.focus());
  }
}

function field(name, description, isRequired, control, wrong) {
  return h("label", { class: "field" }, h("span", {}, name, isRequired ? h("span", { class: "dim" }, " (required)") : null), description ? h("span", { class: "dim small" }, description) : null, control, wrong ?? null);
}

/// A named input, with what the server says is wrong with its value.
function inputField(input, problem) {
  const name = `set ${input.name}`;
  const value = input.default ?? "";
  const wrong = problem ? h("span", { class: "wrong small", id: `wrong ${input.name}`, role: "alert" }, problem) : null;
  const about = { name, "aria-invalid": problem ? "true" : null, "aria-describedby": problem ? `wrong ${input.name}` : null };
  const isNeeded = input.required && value === "";
  if (input.type === "boolean") return h("label", { class: "field check" }, h("input", { type: "checkbox", ...about, checked: value === "true" }), h("span", {}, input.name), input.description ? h("span", { class: "dim small" }, input.description) : null, wrong);
  if (input.type === "choice") return field(input.name, input.description, isNeeded, h("select", { ...about, value, required: isNeeded }, value === "" ? h("option", { value: "" }, "") : null, (input.choices ?? []).map((one) => h("option", { value: one }, one))), wrong);
  const words = { integer: "a whole number", number: "a number", file: "a path below the project" };
  const description = [input.description, inTable(words, input.type)].filter(Boolean).join("; ");
  const isNumber = input.type === "integer" || input.type === "number";
  return field(input.name, description, isNeeded, h("input", { ...about, value, inputmode: isNumber ? "decimal" : null, class: isNumber ? "num" : null, required: isNeeded, autocomplete: "off" }), wrong);
}

/// What is sent for an input: text as it was typed, since the server knows best what fits. What is left as it was is not sent.
function inputValue(input, control) {
  if (!control) return undefined;
  const value = input.type === "boolean" ? String(control.checked) : control.value;
  return value === (input.default ?? (input.type === "boolean" ? "false" : "")) ? undefined : value;
}
