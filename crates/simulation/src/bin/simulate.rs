//! Runs the simulation for a while with new seeds: `cargo run --release -p simulation -- --seconds 600 [--seed N]`.
//!
//! With `--every` it first tries every single fault and every crash during a recovery in the hand-written programs, and
//! every crash in every case folder. Each case folder is run for real once. With `--replays N` it first records runs of N
//! workflows with real processes, and replays them. A failure prints its seed, the smallest set
//! of faults that causes it, what happened, and the program.
//!
//! With `--going-back N` it plays N random histories of going back instead, from the seed on.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use simulation::cases::try_cases;
use simulation::check::{Failure, report};
use simulation::explore::{every_crash_of_a_recovery, every_single_fault, fault_free, several_faults};
use simulation::generate::generate;
use simulation::going_back::histories;
use simulation::program::Program;
use simulation::programs;
use simulation::replayed::replay;
use test_kit::programs::build;

/// How many plans of faults are tried with each program.
const PLANS: u64 = 20;

fn main() -> ExitCode {
    let wanted = |name: &str| std::env::args().skip_while(|argument| argument != name).nth(1);
    let number = |name: &str| wanted(name).and_then(|text| text.parse::<u64>().ok());
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = number("--seed").unwrap_or(time.as_millis() as u64);
    let end = Instant::now() + Duration::from_secs(number("--seconds").unwrap_or(60));
    println!("first seed: {first}");
    if let Some(count) = number("--going-back") {
        return going_back(first, count);
    }
    if std::env::args().any(|argument| argument == "--every") {
        if let Err(failed) = every(first) {
            return tell(&failed);
        }
        let told = try_cases(&build("simulation", "raymond-to-record"), usize::MAX);
        println!("{told}");
        if !told.failures.is_empty() {
            println!("{}", told.failures.join("\n\n"));
            return ExitCode::FAILURE;
        }
    }
    if let Some(programs) = number("--replays") {
        let raymond = build("simulation", "raymond-to-record");
        for seed in first..first + programs {
            if let Err(difference) = replay(&generate(seed), &raymond) {
                println!("{difference}");
                return ExitCode::FAILURE;
            }
        }
        println!("{programs} recorded runs took the same path when they were replayed");
    }
    let mut runs = 0;
    for seed in first.. {
        if Instant::now() > end {
            break;
        }
        if let Err(failed) = one(seed) {
            return tell(&failed);
        }
        runs += PLANS;
    }
    println!("{runs} runs, no failure found");
    ExitCode::SUCCESS
}

/// Random histories of runs that are taken back, with their files and folders.
fn going_back(first: u64, count: u64) -> ExitCode {
    let (start, mut kills) = (Instant::now(), 0);
    for seed in first..first + count {
        let history = histories::random(seed);
        let played = histories::play(&history, None, false);
        if played.broken.is_some() {
            println!("{}", histories::report(seed, &history, None));
            return ExitCode::FAILURE;
        }
        kills += played.kills;
        if (seed - first + 1).is_multiple_of(10_000) {
            println!("{} histories, {:?}", seed - first + 1, start.elapsed());
        }
    }
    println!(
        "{count} histories with {kills} kills, seeds {first} to {}, no failure found",
        first + count - 1
    );
    ExitCode::SUCCESS
}

/// A program and how it failed.
type Failed = Box<(Program, Box<Failure>)>;

fn tell(failed: &Failed) -> ExitCode {
    let (program, failure) = &**failed;
    println!("{}", report(program, failure));
    ExitCode::FAILURE
}

fn every(seed: u64) -> Result<(), Failed> {
    for program in programs::all() {
        let tried = every_single_fault(&program, seed, false)
            .and_then(|singles| Ok((singles, every_crash_of_a_recovery(&program, seed, 1)?)));
        match tried {
            Ok((singles, recoveries)) => {
                println!("{}: {singles} single faults, {recoveries} crashes during recoveries", program.name);
            }
            Err(failure) => return Err(Box::new((program, failure))),
        }
    }
    Ok(())
}

/// A program with some plans of faults. Every second program is a hand-written one.
fn one(seed: u64) -> Result<(), Failed> {
    let mut by_hand = programs::all();
    let program = match seed % 2 {
        0 => generate(seed),
        _ => by_hand.swap_remove((seed / 2) as usize % by_hand.len()),
    };
    let tried = fault_free(&program, seed).and_then(|(outcome, sites)| {
        let mut seeds = (0..PLANS).map(|plan| seed.wrapping_mul(PLANS).wrapping_add(plan));
        seeds.try_for_each(|seed| several_faults(&program, &outcome, sites.len(), seed))
    });
    tried.map_err(|failure| Box::new((program, failure)))
}
