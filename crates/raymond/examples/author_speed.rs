//! How long the author tools take as workflows grow, in each of the three forms:
//! `cargo run --release -p raymond --example author_speed`. It prints the table that stands in docs/lint.md.
//!
//! Every figure includes reading the workflow from disk. It is the shortest of a few tries, in the processor's time
//! where the system tells it, for others use the machine, too. SVG is laid out as well, which is why it is shown for the folder alone: the layout does not see the form.

#![expect(clippy::disallowed_methods, reason = "it opens files that it has made")]

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use raymond::author::check::{Around, check};
use raymond::author::convert::convert;
use raymond::author::load::load;
use raymond_core::diagram::{Diagram, mermaid::mermaid, svg::svg};
use raymond_core::workflow::Platform;

const SIZES: [usize; 4] = [100, 1_000, 5_000, 10_000];
const FORMS: [(&str, &str); 3] = [("folder", "wf"), ("archive", "wf.zip"), ("one file", "wf.yaml")];
const TRIES: usize = 7;
/// The system counts a processor's time in ticks, so that what is short is done several times in a row.
const STATES_A_TRY: usize = 10_000;

/// One line of the table: what was measured, and how long it took for each size.
type Row = (String, Vec<Duration>);

fn main() -> io::Result<()> {
    let mut rows: Vec<Row> = Vec::new();
    for states in SIZES {
        let work = std::env::temp_dir().join(format!("raymond-author-speed-{}", std::process::id()));
        fs::create_dir_all(work.join("wf"))?;
        write_workflow(&work.join("wf"), states)?;
        for (what, time) in measure(&work, STATES_A_TRY / states)? {
            match rows.iter_mut().find(|(known, _)| *known == what) {
                Some((_, times)) => times.push(time),
                None => rows.push((what, vec![time])),
            }
        }
        fs::remove_dir_all(&work)?;
    }
    print_table(&rows);
    Ok(())
}

fn measure(work: &Path, times: usize) -> io::Result<Vec<(String, Duration)>> {
    let mut measured = Vec::new();
    for (form, file) in FORMS {
        if file != "wf" {
            convert(&work.join("wf"), &work.join(file), false, false)
                .map_err(|error| io::Error::other(error.message))?;
        }
        let diagram = || {
            let mut loaded =
                load(file, work, Platform::Unix).map_err(|fault| io::Error::other(fault.to_string()))?;
            Ok::<_, io::Error>(Diagram::of(&loaded.graph(Platform::Unix)))
        };
        diagram()?;
        measured.push((
            format!("lint, {form}"),
            timed(times, || drop(check(file, Around::folder(work, Platform::Unix)))),
        ));
        measured.push((
            format!("Mermaid, {form}"),
            timed(times, || drop(diagram().map(|diagram| mermaid(&diagram)))),
        ));
        if file == "wf" {
            measured.push((
                "SVG".to_owned(),
                timed(times, || drop(diagram().map(|diagram| svg(&diagram, "wf")))),
            ));
        }
    }
    Ok(measured)
}

fn timed(times: usize, work: impl Fn()) -> Duration {
    let once = |_| {
        let (start, used) = (Instant::now(), processor_time());
        (0..times).for_each(|_| work());
        let all = match (used, processor_time()) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => start.elapsed(),
        };
        all / u32::try_from(times).unwrap_or(1)
    };
    (0..TRIES).map(once).min().unwrap_or_default()
}

/// How long this thread has used a processor; only Linux says so in a file.
fn processor_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Times in milliseconds, and how much longer a hundred times as many states take: 100 is linear.
fn print_table(rows: &[Row]) {
    let sizes: String = SIZES.iter().map(|size| format!(" {size} |")).collect();
    println!("| ms for so many states |{sizes} growth from 100 to 10000 |");
    println!("|---|{}---:|", "---:|".repeat(SIZES.len()));
    for (what, times) in rows {
        let cells: String = times.iter().map(|time| format!(" {:.1} |", time.as_secs_f64() * 1e3)).collect();
        let growth = match times.as_slice() {
            [hundred, .., ten_thousand] => ten_thousand.as_secs_f64() / hundred.as_secs_f64(),
            _ => f64::NAN,
        };
        println!("| {what} |{cells} {growth:.0}× |");
    }
}

/// A workflow of prompts with policies and of scripts, with calls, forks, loops back and joins.
fn write_workflow(folder: &Path, states: usize) -> io::Result<()> {
    let name = |number: usize| format!("STATE_{:05}", number % states);
    fs::write(folder.join("START.md"), "Emit <goto>STATE_00000</goto>.\n")?;
    // One of the states is `START`, so that the largest workflow is what an archive may hold.
    for number in 0..states - 1 {
        let next = if number + 2 < states { name(number + 1) } else { name(0) };
        let (jump, back) = (name((number * 7 + 3) % (states - 1)), name(number / 2));
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
        fs::write(folder.join(format!("{}.{extension}", name(number))), text)?;
    }
    Ok(())
}
