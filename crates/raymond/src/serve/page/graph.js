// The graph of a workflow. The server computes where everything lies; here it is drawn, with the agents on their states
// and how often each way was taken.

import { h } from "./h.js";
import { count, money, plural } from "./format.js";
import { icon, statusColour, statusWord } from "./icons.js";

const TALLEST = 660;
const SMALLEST_SCALE = 0.72;
const LOOP = 30;
const LONGEST_NAME = 40;

/// `about`: `counts` (edges taken), `states` (visits and cost), `agents`, `selected`, `wrong` (states with findings), and `select(name)`.
export function graphView(graph, about) {
  const scale = Math.max(SMALLEST_SCALE, Math.min(1, TALLEST / graph.height));
  const nodes = new Map(graph.nodes.map((node) => [node.name, node]));
  const states = new Map((about.states ?? []).map((state) => [state.state, state]));
  const agents = Map.groupBy ? Map.groupBy(about.agents ?? [], (agent) => agent.state) : groupedBy(about.agents ?? []);
  const taken = takenCounts(graph, about.counts ?? []);
  const label = `Graph with ${plural(graph.nodes.length, "node")} and ${plural(graph.edges.length, "transition")}`;
  return h("div", { class: "graph-scroll", tabindex: "0", role: "group", "aria-label": "Graph" },
    h("svg", { class: `graph ${about.counts ? "of-run" : ""}`, viewBox: `0 0 ${graph.width} ${graph.height}`, width: Math.round(graph.width * scale), height: Math.round(graph.height * scale), role: "group", "aria-label": label },
      h("defs", {}, h("marker", { id: "tip", viewBox: "0 0 10 10", refX: "9", refY: "5", markerWidth: "8", markerHeight: "8", markerUnits: "userSpaceOnUse", orient: "auto" }, h("path", { class: "tip", d: "M0 1 L9 5 L0 9 Z" }))),
      graph.edges.map((edge, index) => edgeLine(edge, nodes, taken[index])),
      graph.edges.map((edge, index) => edgeLabel(edge, nodes, taken[index])),
      graph.nodes.map((node) => nodeView(node, states.get(node.name), agents.get(node.name) ?? [], about)),
      graph.nodes.filter((node) => agents.has(node.name)).map((node) => agentChip(node, agents.get(node.name)))));
}

function groupedBy(agents) {
  const groups = new Map();
  for (const agent of agents) groups.set(agent.state, [...(groups.get(agent.state) ?? []), agent]);
  return groups;
}

/// How often each edge was taken. The server says which edge a way is. What is drawn as leading anywhere has the rest.
function takenCounts(graph, counts) {
  const drawn = new Set(graph.edges.map((edge) => edge.way));
  const anywhere = new Set(graph.nodes.filter((node) => node.kind === "anywhere").map((node) => node.name));
  const matches = (edge, taken) => (anywhere.has(edge.to) ? taken.from === edge.from && !drawn.has(taken.way) : taken.way === edge.way);
  return graph.edges.map((edge) => counts.filter((taken) => matches(edge, taken)).reduce((sum, taken) => sum + taken.count, 0));
}

function edgeLine(edge, nodes, taken) {
  const from = nodes.get(edge.from);
  const path = edge.from === edge.to && from ? loopPath(from) : curvePath(edge.points ?? []);
  return h("path", { class: `edge ${edge.style ?? "plain"} ${taken ? "taken" : ""}`, "marker-end": "url(#tip)", d: path });
}

function edgeLabel(edge, nodes, taken) {
  const times = taken ? `×${count(taken)}` : "";
  const text = [edge.label, times].filter(Boolean).join(" ");
  const at = labelPlace(edge, nodes);
  if (!text || !at) return null;
  return h("text", { class: `edge-label ${edge.style ?? "plain"}`, x: at[0], y: at[1] + 3.8 },
    edge.label ? h("tspan", {}, edge.label) : null, times ? h("tspan", { class: "times", dx: edge.label ? 4 : 0 }, times) : null);
}

