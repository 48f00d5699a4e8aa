// What an event of the journal means, in a sentence.

import { firstLine, inTable } from "./text.js";
import { clockTime, duration, money, plural } from "./format.js";

const WORDING = {
  run_started: (e) => (e.origin ? wentBack(e) : `the run starts: ${e.workflow}`),
  run_resumed: () => "the run goes on",
  run_finished: (e) => `the run is completed, ${e.failed_workers ? `${plural(e.failed_workers, "worker")} failed, ` : ""}${money(e.cost_usd)}`,
  run_stopped: (e) => `the run stops: ${String(e.status).replace("_", " ")}${e.error ? `, ${firstLine(e.error)}` : ""}`,
  agent_started: (e) => (e.parent ? `is forked from ${e.parent} at ${e.state}` : `begins at ${e.state}`),
  agent_finished: (e) => `is done: ${firstLine(e.result)}`,
  step_started: (e) => `${e.state} starts${e.attempt > 1 ? `, attempt ${e.attempt}` : ""}`,
  step_finished: (e) => `${e.state} → ${e.tag}${e.target ?? e.next ? ` ${e.target ?? e.next}` : ""}${spent(e)}`,
  step_failed: (e) => `${e.state} failed: ${firstLine(e.error)}${spent(e)}`,
  session_started: () => "a conversation begins",
  retry: (e) => `${e.state} is tried again: ${firstLine(e.error)}`,
  reminder: (e) => `${e.state} is reminded: ${firstLine(e.problem)}`,
  exclusive_waiting: (e) => `${e.state} waits for its turn (${e.exclusive})`,
  limit_waiting: (e) => `waits for a usage limit until ${clockTime(e.until)}`,
  delayed: (e) => `waits until ${clockTime(e.until)}`,
  joined: (e) => `has joined ${plural(e.workers?.length ?? 0, "worker")}`,
  ask_opened: (e) => `asks: ${firstLine(e.question)}`,
  ask_closed: (e) => (e.by === "answer" ? `is answered: ${firstLine(e.answer)}` : "was not answered in time"),
  print: (e) => firstLine(e.text, 400),
  warning: (e) => `warning: ${firstLine(e.message)}`,
  budget_exceeded: (e) => `over budget: ${money(e.cost_usd)} of ${money(e.budget_usd)}`,
};

export function sentence(event) {
  return (inTable(WORDING, event.event) ?? ((e) => String(e.event).replaceAll("_", " ")))(event);
}

function wentBack({ run, origin }) {
  const place = origin.step ? `step ${origin.step}` : "its end";
  return origin.run === run ? `the run is taken back to ${place}` : `the run goes on from ${origin.run}, ${place}`;
}

function spent(event) {
  const cost = event.cost_usd ? `, ${money(event.cost_usd)}` : "";
  return event.duration_ms === undefined ? "" : ` (${duration(event.duration_ms)}${cost})`;
}

const COLOUR_OF_EVENT = {
  step_failed: "failed", ask_opened: "waiting", budget_exceeded: "over_budget", limit_waiting: "limited", run_finished: "completed",
  warning: "silent", retry: "silent", reminder: "silent",
};

/// The status whose colour an event has, if it stands out.
export function eventColour(event) {
  if (event.event === "run_finished" && event.failed_workers) return "limited";
  return event.event === "run_stopped" ? event.status : inTable(COLOUR_OF_EVENT, event.event) ?? null;
}
