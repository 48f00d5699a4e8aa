//! Numbers for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use raymond_core::tokens::Tokens;

use crate::serve::Server;
use crate::serve::counters::{BOUNDS, Counted, Durations, Totals};
use crate::serve::index::is_live;
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::view::status::STATUSES;

const TOKENS: &str = "raymond_tokens_total";

/// What is told.
#[derive(Default)]
struct Sums {
    by_status: BTreeMap<&'static str, u64>,
    agents: usize,
    asks: usize,
    live: u64,
    /// What never falls, whatever is cleaned.
    totals: Totals,
}

pub fn metrics(server: &Arc<Server>, _: &Call) -> Result<Answer, Problem> {
    let mut sums = Sums::default();
    let entries = server.index.list()?;
    let mut counted = Vec::new();
    for entry in &entries {
        let Ok(summary) = server.index.summary(entry) else {
            *sums.by_status.entry("damaged").or_default() += 1;
            counted.push((entry.run.id().to_owned(), None));
            continue;
        };
        let live = is_live(&summary, &*entry.run);
        let status = summary.status_of(&*entry.run, live).as_str();
        *sums.by_status.entry(status).or_default() += 1;
        sums.agents += summary.agents;
        sums.asks += summary.open_asks;
        sums.live += u64::from(live);
        let completed_ms = (status == "completed").then_some(summary.duration_ms);
        counted.push((entry.run.id().to_owned(), Some(Counted { numbers: summary.own(), completed_ms })));
    }
    sums.totals = server.index.counters.count(counted);
    server.index.save(&entries);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(Answer::Text { kind, body: sums.text().into_bytes(), file_name: None })
}

impl Sums {
    fn text(&self) -> String {
        let mut text = String::new();
        let numbers = self.totals.numbers;
        head(&mut text, "raymond_runs", "gauge", "Runs by status.");
        for status in STATUSES {
            let count = self.by_status.get(status).copied().unwrap_or_default();
            let _ = writeln!(text, "raymond_runs{{status=\"{status}\"}} {count}");
        }
        one(&mut text, "raymond_live_runs", "gauge", "Runs that a process drives.", self.live.to_string());
        one(
            &mut text,
            "raymond_steps_total",
            "counter",
            "Completed steps of all runs.",
            numbers.steps.to_string(),
        );
        one(
            &mut text,
            "raymond_turns_total",
            "counter",
            "Turns that agent programs have begun.",
            numbers.turns.to_string(),
        );
        one(
            &mut text,
            "raymond_cost_usd_total",
            "counter",
            "What all runs have cost, in dollars.",
            numbers.cost_usd.dollars().to_string(),
        );
        head(&mut text, TOKENS, "counter", "What models have read and written, as far as programs told.");
        let Tokens { input, output, cache_write, cache_read } = numbers.tokens;
        let kinds =
            [("input", input), ("output", output), ("cache_write", cache_write), ("cache_read", cache_read)];
        for (kind, count) in kinds {
            let _ = writeln!(text, "{TOKENS}{{kind=\"{kind}\"}} {count}");
        }
        one(&mut text, "raymond_agents", "gauge", "Agents that have not ended.", self.agents.to_string());
        one(
            &mut text,
            "raymond_open_asks",
            "gauge",
            "Questions that wait for a person.",
            self.asks.to_string(),
        );
        self.write_durations(&mut text);
        text
    }

    fn write_durations(&self, text: &mut String) {
        const NAME: &str = "raymond_run_duration_seconds";
        head(text, NAME, "histogram", "How long processes worked on completed runs.");
        let Durations { up_to, count, sum_ms } = self.totals.durations;
        for (bound, count) in BOUNDS.iter().zip(up_to) {
            let _ = writeln!(text, "{NAME}_bucket{{le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(text, "{NAME}_bucket{{le=\"+Inf\"}} {count}");
        #[expect(clippy::cast_precision_loss, reason = "a sum of 285,000 years is exact enough")]
        let _ = writeln!(text, "{NAME}_sum {}", sum_ms as f64 / 1000.0);
        let _ = writeln!(text, "{NAME}_count {count}");
    }
}

/// A metric with one value.
fn one(text: &mut String, name: &str, kind: &str, about: &str, value: String) {
    head(text, name, kind, about);
    let _ = writeln!(text, "{name} {value}");
}

fn head(text: &mut String, name: &str, kind: &str, about: &str) {
    let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} {kind}");
}
