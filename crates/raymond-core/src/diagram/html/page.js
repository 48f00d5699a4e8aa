"use strict";
const states = JSON.parse(document.getElementById("states").textContent);
const view = document.getElementById("view");
const picture = view.querySelector("svg");
const panel = document.getElementById("panel");
const whole = { x: 0, y: 0, width: picture.viewBox.baseVal.width, height: picture.viewBox.baseVal.height };
let box = { ...whole };
picture.removeAttribute("width");
picture.removeAttribute("height");

function show() {
  picture.setAttribute("viewBox", `${box.x} ${box.y} ${box.width} ${box.height}`);
}

/* Diagram units per pixel of the page. */
function scale() {
  return Math.max(box.width / view.clientWidth, box.height / view.clientHeight);
}

/* Do not enlarge small workflows. */
function fit() {
  const factor = Math.max(1, whole.width / view.clientWidth, whole.height / view.clientHeight);
  const width = view.clientWidth * factor, height = view.clientHeight * factor;
  box = { x: (whole.width - width) / 2, y: (whole.height - height) / 2, width, height };
  if (whole.height < height) box.y = 0;
  show();
}

function zoom(factor, clientX, clientY) {
  const area = view.getBoundingClientRect();
  const across = (clientX - area.left) / area.width, down = (clientY - area.top) / area.height;
  const width = Math.min(Math.max(box.width * factor, 100), whole.width * 8 + 2000);
  const height = width * box.height / box.width;
  box = { x: box.x + (box.width - width) * across, y: box.y + (box.height - height) * down, width, height };
  show();
}

view.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(event.deltaY * 0.0015), event.clientX, event.clientY);
}, { passive: false });

let from = null;
let moved = false;
view.addEventListener("pointerdown", (event) => {
  from = { x: event.clientX, y: event.clientY };
  moved = false;
});
window.addEventListener("pointermove", (event) => {
  if (!from) return;
  const across = event.clientX - from.x, down = event.clientY - from.y;
  if (!moved && Math.hypot(across, down) < 4) return;
  moved = true;
  view.classList.add("moving");
  box.x -= across * scale();
  box.y -= down * scale();
  from = { x: event.clientX, y: event.clientY };
  show();
});
window.addEventListener("pointerup", () => {
  from = null;
  view.classList.remove("moving");
});

function close() {
  panel.hidden = true;
  for (const chosen of picture.querySelectorAll(".chosen")) chosen.classList.remove("chosen");
}

function open(node) {
  const state = states[Number(node.dataset.state)];
  if (!state) return;
  close();
  node.classList.add("chosen");
  document.getElementById("name").textContent = state.origin ? `${state.name}, ${state.origin}` : state.name;
  document.getElementById("text").textContent = state.text;
  panel.hidden = false;
  panel.scrollTop = 0;
}

for (const node of picture.querySelectorAll("[data-state]")) {
  node.addEventListener("click", () => { if (!moved) open(node); });
  node.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") open(node); });
}
document.getElementById("close").addEventListener("click", close);
document.getElementById("fit").addEventListener("click", fit);
window.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
window.addEventListener("resize", fit);
fit();
