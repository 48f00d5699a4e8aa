//! Which faults are tried: first every single one, then those of a recovery, then several by chance.

use super::check::{Failure, Outcome, check, run};
use super::fault::{Fault, Kind, Site};
use super::host::Manner;
use super::program::Program;
use super::rng::Rng;

/// What may go wrong in a recovery that follows a crash.
const AGAIN: [Kind; 4] = [Kind::Kill, Kind::KillAfter, Kind::Power(0), Kind::Power(11)];
/// After how many points a recovery is over for sure.
const RECOVERY_POINTS: usize = 10;

/// What comes of a program when nothing goes wrong, and the points that it passes.
pub fn fault_free(program: &Program, seed: u64) -> Result<(Outcome, Vec<Site>), Box<Failure>> {
    let ran = run(program, seed, &[], Manner { is_thorough: true, keeps_log: true });
    match ran.broken {
        Some(why) => Err(Box::new(Failure { seed, plan: Vec::new(), why, log: ran.log })),
        None if program.result.is_some() && ran.outcome.result != program.result => {
            let why = format!("{:?} comes of it instead of {:?}", ran.outcome.result, program.result);
            Err(Box::new(Failure { seed, plan: Vec::new(), why, log: ran.log }))
        }
        None => Ok((ran.outcome, ran.sites)),
    }
}

/// Everything that can go wrong at every point of a program, one at a time. Gives the number of runs.
pub fn every_single_fault(program: &Program, seed: u64, is_thrifty: bool) -> Result<usize, Box<Failure>> {
    let (outcome, sites) = fault_free(program, seed)?;
    let mut runs = 0;
    for (at, site) in sites.into_iter().enumerate() {
        let kinds = site.kinds().iter().copied().filter(|kind| kind.suits(program, site));
        for kind in kinds.filter(|kind| !is_thrifty || !kind.is_doubled(site)) {
            check(program, &outcome, seed, &[Fault { at, kind }])?;
            runs += 1;
        }
    }
    Ok(runs)
}

/// How the crashes of a recorded run went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub runs: usize,
    /// How many of them went where the recording says nothing: a resume gives what failed another chance, and others
    /// go on meanwhile. They are held to everything but the recorded outcome.
    pub off_course: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.off_course += other.off_course;
    }
}

/// Every crash at so many points of a recorded run, which must first go as it was recorded.
pub fn every_crash(program: &Program, points: usize) -> Result<Tally, Box<Failure>> {
    let course = program.course.clone().expect("a recorded run");
    let (outcome, sites) = fault_free(program, 1)?;
    if !course.depends_on_order && outcome != course.outcome {
        let why = format!("another outcome: {outcome:#?}\nthan recorded: {:#?}", course.outcome);
        return Err(Box::new(Failure { seed: 1, plan: Vec::new(), why, log: Vec::new() }));
    }
    let mut tally = Tally::default();
    let stride = sites.len().div_ceil(points).max(1);
    // Which points are tried differs from run to run, so that all kinds are.
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

/// A crash at every `stride`th point, and another at every point of the recovery from it.
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

/// Several faults by chance, on a schedule by chance.
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
        Kind::KillWithin(_) => Kind::KillWithin(rng.next() as u8),
        Kind::Power(_) => Kind::Power(rng.next() % 1000),
        Kind::ClockJump(_) => Kind::ClockJump(rng.below(200_000) as i32 - 100_000),
        other => other,
    }
}
