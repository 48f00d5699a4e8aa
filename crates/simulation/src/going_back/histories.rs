//! Random histories: what people do, one after the other, where somebody is killed, and what is done then.

use super::commands::{How, Restore};
use super::defect::Defect;
use super::ground::{IGNORED, NEW, TRACKED};
use super::session::Why;
use super::world::{Done, Stop, World};
use crate::rng::Rng;

/// How many things are done in a history.
const MOST_DEEDS: usize = 12;
/// So many points a command has at most, in nearly all histories.
const POINTS: usize = 24;

/// Something that somebody does. A number chooses among what is there at that time.
#[derive(Clone, Debug)]
pub enum Deed {
    Start { snapshots: bool, steps: usize },
    Resume { run: u8, steps: usize, budget: Option<u32> },
    Branch { run: u8, step: u8, restore: u8, budget: Option<u32> },
    Rewind { run: u8, step: u8, restore: u8 },
    Retry { run: u8, agent: u8 },
    Jump { run: u8, agent: u8 },
    Clean { run: u8, discards: bool },
    CleanOld { waiting: bool },
    Answer { ask: u8, steps: usize },
    Write { folder: u8, file: u8 },
    WriteBeside,
}

/// A deed, and what becomes of the process that does it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub deed: Deed,
    /// What its agents do follows from this.
    pub seed: u64,
    /// After how many points it is killed, and whether before or after what is done there.
    pub kill: Option<(usize, bool)>,
    /// Whether it is done again after it was killed.
    pub again: bool,
}

pub type History = Vec<Entry>;

/// A random history.
pub fn random(seed: u64) -> History {
    let mut rng = Rng::new(seed);
    let snapshots = !rng.one_in(4);
    let first = Deed::Start { snapshots, steps: 2 + rng.below(8) };
    let count = 3 + rng.below(MOST_DEEDS - 3);
    let mut history = vec![entry(first, &mut rng)];
    for _ in 0..count {
        let deed = any_deed(&mut rng);
        history.push(entry(deed, &mut rng));
    }
    history
}

fn entry(deed: Deed, rng: &mut Rng) -> Entry {
    // Most commands have few points.
    let kill = rng.one_in(2).then(|| (rng.clone().below(1 + rng.below(POINTS)), rng.one_in(2)));
    Entry { deed, seed: rng.number(), kill, again: !rng.one_in(3) }
}

fn any_deed(rng: &mut Rng) -> Deed {
    let run = rng.number() as u8;
    let budget = rng.one_in(3).then(|| 100 + rng.below(900) as u32);
    match rng.below(20) {
        0 => Deed::Start { snapshots: rng.one_in(2), steps: 1 + rng.below(6) },
        1..=4 => Deed::Resume { run, steps: 1 + rng.below(6), budget },
        5..=7 => Deed::Branch { run, step: rng.number() as u8, restore: rng.number() as u8, budget },
        8..=11 => Deed::Rewind { run, step: rng.number() as u8, restore: rng.number() as u8 },
        12 => Deed::Retry { run, agent: rng.number() as u8 },
        13 => Deed::Jump { run, agent: rng.number() as u8 },
        14 => Deed::Clean { run, discards: rng.one_in(3) },
        15 => Deed::CleanOld { waiting: rng.one_in(2) },
        16 => Deed::Answer { ask: rng.number() as u8, steps: 1 + rng.below(4) },
        17 => Deed::WriteBeside,
        _ => Deed::Write { folder: rng.number() as u8, file: rng.number() as u8 },
    }
}

/// How a history went.
pub struct Played {
    /// What the monitor has found, first of all.
    pub broken: Option<String>,
    /// How many points each deed reached that was not killed, and 0 for others.
    pub points: Vec<usize>,
    pub kills: usize,
    pub log: Vec<String>,
}

/// Plays a history. After it, each run that is left must go on.
pub fn play(history: &[Entry], defect: Option<Defect>, keeps_log: bool) -> Played {
    let mut world = World::new(defect, keeps_log);
    let mut played = Played { broken: None, points: Vec::new(), kills: 0, log: Vec::new() };
    for entry in history {
        let before = world.points();
        if let Some((points, after)) = entry.kill {
            world.is_to_be_killed(points, after);
        }
        let was_killed = world.plays(entry);
        played.kills += usize::from(was_killed);
        played.points.push(if was_killed { 0 } else { world.points() - before });
        if was_killed && entry.again && world.work.broken.is_empty() {
            world.log(|| "   again".to_owned());
            world.plays(entry);
        }
        // The kill that was planned must not come later.
        world.forgets_plans();
        if !world.work.broken.is_empty() {
            break;
        }
    }
    if world.work.broken.is_empty() {
        world.goes_on();
    }
    played.broken = world.work.broken.first().cloned();
    played.log = world.disk.tape(|tape| tape.log.take().unwrap_or_default());
    played
}

impl World {
    /// Does something, and returns whether it was killed.
    fn plays(&mut self, entry: &Entry) -> bool {
        self.rng = Rng::new(entry.seed);
        self.log(|| format!("-- {entry:?}"));
        let done = self.does(&entry.deed);
        self.log(|| format!("   {done:?}"));
        self.restart();
        self.check();
        matches!(done, Err(Stop::Killed))
    }

