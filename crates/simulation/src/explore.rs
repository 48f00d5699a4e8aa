//! Which faults are tried: first every single fault, then faults during a recovery, then several random ones.

use raymond_core::event::Body;

use crate::check::{Failure, Outcome, Ran, check, run};
use crate::fault::{Fault, Kind, Site};
use crate::host::Manner;
use crate::program::Program;
use crate::rng::Rng;

/// Faults during a recovery that follows a crash.
const AGAIN: [Kind; 4] = [Kind::Kill, Kind::KillAfter, Kind::Power(0), Kind::Power(11)];
/// A recovery has always ended after this many points.
const RECOVERY_POINTS: usize = 10;
/// The command that changes a run has always ended after this many points, and after so many of a store in memory.
const CHANGE_POINTS: usize = 45;
const CHANGE_POINTS_IN_MEMORY: usize = 15;

/// The outcome of a program without faults, and the points that it reaches.
pub fn fault_free(program: &Program, seed: u64) -> Result<(Outcome, Vec<Site>), Box<Failure>> {
    let ran = run(program, seed, &[], Manner { is_thorough: true, keeps_log: true });
    match ran.broken {
        Some(why) => Err(Box::new(Failure { seed, plan: Vec::new(), why, log: ran.log })),
        None if program.result.is_some() && ran.outcome.result != program.result => {
            let why = format!("the result is {:?} instead of {:?}", ran.outcome.result, program.result);
            Err(Box::new(Failure { seed, plan: Vec::new(), why, log: ran.log }))
        }
        None => Ok((ran.outcome, ran.sites)),
    }
}

/// Every possible fault at every point of a program, one at a time. Returns the number of runs.
pub fn every_single_fault(program: &Program, seed: u64, is_thrifty: bool) -> Result<usize, Box<Failure>> {
    let (outcome, sites) = fault_free(program, seed)?;
    let mut runs = 0;
    for (at, site) in sites.into_iter().enumerate() {
        let kinds = site.kinds().iter().copied().filter(|kind| kind.suits(program, site));
        for kind in kinds.filter(|kind| (!is_thrifty || !kind.is_doubled(site)) && is_tried(*kind, at)) {
            check(program, &outcome, seed, &[Fault { at, kind }])?;
            runs += 1;
        }
    }
    Ok(runs)
}

/// Going back repeats much of a run, so it is not tried everywhere.
fn is_tried(kind: Kind, at: usize) -> bool {
    match kind {
        Kind::Rewind(_) => at.is_multiple_of(3),
        Kind::Branch(_) => at % 3 == 1,
        Kind::Retry(_) | Kind::Jump(_) => at % 3 == 2,
        _ => true,
    }
}

/// How the runs with crashes of a recorded run went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub runs: usize,
    /// How many of them left the recorded course: a resume retries failed steps while other agents continue. All checks
    /// apply to them, but their outcome is not compared with the recorded one.
    pub off_course: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.off_course += other.off_course;
    }
}

/// Every crash at this many points of a recorded run. Without faults, the run must first have the recorded outcome.
pub fn every_crash(program: &Program, points: usize) -> Result<Tally, Box<Failure>> {
    let course = program.course.clone().expect("a recorded run");
    let (outcome, sites) = fault_free(program, 1)?;
    if !course.depends_on_order && outcome != course.outcome {
        let why = format!("another outcome: {outcome:#?}\nthan recorded: {:#?}", course.outcome);
        return Err(Box::new(Failure { seed: 1, plan: Vec::new(), why, log: Vec::new() }));
    }
    let mut tally = Tally::default();
    let stride = sites.len().div_ceil(points).max(1);
    // Which points are tried differs between runs, so that all kinds of points are covered.
    for (at, site) in sites.into_iter().enumerate().skip(program.name.len() % stride).step_by(stride) {
        let kinds = site.kinds().iter().copied().filter(|kind| kind.is_crash() && !kind.is_doubled(site));
        for kind in kinds {
            let ran = check(program, &outcome, 1, &[Fault { at, kind }])?;
            tally.runs += 1;
            tally.off_course += usize::from(ran.is_off_course);
        }
    }
    Ok(tally)
}

