// The frame around the views: addresses, keys, messages, the connection, light and dark.

import { draw, h } from "./h.js";
import { HttpData, keepToken, takeToken } from "./data.js";
import { EmbeddedData } from "./embedded.js";
import { Stream } from "./stream.js";
import { count, exact } from "./format.js";
import { icon } from "./icons.js";
import { parseAddress } from "./page.js";
import { sentence } from "./wording.js";
import { Home } from "./home.js";
import { RunPage } from "./run.js";
import { StepPage } from "./step.js";
import { WorkflowList, WorkflowPage } from "./workflows.js";

const KEPT_THEME = "raymond.theme";
const THEMES = ["auto", "light", "dark"];
const MESSAGE_STAYS = 6000;

class App {
  constructor() {
    Object.assign(this, { view: null, drafts: new Map(), message: null, dialog: null, isConnected: null, isRefused: false, inboxSize: 0, isDrawing: false, pending: "", shown: "" });
    this.data = EmbeddedData.here() ?? new HttpData(takeToken());
    this.needsLogin = !this.data.isEmbedded && !this.data.token;
  }

  start() {
    this.setTheme(this.theme);
    addEventListener("hashchange", () => this.route());
    addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
    setInterval(() => document.hidden || this.draw(), 10000);
    setInterval(() => !document.hidden && this.view?.isLive() && this.draw(), 1000);
    if (!this.data.isEmbedded) this.connect();
    this.route();
  }

  connect() {
    this.data.onreach = (reached) => this.reached(reached);
    this.data.onrefuse = () => this.refused();
    if (this.needsLogin) return;
    this.stream = new Stream(this.data.token, {
      event: (event) => this.event(event),
      output: (chunk) => this.view?.output(chunk),
      reset: () => this.refresh(),
      state: (connected) => this.reached(connected),
      refused: () => this.refused(),
    });
    this.stream.start();
  }

  event(event) {
    this.view?.event(event);
    if (["ask_opened", "ask_closed", "run_stopped", "run_finished", "run_resumed", "run_started"].includes(event.event)) this.countInbox();
    if (event.event === "ask_opened") this.announce(`${event.run} asks: ${event.question}`);
    if (event.event === "run_finished") this.announce(`${event.run}: ${sentence(event)}`);
    if (event.event === "run_stopped") this.announce(`${event.run} has stopped: ${event.status}`);
  }

  /// Whether the server answers. When it does again, everything is loaded anew.
  reached(is) {
    if (is === this.isConnected || this.isRefused) return;
    const isBack = is && this.isConnected === false;
    this.isConnected = is;
    if (isBack) this.refresh();
    if (!is) this.retry();
    this.draw();
  }

  /// The server answers, but not to this token: it was made anew, or is of another server.
  refused() {
    if (this.isOutside) return;
    Object.assign(this, { isRefused: true, isConnected: null, inboxSize: 0 });
    this.view?.stop();
    this.draw();
  }

  get isOutside() {
    return this.needsLogin || this.isRefused;
  }

  retry() {
    setTimeout(() => {
      if (this.isConnected) return;
      this.data.get(["health"]).catch(() => this.retry());
    }, 1500);
  }

  async countInbox() {
    if (this.data.isEmbedded || this.isOutside || this.view instanceof Home) return;
    const inbox = await this.data.get(["inbox"]).catch(() => null);
    if (inbox) this.needs(inbox.items.length);
  }

  needs(number) {
    this.inboxSize = number;
    this.draw();
  }

  refresh() {
    if (document.hidden) return;
    this.view?.refresh();
    this.countInbox();
  }

  // Addresses

  route() {
    if (this.takeNewToken()) return;
    const route = parseAddress(location.hash);
    this.view?.stop();
    this.view = this.viewOf(route);
    this.shown = location.hash;
    this.view?.refresh();
    this.countInbox();
    this.wantOutputs();
    scrollTo(0, 0);
    this.draw();
  }

