//! Measures the overhead of orchestration, against baselines measured in the same run: the same programs started in a
//! plain loop, by bash, or read by plain `read`.
//!
//! ```text
//! cargo run --profile dist -p raymond-bench              everything; updates docs/benchmarks.md
//! cargo run --profile dist -p raymond-bench -- forks     only benchmarks whose names contain this; writes no file
//! BENCH_PEER=/path/to/ray cargo run …               also runs the same workflows with another program
//! BENCH_RAYMOND=/path/to/raymond cargo run …        measures this build of Raymond
//! ```
//!
//! The repetitions of compared programs alternate, so that noise on the machine affects all of them equally, and
//! medians are compared.

mod agent;
mod callgrind;
mod history;
mod report;
mod rig;
mod sample;
mod work;

use std::process::ExitCode;

fn main() -> ExitCode {
    if agent::is_asked_for() {
        return agent::take_a_turn();
    }
    match run() {
        Ok(all_met) => ExitCode::from(u8::from(!all_met)),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, String> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let raymond = rig::build_raymond()?;
    let peer = rig::peer();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let mut rows = Vec::new();
    // The folders are kept until the end: after many deletions, some file systems are slow to create files.
    let mut rigs = Vec::new();
    for work in work::ALL.iter().filter(|work| is_wanted(work.name)) {
        eprintln!("{} …", work.name);
        let rig = rig::Rig::new(&raymond, peer.as_deref())?;
        let measured = (work.measure)(&rig).map_err(|error| format!("{}: {error}", work.name))?;
        for row in &measured {
            eprintln!("  {row}");
        }
        rows.extend(measured);
        rigs.push(rig);
    }
    println!("{}", report::table(&rows));
    if wanted.is_empty() {
        let path = report::write(&rows, peer.as_deref()).map_err(|error| error.to_string())?;
        println!("\nwritten to {}", path.display());
    }
    Ok(rows.iter().all(|row| row.is_met()))
}
