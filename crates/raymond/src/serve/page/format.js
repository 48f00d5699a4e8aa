// Numbers and times for people.

import { h } from "./h.js";

export function money(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  if (dollars !== 0 && Math.abs(dollars) < 0.01) return `$${dollars.toFixed(4)}`;
  return `$${dollars.toFixed(2).replace(/\B(?=(\d{3})+(?!\d)\.)/g, ",")}`;
}

export function count(number) {
  return String(number ?? 0).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/// What a model read and wrote.
export function tokens(used) {
  const cache = used.cache_read || used.cache_write ? `, cache ${count(used.cache_read)} read, ${count(used.cache_write)} written` : "";
  return `${count(used.input)} in, ${count(used.output)} out${cache}`;
}

/// How full a model's window was, and whether the conversation was summarised, as far as that is told.
export function fullness(context, compacted) {
  const percent = context ? Math.floor(context.used * 100 / Math.max(1, context.window)) : null;
  const used = context ? `${count(context.used)} of ${count(context.window)} (${percent} %)` : null;
  return [used, compacted ? "summarised" : null].filter(Boolean).join(", ");
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  const ms = Math.max(0, milliseconds);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  const [size, unit] = parts[first];
  const rest = parts[first + 1];
  const whole = `${Math.floor(seconds / size)} ${unit}`;
  return rest ? `${whole} ${String(Math.floor((seconds % size) / rest[0])).padStart(2, "0")} ${rest[1]}` : whole;
}

/// How long ago something was, or how far away it is, in one unit.
export function relative(time, now = Date.now()) {
  const seconds = (now - Date.parse(time)) / 1000;
  const distance = Math.abs(seconds);
  if (distance < 3) return "just now";
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([size]) => distance >= size) ?? units[3];
  const amount = `${Math.floor(distance / size)} ${unit}`;
  return seconds >= 0 ? `${amount} ago` : `in ${amount}`;
}

/// Date and time here, and how far that is from UTC.
export function exact(time) {
  const at = new Date(time);
  const two = (number) => String(number).padStart(2, "0");
  const offset = -at.getTimezoneOffset();
  const zone = `UTC${offset < 0 ? "−" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${date} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${zone}`;
}

/// Hours, minutes and seconds.
export function clockTime(time) {
  return exact(time).slice(11, 19);
}

/// A relative time that shows the exact one on hover.
export function when(time) {
  return time ? h("time", { datetime: time, title: exact(time) }, relative(time)) : "–";
}

/// Cost against budget, as text and as a bar.
export function meter(cost, budget) {
  const share = budget ? Math.min(1, cost / budget) : 0;
  const label = budget ? `${money(cost)} of ${money(budget)}` : `${money(cost)}, no budget`;
  const level = budget && cost >= budget ? "over" : share > 0.8 ? "near" : "fine";
  return h("span", { class: "meter", title: budget ? `${label}, ${money(Math.max(0, budget - cost))} left` : label },
    h("span", { class: "meter-text" }, h("b", {}, money(cost)), budget ? h("span", { class: "dim" }, ` / ${money(budget)}`) : null),
    budget ? h("span", { class: `meter-bar ${level}`, "aria-hidden": "true" }, h("span", { style: { width: `${(share * 100).toFixed(1)}%` } })) : null);
}
