// The data of one run, from the file that `raymond export` wrote. It answers the same paths as the API.

import { Problem } from "./data.js";
import { inTable } from "./text.js";

export class EmbeddedData {
  constructor(run) {
    this.all = run;
    this.isEmbedded = true;
  }

  /// The data in this document, if it is an exported file.
  static here() {
    const element = document.getElementById("run-data");
    return element ? new EmbeddedData(JSON.parse(element.textContent)) : null;
  }

  get run() {
    return this.all.run.run;
  }

  async get(path, query = {}) {
    const [, run, what, number] = path;
    if (run !== this.run) throw new Problem(404, "not in this file", "This file holds one run only.");
    if (what === undefined) return query.at ? this.at(query.at).run : this.all.run;
    if (what === "overview") return query.at ? this.at(query.at).overview ?? this.all.overview : this.all.overview;
    if (what === "graph") return this.all.graph;
    if (what === "events") return this.events(Number(query.after ?? 0), Number(query.limit ?? 200));
    if (what === "steps") return number === undefined ? this.steps(query) : this.step(number);
    throw new Problem(404, "not in this file", "An exported file holds no such data.");
  }

  async post() {
    throw new Problem(405, "an exported file", "This file only shows the run. To change it, use raymond serve or the command line.");
  }

  /// The latest state that the file holds at or before an event.
  at(seq) {
    const states = this.all.states_at ?? [];
    return states.findLast((state) => state.seq <= seq) ?? states[0] ?? this.all;
  }

  events(after, limit) {
    const later = (this.all.events ?? []).filter((event) => event.seq > after);
    return { events: later.slice(0, limit), next: later.length > limit ? later[limit - 1].seq : null };
  }

  steps({ from = 1, limit = 200, agent }) {
    const all = Object.values(this.all.steps ?? {}).filter((step) => step.step >= from && (!agent || step.agent === agent));
    all.sort((a, b) => a.step - b.step);
    return { steps: all.slice(0, limit), next: all[limit]?.step ?? null };
  }

  step(number) {
    const step = inTable(this.all.steps, number);
    if (!step) throw new Problem(404, "not in this file", `Step ${number} is not in this file.`);
    return step;
  }
}