/// A crash at every `stride`th point, and a second crash at every point of the recovery from it.
pub fn every_crash_of_a_recovery(program: &Program, seed: u64, stride: usize) -> Result<usize, Box<Failure>> {
    let (outcome, sites) = fault_free(program, seed)?;
    let mut runs = 0;
    for at in (0..sites.len()).step_by(stride) {
        let first = Fault {
            at,
            kind: if program.is_synced && at % 3 == 0 { Kind::Power(at as u64) } else { Kind::Kill },
        };
        let ran = check(program, &outcome, seed, &[first])?;
        let recovery = ran.sites.iter().enumerate().skip(at + 1).take(RECOVERY_POINTS);
        for (again, site) in recovery {
            for kind in AGAIN.into_iter().filter(|kind| kind.suits(program, *site)) {
                check(program, &outcome, seed, &[first, Fault { at: again, kind }])?;
                runs += 1;
            }
        }
    }
    Ok(runs)
}

/// Everything that a person does with a run that stands still, in the middle of it, with a crash at every `stride`th point
/// of the command and of what follows it.
pub fn every_crash_of_a_change(program: &Program, seed: u64, stride: usize) -> Result<usize, Box<Failure>> {
    let (outcome, sites) = fault_free(program, seed)?;
    let moments: Vec<usize> = (0..sites.len()).filter(|at| sites[*at] == Site::Receive).collect();
    let Some(at) = moments.get(moments.len() * 2 / 3).copied() else { return Ok(0) };
    let mut runs = 0;
    for kind in [Kind::Rewind(100), Kind::Branch(100), Kind::Jump(100)] {
        let change = Fault { at, kind };
        let ran = check(program, &outcome, seed, &[change])?;
        runs += crashes_of(program, (&outcome, &ran.sites), seed, change, stride)?;
    }
    let has = |ran: &Ran, is_it: fn(&Body) -> bool| ran.events.iter().any(|event| is_it(&event.body));
    if !has(&run(program, seed, &[], Manner::default()), |body| matches!(body, Body::StepFailed(_))) {
        return Ok(runs);
    }
    // The first moment at which an agent has failed and can try again.
    for at in moments {
        let change = Fault { at, kind: Kind::Retry(100) };
        let ran = check(program, &outcome, seed, &[change])?;
        if has(&ran, |body| matches!(body, Body::AgentRetried { .. })) {
            return Ok(runs + crashes_of(program, (&outcome, &ran.sites), seed, change, stride)?);
        }
    }
    Ok(runs)
}

/// A crash at every `stride`th point of a change, and of what follows it.
fn crashes_of(
    program: &Program,
    (outcome, sites): (&Outcome, &[Site]),
    seed: u64,
    change: Fault,
    stride: usize,
) -> Result<usize, Box<Failure>> {
    let points = if program.lives_in_memory { CHANGE_POINTS_IN_MEMORY } else { CHANGE_POINTS };
    // Which points are tried differs between programs, so that all kinds of points are covered.
    let first_tried = change.at + 1 + program.name.len() % stride;
    let tried = sites.iter().enumerate().take(change.at + points).skip(first_tried);
    let mut runs = 0;
    for (at, site) in tried.step_by(stride) {
        let crashes = [Kind::Kill, Kind::Power(0)];
        for kind in crashes.into_iter().filter(|kind| kind.suits(program, *site)) {
            check(program, outcome, seed, &[change, Fault { at, kind }])?;
            runs += 1;
        }
    }
    Ok(runs)
}

/// Several random faults, with a random schedule.
pub fn several_faults(
    program: &Program,
    outcome: &Outcome,
    points: usize,
    seed: u64,
) -> Result<(), Box<Failure>> {
    let mut rng = Rng::new(seed);
    let count = 1 + rng.below(5);
    let mut plan = Vec::new();
    while plan.len() < count {
        let fault = Fault { at: rng.below(points * 3 / 2), kind: any_kind(&mut rng) };
        if fault.kind.suits(program, Site::Spawn) {
            plan.push(fault);
        }
    }
    check(program, outcome, seed, &plan).map(|_| ())
}

fn any_kind(rng: &mut Rng) -> Kind {
    const SITES: [Site; 8] = [
        Site::Store,
        Site::Write,
        Site::Sync,
        Site::Rename,
        Site::Read,
        Site::Receive,
        Site::Spawn,
        Site::End,
    ];
    match *rng.pick(rng.clone().pick(&SITES).kinds()) {
        Kind::KillWithin(_) => Kind::KillWithin(rng.number() as u8),
        Kind::Power(_) => Kind::Power(rng.number() % 1000),
        Kind::Rewind(_) => Kind::Rewind(rng.number() as u8),
        Kind::Branch(_) => Kind::Branch(rng.number() as u8),
        Kind::Retry(_) => Kind::Retry(rng.number() as u8),
        Kind::Jump(_) => Kind::Jump(rng.number() as u8),
        Kind::ClockJump(_) => Kind::ClockJump(rng.below(200_000) as i32 - 100_000),
        other => other,
    }
}