  /// A login link that was opened in a tab that shows the page already.
  takeNewToken() {
    if (this.data.isEmbedded || !location.hash.startsWith("#token=")) return false;
    takeToken();
    location.reload();
    return true;
  }

  viewOf(route) {
    const [first, second, third, fourth] = route.parts;
    if (this.isOutside) return null;
    if (this.data.isEmbedded && first !== "runs") return new RunPage(this, { ...route, parts: ["runs", this.data.run] });
    if (first === "runs" && second && third === "steps" && fourth) return new StepPage(this, route);
    if (first === "runs" && second) return new RunPage(this, route);
    if (first === "workflows") return second ? new WorkflowPage(this, route) : new WorkflowList(this, route);
    return new Home(this, route);
  }

  go(hash) {
    location.hash = hash;
  }

  /// Changes the address without leaving the view.
  replace(hash) {
    history.replaceState(null, "", hash);
    this.shown = location.hash;
    this.view.route = parseAddress(hash);
  }

  wantOutputs() {
    this.stream?.want(this.view?.outputs() ?? []);
  }

  // Messages and questions

  /// Shows a short message for a while.
  say(text) {
    const message = { text };
    this.message = message;
    this.draw();
    setTimeout(() => this.message === message && ((this.message = null), this.draw()), MESSAGE_STAYS);
  }

  /// For people who listen to the page.
  announce(text) {
    this.pending = text;
    this.draw();
  }

  async try(action, success) {
    try {
      await action();
      if (success) this.say(success);
    } catch (problem) {
      this.say(problem.message || String(problem));
    }
    this.refresh();
  }

  ask(title, content) {
    this.dialog = { title, content };
    this.draw();
  }

  close() {
    this.dialog = null;
    this.draw();
  }

  // Keys

  keyTable() {
    const general = [["?", "show these keys", () => this.showKeys()], ["h", "to what needs you, and the runs", () => this.go("#/")], ["w", "to the workflows", () => this.go("#/workflows")],
      ["j", "next row", () => this.moveRow(1)], ["k", "row before", () => this.moveRow(-1)], ["t", "light, dark or as the system", () => this.nextTheme()], ["Escape", "close", () => this.close()]];
    return [...(this.data.isEmbedded ? general.filter(([key]) => !"hw".includes(key)) : general), ...(this.view?.keys() ?? [])];
  }

  key(event) {
    const isTyping = event.target.closest?.("input:not([type=range]):not([type=checkbox]), textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || (isTyping && event.key !== "Escape")) return;
    if (isTyping) return event.target.blur();
    if (this.dialog && event.key !== "Escape") return;
    const entry = this.keyTable().find(([key]) => key === event.key);
    if (!entry) return;
    event.preventDefault();
    entry[2]();
  }

  moveRow(distance) {
    const rows = [...document.querySelectorAll("[data-row]")];
    const here = rows.indexOf(document.activeElement);
    rows[here < 0 ? (distance > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, here + distance))]?.focus();
  }