function labelPlace(edge, nodes) {
  const from = nodes.get(edge.from);
  if (edge.label_at) return edge.label_at;
  if (edge.from === edge.to && from) return [from.x + from.width / 2 + LOOP + 6, from.y];
  const points = edge.points ?? [];
  if (points.length < 2) return null;
  const middle = (points.length - 1) / 2;
  const [a, b] = [points[Math.floor(middle)], points[Math.ceil(middle)]];
  return a === b ? a : [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
}

/// A smooth line through the points that is vertical at both ends.
function curvePath(points) {
  if (!points.length) return "";
  let path = `M${points[0][0]} ${points[0][1]}`;
  for (let index = 0; index + 1 < points.length; index += 1) {
    const [from, to] = [points[index], points[index + 1]];
    const third = (to[1] - from[1]) / 3;
    path += `C${from[0] + slopeAt(points, index) * third} ${from[1] + third} ${to[0] - slopeAt(points, index + 1) * third} ${to[1] - third} ${to[0]} ${to[1]}`;
  }
  return path;
}

function slopeAt(points, index) {
  const [before, here, after] = [points[index - 1], points[index], points[index + 1]];
  if (!before || !after || before[0] === here[0] || after[0] === here[0]) return 0;
  return Math.abs(after[1] - before[1]) > 1 ? (after[0] - before[0]) / (after[1] - before[1]) : 0;
}

function loopPath(node) {
  const right = node.x + node.width / 2;
  return `M${right} ${node.y + 9}C${right + LOOP} ${node.y + 20} ${right + LOOP} ${node.y - 20} ${right} ${node.y - 9}`;
}

function nodeView(node, state, agents, about) {
  if (node.kind === "start" || node.kind === "end" || node.kind === "anywhere") return smallNode(node);
  const isState = node.kind === "prompt" || node.kind === "script";
  const there = agents.length ? statusColour(mostUrgent(agents)) : "";
  const visited = state?.visits ? "visited" : "";
  const chosen = about.selected === node.name ? "selected" : "";
  const shown = node.name.length > LONGEST_NAME ? `${node.name.slice(0, LONGEST_NAME - 1)}…` : node.name;
  const act = isState && about.select ? () => about.select(node.name) : null;
  const properties = { class: `node ${node.kind} ${visited} ${chosen} ${there ? `is-${there}` : ""}`, key: `node ${node.name}` };
  if (act) Object.assign(properties, { tabindex: "0", role: "button", "aria-label": nodeDescription(node, state, agents), onclick: act, onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), act()) });
  return h("g", properties,
    h("title", {}, nodeDescription(node, state, agents)),
    h("rect", { x: node.x - node.width / 2, y: node.y - node.height / 2, width: node.width, height: node.height, rx: node.kind === "prompt" ? 12 : 3 }),
    h("text", { x: node.x, y: node.y + (node.from ? -1.5 : 4.5) }, shown),
    node.from ? h("text", { class: "base", x: node.x, y: node.y + 11.5 }, `from ${node.from}`) : null,
    about.wrong?.has(node.name) ? h("text", { class: "finding", x: node.x - node.width / 2, y: node.y - node.height / 2 - 3 }, "!") : null);
}

function smallNode(node) {
  const radius = node.kind === "start" ? 6 : node.kind === "end" ? 8 : Math.min(node.width, node.height) / 2;
  // The lines to an end come from above and stop where the layout's own circle begins.
  const y = node.kind === "end" ? node.y - node.height / 2 + radius : node.y;
  return h("g", { class: `node ${node.kind}`, key: `node ${node.name}` },
    h("title", {}, { start: "Start", end: "The agent's end" }[node.kind] ?? node.name),
    h("circle", { cx: node.x, cy: y, r: radius }), node.kind === "end" ? h("circle", { class: "core", cx: node.x, cy: y, r: radius - 4 }) : null);
}

/// The agents that are in a state: a picture of the most urgent status, and how many they are.
function agentChip(node, agents) {
  const status = mostUrgent(agents);
  const width = agents.length > 1 ? 24 + 7 * String(agents.length).length : 20;
  const [x, y] = [node.x + node.width / 2 - width + 8, node.y - node.height / 2 - 10];
  return h("g", { class: `chip is-${statusColour(status)}`, key: `chip ${node.name}`, "aria-hidden": "true", transform: `translate(${x} ${y})` },
    h("rect", { width, height: 20, rx: 10 }),
    h("svg", { x: 3, y: 3, width: 14, height: 14, viewBox: "0 0 16 16", class: "icon" }, icon(statusColour(status)).children),
    agents.length > 1 ? h("text", { x: width - 6, y: 14 }, count(agents.length)) : null);
}

const URGENCY = ["failed", "asking", "limited", "running", "delayed", "joining", "ready"];

function mostUrgent(agents) {
  return URGENCY.find((status) => agents.some((agent) => agent.status === status)) ?? agents[0].status;
}

function nodeDescription(node, state, agents) {
  const parts = [node.name];
  if (node.kind === "missing") parts.push("does not exist");
  if (node.from) parts.push(`from ${node.from}`);
  if (state?.visits) parts.push(plural(state.visits, "visit"), money(state.cost_usd));
  if (state?.failed) parts.push(`${count(state.failed)} failed`);
  for (const agent of agents.slice(0, 8)) parts.push(`${agent.id} ${statusWord(agent.status)}`);
  if (agents.length > 8) parts.push(`and ${count(agents.length - 8)} more agents`);
  return parts.join(", ");
}
