// What a person can do with a run: answer, stop, resume, branch. Used by several views.

import { h } from "./h.js";
import { when, money } from "./format.js";
import { icon } from "./icons.js";
import { address } from "./page.js";

/// A question with a box for the answer. What was typed stays in `app.drafts` until it is sent.
export function question(app, run, ask, options = {}) {
  const key = `${run}/${ask.id}`;
  const draft = app.drafts.get(key) ?? { text: "", isSending: false, problem: null };
  app.drafts.set(key, draft);
  const send = (event) => {
    event.preventDefault();
    sendAnswer(app, run, ask, draft);
  };
  return h("form", { class: "question", key, onsubmit: send, "aria-label": `Question of ${ask.agent}` },
    h("p", { class: "question-text" }, ask.question),
    h("div", { class: "question-line" },
      h("label", { class: "unseen", for: `answer ${key}` }, "Your answer"),
      h("textarea", { id: `answer ${key}`, "data-answer": true, rows: "1", placeholder: "Your answer", value: draft.text, readonly: draft.isSending, oninput: (event) => ((draft.text = event.target.value), grow(event.target)), onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && send(event) }),
      h("button", { class: "primary", type: "submit", disabled: draft.isSending }, draft.isSending ? "Sending …" : "Answer")),
    draft.problem ? h("p", { class: "wrong", role: "alert" }, draft.problem) : null,
    h("p", { class: "dim small" }, options.about ?? null, `${ask.agent} asked `, when(ask.opened_at), ask.deadline ? [", the time to answer ends ", when(ask.deadline)] : null, ask.next ? `, then it goes on at ${ask.next}` : null));
}

function grow(area) {
  area.style.setProperty("height", "auto");
  area.style.setProperty("height", `${Math.min(240, area.scrollHeight + 2)}px`);
}

async function sendAnswer(app, run, ask, draft) {
  if (draft.isSending) return;
  if (!draft.text.trim() && !ask.empty_ok) {
    draft.problem = "An empty answer does not count. Write something first.";
    return app.draw();
  }
  Object.assign(draft, { isSending: true, problem: null });
  app.draw();
  try {
    const answer = await app.data.post(["runs", run, "answers"], { ask: ask.id, text: draft.text });
    app.drafts.delete(`${run}/${ask.id}`);
    app.say(answer.resumed ? "Answered. The run goes on." : "Answered.");
  } catch (problem) {
    Object.assign(draft, { isSending: false, problem: problem.status === 409 ? `Not taken: ${problem.message}` : problem.message });
  }
  app.refresh();
}

export function stopButtons(app, run) {
  return [h("button", { key: "stop", onclick: () => stopRun(app, run, false), title: "Running steps finish, no new one starts (s)" }, icon("interrupted"), "Stop"),
    h("button", { key: "now", class: "danger", onclick: () => askToStopNow(app, run), title: "Ends running steps; they are run again after a resume" }, "Stop now …")];
}

export async function stopRun(app, run, now) {
  await app.try(() => app.data.post(["runs", run, "stop"], now ? { now: true } : {}), now ? "Running steps are being ended." : "The run stops when its running steps have finished.");
}

function askToStopNow(app, run) {
  app.ask("Stop now?", (close) => [
    h("p", {}, "Running steps are ended at once. What they have cost so far is spent. After a resume they run again from their start."),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: close }, "Let them run"),
      h("button", { type: "button", class: "danger", onclick: () => (close(), stopRun(app, run, true)) }, "Stop now"))]);
}

/// Asks for the budget, since that is why most runs stopped.
export function askToResume(app, run) {
  const isOver = run.status === "over_budget";
  const proposed = isOver ? Math.max(1, Math.ceil((run.cost_usd + (run.budget_usd ?? 0)) * 10) / 10) : "";
  const resume = (event, close) => {
    event.preventDefault();
    const given = event.target.elements.budget.value;
    close();
    app.try(() => app.data.post(["runs", run.run, "resume"], given === "" ? {} : { budget: Number(given) }), "The run goes on.");
  };
  app.ask("Resume the run", (close) => h("form", { onsubmit: (event) => resume(event, close) },
    h("p", {}, run.budget_usd ? `${money(run.cost_usd)} of ${money(run.budget_usd)} are spent.` : `${money(run.cost_usd)} are spent; there is no budget.`),
    h("label", { class: "field" }, h("span", {}, "Budget in dollars, in all"),
      h("input", { name: "budget", type: "number", min: "0", step: "any", value: proposed, required: isOver, placeholder: run.budget_usd ? `as before, ${run.budget_usd}` : "as before" })),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { class: "primary", type: "submit" }, "Resume"))));
}

/// Asks how a new run goes on from a step of this one.
export function askToBranch(app, run, step) {
  const branch = (event, close) => {
    event.preventDefault();
    const { name, reset, go } = event.target.elements;
    const wanted = { step, reset_cost: reset.checked, run: go.checked };
    if (name.value.trim()) wanted.id = name.value.trim();
    close();
    app.try(async () => {
      const made = await app.data.post(["runs", run, "branches"], wanted);
      app.go(address(["runs", made.run]));
    }, `A new run goes on from step ${step}.`);
  };
  const choice = (name, isOn, text) => h("label", { class: "field check" }, h("input", { name, type: "checkbox", checked: isOn }), h("span", {}, text));
  app.ask(`Branch from step ${step}`, (close) => h("form", { onsubmit: (event) => branch(event, close) },
    h("p", {}, "A new run has everything up to the end of this step and goes on from there. This run stays as it is, and nothing that is done is done again."),
    h("label", { class: "field" }, h("span", {}, "Name of the new run"), h("input", { name: "name", type: "text", placeholder: "made from the time", autocomplete: "off", spellcheck: "false" })),
    choice("go", true, "Let it go on at once"), choice("reset", false, "Do not count what was spent up to here"),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { class: "primary", type: "submit" }, "Branch"))));
}

/// Whether a new run can go on from a step.
export function canBranch(data, step) {
  return !data.isEmbedded && (step.status === "done" || step.status === "failed");
}

/// Fetches the exported run and hands it to the browser as a file.
export async function saveExport(app, run) {
  await app.try(async () => {
    const response = await app.data.get(["runs", run, "export"], null, { raw: true });
    const address = URL.createObjectURL(await response.blob());
    const link = Object.assign(document.createElement("a"), { href: address, download: `${run}.html` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }, "The run was saved as one HTML file.");
}
