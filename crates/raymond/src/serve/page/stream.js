// The stream of events. A browser opens few connections to one server, so all tabs share one stream: the tab that holds
// a lock reads it and passes everything on. When that tab is closed, another one gets the lock and goes on from the
// last event that it saw. Where there are no locks (they need a loopback address or TLS), the page asks again and again.

import { apiAddress } from "./data.js";

const POLL_EVERY = 2000;
const RETRY_FIRST = 500;
const RETRY_LAST = 8000;
/// A stream says something every 15 seconds; one that is silent for much longer is dead.
const SILENT_FOR = 40000;

export class Stream {
  /// `handlers`: `event(event)`, `output(chunk)`, `reset()` when anything may have been missed, `state(connected)`, `refused()` if the token is not valid.
  constructor(token, handlers) {
    Object.assign(this, { token, handlers, cursor: null, wanted: new Set(), others: new Map(), seen: new Map(), isLeader: false, isRefused: false });
    this.me = `${Date.now()}-${Math.random()}`;
    this.abort = null;
  }

  start() {
    if (!navigator.locks || typeof BroadcastChannel === "undefined") {
      setInterval(() => document.hidden || this.handlers.reset(), POLL_EVERY);
      return;
    }
    this.channel = new BroadcastChannel("raymond.events");
    this.channel.onmessage = ({ data }) => this.heard(data);
    this.say({ kind: "hello" });
    addEventListener("pagehide", () => this.say({ kind: "want", tab: this.me, outputs: [] }));
    navigator.locks.request("raymond.stream", () => this.lead());
  }

  /// Asks for the output of running steps, each as "RUN/STEP".
  want(outputs) {
    const now = new Set(outputs);
    if (now.size === this.wanted.size && [...now].every((one) => this.wanted.has(one))) return;
    this.wanted = now;
    this.say({ kind: "want", tab: this.me, outputs });
    if (this.isLeader) this.abort?.abort("outputs");
  }

  say(message) {
    this.channel?.postMessage(message);
  }

  heard(message) {
    if (message.kind === "want") {
      const isChange = this.others.delete(message.tab) || message.outputs.length > 0;
      if (message.outputs.length) this.others.set(message.tab, message.outputs);
      if (this.isLeader && isChange) this.abort?.abort("outputs");
    } else if (message.kind === "hello") {
      if (this.wanted.size) this.say({ kind: "want", tab: this.me, outputs: [...this.wanted] });
      if (this.isLeader) this.say({ kind: "state", connected: this.isConnected, cursor: this.cursor });
    } else if (!this.isLeader) this.take(message);
  }

  take(message) {
    if (message.cursor) this.cursor = message.cursor;
    if (message.kind === "event" && this.isNew(message.event)) this.handlers.event(message.event);
    if (message.kind === "output") this.handlers.output(message.chunk);
    if (message.kind === "reset") this.handlers.reset();
    if (message.kind === "state") this.handlers.state(message.connected);
    if (message.kind === "refused" && message.token === this.token) this.handlers.refused();
  }

  /// Whether an event was not passed on before.
  isNew(event) {
    if (event.seq <= (this.seen.get(event.run) ?? 0)) return false;
    this.seen.set(event.run, event.seq);
    return true;
  }

  async lead() {
    this.isLeader = true;
    this.say({ kind: "hello" });
    for (let pause = RETRY_FIRST; ; ) {
      const from = performance.now();
      await this.read().catch(() => {});
      // Another tab may have a better token.
      if (this.isRefused) return (this.isLeader = false);
      if (this.abort.signal.reason === "outputs") continue;
      this.connected(false);
      pause = performance.now() - from > RETRY_LAST ? RETRY_FIRST : Math.min(pause * 2, RETRY_LAST);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  connected(is) {
    this.isConnected = is;
    this.say({ kind: "state", connected: is });
    this.handlers.state(is);
  }

  async read() {
    this.abort = new AbortController();
    const headers = { Authorization: `Bearer ${this.token}`, Accept: "text/event-stream" };
    if (this.cursor) headers["Last-Event-ID"] = this.cursor;
    const outputs = [...new Set([...this.wanted, ...[...this.others.values()].flat()])].slice(0, 32);
    const response = await fetch(apiAddress(["events"], { output: outputs }), { headers, signal: this.abort.signal, cache: "no-store" });
    if (response.status === 401) {
      this.isRefused = true;
      this.pass({ kind: "refused", token: this.token });
    }
    if (!response.ok) throw new Error(`status ${response.status}`);
    this.connected(true);
    // What happened between the first look and this moment is in no stream.
    if (!this.cursor) this.pass({ kind: "reset" });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new SseParser((message) => this.received(message));
    let alarm;
    for (;;) {
      clearTimeout(alarm);
      alarm = setTimeout(() => this.abort.abort("silent"), SILENT_FOR);
      const { done, value } = await reader.read();
      if (done) break;
      parser.push(value);
    }
    clearTimeout(alarm);
  }

  received({ type, id, data }) {
    const cursor = id || this.cursor;
    if (type === "reset") this.pass({ kind: "reset", cursor });
    else if (type === "output") this.pass({ kind: "output", chunk: JSON.parse(data) });
    else this.pass({ kind: "event", cursor, event: JSON.parse(data) });
  }

  pass(message) {
    this.say(message);
    this.take(message);
  }
}

/// Reads the format of Server-Sent Events, in pieces of any size.
export class SseParser {
  constructor(handler) {
    Object.assign(this, { handler, rest: "", type: "", id: "", data: [] });
  }

  push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") return this.end();
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.data.push(value);
    else if (name === "event") this.type = value;
    else if (name === "id") this.id = value;
  }

  end() {
    if (this.data.length) this.handler({ type: this.type || "message", id: this.id, data: this.data.join("\n") });
    Object.assign(this, { type: "", data: [] });
  }
}
