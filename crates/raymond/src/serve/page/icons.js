// Small pictures that stand beside words, and the words for every status. One table, so that a colour, a picture and a
// word mean the same everywhere.

import { h } from "./h.js";
import { plural } from "./format.js";
import { inTable } from "./text.js";

const SHAPES = {
  running: "M8 2.5a5.5 5.5 0 1 1-5.5 5.5M8 5.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5",
  completed: "M3 8.5l3.2 3.2L13 4.8",
  failed: "M4 4l8 8M12 4l-8 8",
  waiting: "M5.5 6a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.8-1.1 1.6M8 12.6v.1",
  over_budget: "M8 2v12M10.8 5.2c-.5-.8-1.500-1.200-2.800-1.200-1.700 0-2.900.8-2.900 2 0 2.900 5.900 1.200 5.900 4 0 1.200-1.300 2-3 2-1.400 0-2.500-.5-3-1.400",
  limited: "M4.500 2.500h7M4.500 13.500h7M5.500 2.500c0 3 5 4 5 5.500s-5 2.500-5 5.500M10.500 2.500c0 3-5 4-5 5.500s5 2.500 5 5.500",
  interrupted: "M6 4v8M10 4v8",
  ready: "M8 8h.01M4 8h.01M12 8h.01",
  joining: "M3 4c4 0 4 4 9 4M3 12c4 0 4-4 9-4M10 6l2.500 2-2.500 2",
  delayed: "M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11M8 5v3.200l2 1.300",
  silent: "M3 6.500v3h2.500L9 12.500v-9L5.500 6.500zM11.500 6.500l3 3M14.500 6.500l-3 3",
  warning: "M8 3v6M8 12.5v.1",
  prompt: "M3 4h10v6.500H8L5 13v-2.500H3z",
  script: "M3.500 5l3 3-3 3M8 11.500h4.500",
  workflow: "M3 3h4v4H3zM9 9h4v4H9zM5 7v4h4",
  right: "M6 3.500l4.500 4.500L6 12.500",
  left: "M10 3.500L5.500 8l4.500 4.500",
  theme: "M8 2.500a5.500 5.500 0 1 0 0 11zM8 2.500a5.500 5.500 0 0 1 0 11",
  keyboard: "M2 4.500h12v7H2zM4.500 7h.01M7 7h.01M9.500 7h.01M12 7h.01M5 9.500h6",
  search: "M7 2.500a4.500 4.500 0 1 1 0 9 4.500 4.500 0 0 1 0-9M10.300 10.300l3.200 3.200",
  branch: "M5 5.500v5M11 5.500c0 3-6 1.500-6 4.500M5 2.500a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3M5 10.500a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3M11 2.500a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3",
  save: "M8 2.500v7.500M5 7.500l3 3 3-3M3 13.500h10",
};

/// What each status of a run or agent is called, and in which colour it is shown.
const STATUS_WORDS = {
  running: ["running", "running"],
  completed: ["completed", "completed"],
  done: ["done", "completed"],
  failed: ["failed", "failed"],
  waiting: ["waiting for you", "waiting"],
  asking: ["asks you", "waiting"],
  ask: ["asks you", "waiting"],
  over_budget: ["over budget", "over_budget"],
  limited: ["usage limit", "limited"],
  interrupted: ["interrupted", "interrupted"],
  silent: ["silent", "silent"],
  untrusted: ["not trusted", "limited"],
  damaged: ["damaged", "failed"],
  wedged: ["wedged", "failed"],
  ready: ["ready", "ready"],
  joining: ["waits for workers", "joining"],
  delayed: ["waits", "delayed"],
  later: ["not there yet", "ready"],
};

export function icon(name) {
  return h("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, h("path", { d: inTable(SHAPES, name) ?? SHAPES.ready }));
}

export function statusWord(status) {
  return inTable(STATUS_WORDS, status)?.[0] ?? String(status);
}

export function statusColour(status) {
  return inTable(STATUS_WORDS, status)?.[1] ?? "ready";
}

/// A status as a picture and a word. A run that says it is running without a process is named as such.
export function badge(status) {
  const colour = statusColour(status);
  return h("span", { class: `badge is-${colour}` }, icon(colour), h("span", {}, statusWord(status)));
}

/// The status of a run. One that is completed with failed workers has no tick.
export function runBadge(status, failedWorkers) {
  if (status !== "completed" || !failedWorkers) return badge(status);
  return h("span", { class: "badge is-limited" }, icon("failed"), h("span", {}, `completed, ${workersFailed(failedWorkers)}`));
}

export function workersFailed(number) {
  return `${plural(number, "worker")} failed`;
}

export function statusDot(status) {
  const colour = statusColour(status);
  return h("span", { class: `dot is-${colour}`, title: statusWord(status) }, icon(colour), h("span", { class: "unseen" }, statusWord(status)));
}

/// Which picture a state has: by how its file is called.
export function stateIcon(state) {
  return icon(/\.md$/i.test(state ?? "") ? "prompt" : "script");
}
