// What all views have in common: they load data, show them, and load again when something has happened.

import { h } from "./h.js";

const LOAD_AT_MOST_EVERY = 200;
const TRY_AGAIN_AFTER = 2000;

export class View {
  constructor(app, route) {
    Object.assign(this, { app, route, problem: null, isLoaded: false, isOver: false, timer: null, isLoading: false, isStale: false, pause: LOAD_AT_MOST_EVERY });
  }

  get data() {
    return this.app.data;
  }

  /// Loads now, or soon if that was done a moment ago. A slow load makes the next one wait longer.
  refresh() {
    if (this.isOver) return;
    if (this.isLoading || this.timer) {
      this.isStale = true;
      return;
    }
    this.isLoading = true;
    const from = performance.now();
    this.load().then(() => (this.problem = null), (problem) => problem.name === "AbortError" || (this.problem = problem)).then(() => {
      Object.assign(this, { isLoaded: true, isLoading: false });
      if (this.isOver) return;
      this.app.draw();
      this.pause = Math.max(LOAD_AT_MOST_EVERY, 3 * (performance.now() - from));
      // What cannot be loaded at this moment may be there in the next; what is not there stays away.
      if (this.problem && ![401, 404, 405].includes(this.problem.status)) Object.assign(this, { isStale: true, pause: TRY_AGAIN_AFTER });
      this.timer = setTimeout(() => {
        this.timer = null;
        if (this.isStale) {
          this.isStale = false;
          this.refresh();
        }
      }, this.pause);
    });
  }

  /// Nothing of it is used any more.
  stop() {
    this.isOver = true;
    clearTimeout(this.timer);
  }

  async load() {}

  /// Something happened in some run.
  event() {}

  /// A running step that was asked for wrote something.
  output() {}

  /// Steps whose output is wanted.
  outputs() {
    return [];
  }

  /// Keys of this view: `[key, what it does, function]`.
  keys() {
    return [];
  }

  title() {
    return "Raymond";
  }

  isLive() {
    return false;
  }

  whole() {
    if (!this.isLoaded) return this.early() ?? h("p", { class: "loading", role: "status" }, "Loading …");
    if (this.problem && !this.hasData()) return problemBox(this.problem);
    return this.render();
  }

  hasData() {
    return false;
  }

  /// What can be shown before everything is loaded.
  early() {
    return null;
  }
}

export function problemBox(problem) {
  return h("section", { class: "problem", role: "alert" },
    h("h1", {}, problem.title ?? "Something went wrong"),
    problem.message && problem.message !== problem.title ? h("p", {}, problem.message) : null,
    h("p", {}, h("a", { href: "#/" }, "To all runs")));
}

/// A part of a page with a heading.
export function panel(name, title, aside, ...content) {
  // The key keeps a part its own: a list that follows its scrolling must not become another one.
  return h("section", { class: `panel ${name}`, key: `panel ${name}`, "aria-label": title },
    h("header", {}, h("h2", {}, title), aside ? h("div", { class: "aside" }, aside) : null), ...content);
}

/// The address of a view.
export function address(parts, query) {
  const path = parts.map((part) => encodeURIComponent(part)).join("/");
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `#/${path}${pairs.length ? `?${new URLSearchParams(pairs)}` : ""}`;
}

export function parseAddress(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query ?? "") };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