  showKeys() {
    const names = { Escape: "Esc" };
    this.ask("Keys", (close) => [h("dl", { class: "keys" }, this.keyTable().map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, names[key] ?? key)), h("dd", {}, what)))), h("div", { class: "buttons" }, h("button", { type: "button", onclick: close }, "Close"))]);
  }

  // Light and dark

  get theme() {
    const kept = readKept(KEPT_THEME);
    return THEMES.includes(kept) ? kept : "auto";
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    writeKept(KEPT_THEME, theme);
  }

  nextTheme() {
    this.setTheme(THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]);
    this.say({ auto: "Light or dark as the system says.", light: "Light.", dark: "Dark." }[this.theme]);
  }

  // Drawing

  draw() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      draw(document.getElementById("app"), this.frame());
      document.title = `${this.inboxSize ? `(${this.inboxSize}) ` : ""}${this.view?.title() ?? "Raymond"}`;
    });
  }

  frame() {
    return [h("a", { class: "skip", href: "#main", onclick: (event) => (event.preventDefault(), document.getElementById("main").focus()) }, "To the content"),
      this.bar(),
      this.isConnected !== false ? null : h("p", { class: "offline", role: "alert", key: "offline" }, icon("silent"), "raymond serve cannot be reached. What is shown may be old; the page tries again by itself."),
      h("main", { id: "main", tabindex: "-1", "data-view": this.shown, key: this.isOutside ? "login" : this.shown.split("?")[0] }, this.isOutside ? loginForm(this.isRefused) : this.view.whole()),
      h("div", { class: "toast-place", role: "status", key: "toast" }, this.message ? h("p", { class: "toast" }, this.message.text) : null),
      h("div", { class: "unseen", "aria-live": "polite", key: "announcer" }, this.pending),
      this.dialog ? this.dialogView() : null];
  }

  bar() {
    const link = (hash, name, isHere) => h("a", { href: hash, "aria-current": isHere ? "page" : null }, name);
    const place = parseAddress(location.hash).parts[0];
    const buttons = [h("button", { class: "ghost", "aria-label": "Light or dark (t)", title: `Light or dark: ${this.theme} (t)`, onclick: () => this.nextTheme() }, icon("theme")),
      h("button", { class: "ghost", "aria-label": "Keys (?)", title: "Keys (?)", onclick: () => this.showKeys() }, icon("keyboard"))];
    if (this.data.isEmbedded) return h("header", { class: "bar", key: "bar" }, h("span", { class: "brand" }, "Raymond"), h("span", { class: "dim" }, this.data.all.exported_at ? `exported ${exact(this.data.all.exported_at)}` : "exported run"), h("span", { class: "bar-end" }, buttons));
    return h("header", { class: "bar", key: "bar" }, h("a", { class: "brand", href: "#/" }, "Raymond"),
      h("nav", { "aria-label": "Main" }, link("#/", [this.inboxSize ? ["Runs ", h("span", { class: "number", title: "What needs you" }, count(this.inboxSize))] : "Runs"], place !== "workflows"), link("#/workflows", "Workflows", place === "workflows")),
      h("span", { class: "bar-end" }, this.isOutside ? null : linkState(this.isConnected), buttons));
  }

  dialogView() {
    const close = () => this.close();
    return h("dialog", { key: "dialog", "aria-label": this.dialog.title, onclose: close, mount: (element) => element.showModal() }, h("h2", {}, this.dialog.title), this.dialog.content(close));
  }
}

/// Whether what happens is shown at once; nothing before that is known.
function linkState(isConnected) {
  if (isConnected === null) return h("span", { class: "link-state is-off" }, "connecting");
  return h("span", { class: `link-state ${isConnected ? "" : "is-off"}`, title: isConnected ? "Connected: what happens is shown at once" : "Not connected" }, isConnected ? "live" : "offline");
}

/// `isRefused`: there was a token, and the server does not know it.
function loginForm(isRefused) {
  const login = (event) => {
    event.preventDefault();
    keepToken(event.target.elements.token.value);
    location.hash = "#/";
    location.reload();
  };
  return h("section", { class: "panel first" }, h("h1", {}, "Log in"),
    isRefused ? h("p", { class: "wrong", role: "alert" }, "This key is no longer valid. The server has another one now.") : null,
    h("p", {}, "Open the link that ", h("code", {}, "raymond serve"), " printed, or paste it or its token here. The token is in ", h("code", {}, ".raymond/serve.token"), "."),
    h("form", { onsubmit: login }, h("label", { class: "field" }, h("span", {}, "Link or token"), h("input", { name: "token", type: "password", autocomplete: "off", required: true })), h("div", { class: "buttons" }, h("button", { class: "primary" }, "Log in"))));
}

/// A file opened from disk may have no storage.
function readKept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function writeKept(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The choice then lasts as long as the page.
  }
}

export const app = new App();
app.start();
