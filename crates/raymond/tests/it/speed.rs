//! How long the author tools take as workflows grow: run with
//! `cargo test --release -p raymond --test it speed -- --ignored --nocapture`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use raymond::author::check::check;
use raymond::author::load::load;
use raymond_core::diagram::{Diagram, mermaid::mermaid, svg::svg};
use raymond_core::workflow::Platform;

/// A workflow of prompts with policies and of scripts, with calls, forks, loops back and joins.
fn write_workflow(folder: &Path, states: usize) {
    let name = |number: usize| format!("STATE_{:05}", number % states);
    fs::write(folder.join("START.md"), "Emit <goto>STATE_00000</goto>.\n").unwrap();
    for number in 0..states {
        let (next, jump, back) = (name(number + 1), name(number * 7 + 3), name(number / 2));
        let text = match number % 4 {
            0 => format!(
                "---\nallowed_transitions:\n  - {{ tag: goto, target: {next} }}\n  - {{ tag: call, target: {jump}, return: {next} }}\n  - {{ tag: result }}\n---\nGo to {next}, call {jump}, or give a result.\n{}",
                "More words. ".repeat(40)
            ),
            1 => format!(
                "#!/bin/bash\n# raymond: timeout=30s\nif make; then\n  echo '<goto>{next}</goto>'\nelse\n  echo '<reset>{back}</reset>'\nfi\n"
            ),
            2 => format!(
                "Emit <fork next=\"{next}\" item=\"x\">{jump}</fork>, or <result>{{{{input}}}}</result>.\n{}",
                "More words. ".repeat(40)
            ),
            _ => format!("Emit <join>{next}</join> or <goto>{back}</goto>.\n"),
        };
        let extension = if number % 4 == 1 { "sh" } else { "md" };
        fs::write(folder.join(format!("{}.{extension}", name(number))), text).unwrap();
    }
}

/// The shortest of a few tries, for others use the machine, too.
fn timed(work: &dyn Fn()) -> Duration {
    let once = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..5).map(|_| once()).min().unwrap_or_default()
}

#[test]
#[ignore = "a measurement, for release builds"]
fn speed_of_author_tools() {
    println!("{:>7} {:>10} {:>10} {:>10}", "states", "lint", "mermaid", "svg");
    for states in [100, 1_000, 5_000, 10_000] {
        let work = tempfile::tempdir().unwrap();
        let folder = work.path().join("wf");
        fs::create_dir(&folder).unwrap();
        write_workflow(&folder, states);
        let diagram = || Diagram::of(&load("wf", work.path(), Platform::Unix).unwrap().graph(Platform::Unix));
        let lint = timed(&|| drop(check("wf", work.path(), Platform::Unix)));
        let drawn = timed(&|| drop(mermaid(&diagram())));
        let laid_out = timed(&|| drop(svg(&diagram(), "wf")));
        println!("{states:>7} {lint:>10.1?} {drawn:>10.1?} {laid_out:>10.1?}");
    }
}