    fn does(&mut self, deed: &Deed) -> Done<()> {
        let nothing = || Err(Stop::Refused("there is none".to_owned()));
        match deed {
            Deed::Start { snapshots, steps } => self.start(*snapshots, *steps),
            Deed::Resume { run, steps, budget } => match one_of(self.ids(), *run) {
                Some(id) => self.resume(&id, &Why::Named, *budget, *steps),
                None => nothing(),
            },
            Deed::Branch { run, step, restore, budget } => {
                let Some(id) = one_of(self.ids(), *run) else { return nothing() };
                let Some(step) = one_of(self.steps(&id), *step) else { return nothing() };
                let how = How { restore: which(*restore), budget: *budget };
                // Given again, the command has the same name for the branch.
                let new = format!("b{}", self.branch_number());
                self.branch(&id, step, &new, &how)
            }
            Deed::Rewind { run, step, restore } => {
                let Some(id) = one_of(self.ids(), *run) else { return nothing() };
                let Some(step) = one_of(self.steps(&id), *step) else { return nothing() };
                self.rewind(&id, step, &How { restore: which(*restore), budget: None })
            }
            Deed::Retry { run, agent } => match one_of(self.ids(), *run) {
                Some(id) => self.retry(&id, *agent),
                None => nothing(),
            },
            Deed::Jump { run, agent } => match one_of(self.ids(), *run) {
                Some(id) => self.jump(&id, *agent),
                None => nothing(),
            },
            Deed::Clean { run, discards } => match one_of(self.ids(), *run) {
                Some(id) => self.clean(&id, *discards),
                None => nothing(),
            },
            Deed::CleanOld { waiting } => self.clean_old(*waiting),
            Deed::Answer { ask, steps } => match one_of(self.inbox(), *ask) {
                Some((id, ask)) => self.resume(&id, &Why::Answered(ask), None, *steps),
                None => nothing(),
            },
            Deed::Write { folder, file } => {
                // People keep out of what is being made.
                let is_whole = |path: &&String| {
                    let is_marked = self.ground.marks.contains(*path);
                    let is_of_worker = path.contains("/.raymond/worktrees/");
                    is_marked || (!is_of_worker && self.ground.folders[*path].made_for.is_none())
                };
                let paths = self.ground.folders.keys().filter(is_whole).cloned().collect();
                let Some(path) = one_of(paths, *folder) else { return nothing() };
                let names = [TRACKED[0], TRACKED[1], NEW, IGNORED];
                self.writes("written by a person", &path, names[usize::from(*file) % names.len()])
            }
            Deed::WriteBeside => {
                let piece = self.new_piece("a person's own file beside the runs");
                self.ground.foreign.insert(piece);
                Ok(())
            }
        }
    }

    /// Each run that is left can go on: nothing that Raymond has left is in the way.
    fn goes_on(&mut self) {
        for id in self.ids() {
            self.rng = Rng::new(self.points() as u64);
            self.log(|| format!("-- at the end, {id} goes on"));
            let done = self.resume(&id, &Why::Named, None, 3);
            self.log(|| format!("   {done:?}"));
            self.check();
        }
    }

    fn branch_number(&mut self) -> usize {
        let is_branch = |id: &&String| id.starts_with('b');
        self.ids().iter().filter(is_branch).count() + self.store.taken().len()
    }
}

/// What a number says about the files.
fn which(restore: u8) -> Option<Restore> {
    match restore % 8 {
        0 | 1 => Some(Restore::InPlace { force: true }),
        2 => Some(Restore::InPlace { force: false }),
        3..=5 => Some(Restore::Into { dir: format!("/d{}", restore / 8 % 2) }),
        _ => None,
    }
}

fn one_of<T>(list: Vec<T>, which: u8) -> Option<T> {
    let at = usize::from(which).checked_rem(list.len())?;
    list.into_iter().nth(at)
}

/// The smallest part of a history that is broken in some way.
pub fn smallest(history: &[Entry], defect: Option<Defect>) -> History {
    let mut smallest = history.to_vec();
    let is_broken = |history: &[Entry]| play(history, defect, false).broken.is_some();
    let mut at = smallest.len();
    while at > 0 {
        at -= 1;
        let mut fewer = smallest.clone();
        fewer.remove(at);
        if is_broken(&fewer) {
            smallest = fewer;
            continue;
        }
        let mut calmer = smallest.clone();
        calmer[at].kill = None;
        if smallest[at].kill.is_some() && is_broken(&calmer) {
            smallest = calmer;
        }
    }
    smallest
}

/// All that is needed to find the cause.
pub fn report(seed: u64, history: &[Entry], defect: Option<Defect>) -> String {
    let smallest = smallest(history, defect);
    let played = play(&smallest, defect, true);
    let why = played.broken.unwrap_or_else(|| "it did not happen again".to_owned());
    format!("history {seed}: {why}\n{}", played.log.join("\n"))
}

/// Kills each deed of a history at each of its points, before and after it. Returns how many histories that are.
pub fn at_every_point(seed: u64) -> Result<usize, String> {
    let mut history = random(seed);
    history.iter_mut().for_each(|entry| entry.kill = None);
    let calm = play(&history, None, false);
    if calm.broken.is_some() {
        return Err(report(seed, &history, None));
    }
    let mut count = 1;
    for (at, points) in calm.points.into_iter().enumerate() {
        for kill in (0..points).flat_map(|point| [(point, false), (point, true)]) {
            let mut killed = history.clone();
            killed[at].kill = Some(kill);
            if play(&killed, None, false).broken.is_some() {
                return Err(report(seed, &killed, None));
            }
            count += 1;
        }
    }
    Ok(count)
}
