//! A machine on which Raymond runs, is killed and is started again: its clock, its programs, its users.

use crate::library::Launch;
use jiff::Timestamp;
use raymond::run::recovery::token;
use raymond::store::{Durability, JournalOptions};
use raymond_core::event::Event;
use raymond_core::input::Input;
use raymond_core::run::Options;

use crate::back::Wish;
use crate::disk::SimDisk;
use crate::fault::{Down, Fault, Kind, Site, Tape};
use crate::home::Home;
use crate::library::Library;
use crate::monitor::Monitor;
use crate::people::People;
use crate::process::Process;
use crate::program::{Act, Does, Program};
use crate::rng::Rng;

/// When the simulated clock starts, in milliseconds since 1970.
const EPOCH: i64 = 1_750_000_000_000;
/// How long it takes to end a program that ignores the request to end.
const GRACE: u64 = 5_000;
/// Repeated, this text is too long for the journal and becomes a payload.
const BIG: &str = "long text, ";
/// The identity of the place where the run is.
pub const PLACE: &str = "0123456789abcdef";
pub const NONCE: &str = "6f1c1f0e-0000-4000-8000-000000000001";

/// Raymond is down: its remaining actions do not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crashed;

/// How closely a run is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Whether all checks are made on every state.
    pub is_thorough: bool,
    pub keeps_log: bool,
}

pub struct Host<'p> {
    pub program: &'p Program,
    pub disk: SimDisk,
    pub home: Home,
    pub options: Options,
    pub monitor: Monitor,
    pub people: People,
    pub rng: Rng,
    /// The workflows as the running Raymond has opened them.
    pub library: Library,
    /// Which part of a recorded run is being replayed.
    pub part: usize,
    /// Set when a recorded run has left its recorded course.
    pub is_off_course: bool,
    pub processes: Vec<Process>,
    /// Milliseconds that have passed.
    pub clock: u64,
    /// By how much the wall clock was changed.
    skew: i64,
    pub life: u32,
    /// What another Raymond would have done first in this life. It is valid only if there were no more faults than this
    /// number.
    pub expected: Option<(Vec<Event>, usize)>,
    /// What the running Raymond will be told, and when: the end of a process by its number.
    pub reports: Vec<(u64, usize)>,
    /// The same about processes whose machines were lost. A later Raymond is told, too.
    pub losses: Vec<(u64, usize)>,
    /// What a person wants to do before the run goes on.
    pub wish: Option<Wish>,
    /// Runs that are left behind, with the events that each must keep.
    pub left_behind: Vec<(String, Vec<Event>)>,
}

impl<'p> Host<'p> {
    pub fn new(program: &'p Program, seed: u64, plan: &[Fault], manner: Manner) -> Self {
        let disk = SimDisk::new(Tape::new(plan, manner.keeps_log));
        let home = Home::new(program, disk.clone());
        let monitor = Monitor::new(&home, manner.is_thorough);
        Self {
            program,
            disk,
            home,
            options: program.options.clone(),
            monitor,
            people: People::default(),
            rng: Rng::new(seed),
            library: Library::open(program, &program.options, 0),
            part: 0,
            is_off_course: false,
            processes: Vec::new(),
            clock: 0,
            skew: 0,
            life: 0,
            expected: None,
            reports: Vec::new(),
            losses: Vec::new(),
            wish: None,
            left_behind: Vec::new(),
        }
    }

    pub fn journal_options(&self) -> JournalOptions {
        let segment_bytes = self.program.segment_bytes;
        JournalOptions { durability: durability(self.program), segment_bytes, keep_segments: None }
    }

    pub fn now(&self) -> Timestamp {
        let began = self.program.course.as_ref().map_or(EPOCH, |course| course.began.as_millisecond());
        Timestamp::from_millisecond(began + self.clock as i64 + self.skew).unwrap_or(Timestamp::MAX)
    }

    /// When the wall clock will show a time.
    pub fn when(&self, time: Timestamp) -> u64 {
        let until = time.as_millisecond().saturating_sub(self.now().as_millisecond());
        self.clock + u64::try_from(until).unwrap_or(0)
    }

    pub fn set_clock(&mut self, seconds: i32) {
        self.skew += i64::from(seconds) * 1000;
    }

    /// Reaches a point that is not a call to the disk.
    pub fn pass(&mut self, site: Site, what: impl FnOnce() -> String) -> Result<Option<Kind>, Crashed> {
        self.disk.tape(|tape| {
            if tape.down.is_some() {
                return Err(Crashed);
            }
            match tape.pass(site, what) {
                Some(Kind::Kill) => tape.go_down(Down::Killed),
                Some(Kind::Power(what_stays)) => tape.go_down(Down::PowerCut(what_stays)),
                other => return Ok(other),
            }
            Err(Crashed)
        })
    }

    /// The nonce of the run. It is another one after the run was taken back, and in a branch.
    fn nonce(&self) -> String {
        self.monitor.run.as_ref().map_or(String::new(), |run| run.nonce.clone())
    }

    /// Starts a program, unless the point before it prevents that.
    pub fn spawn(&mut self, launch: Launch) -> Result<(), Crashed> {
        let started = launch.started.clone();
        let kind = self.pass(Site::Spawn, || {
            format!("{} {} step {}/{}", started.agent, started.state, started.step, started.attempt)
        })?;
        let twins = self.processes.iter().filter(|other| is_twin(other, &launch)).count();
        self.monitor.spawning(&started, twins);
        let act = self.act(&launch);
        let text = match &act.does {
            Does::Says(text) if self.program.course.is_some() => text.clone(),
            Does::Says(text) => self.fill_in(text, &launch),
            _ => String::new(),
        };
        let was_refused = matches!(kind, Some(Kind::Refuse(_)));
        let run_time = if was_refused { 0 } else { self.run_time(&act, &launch) };
        self.processes.push(Process {
            token: token(&self.nonce(), PLACE, started.step, started.attempt),
            life: self.life,
            text,
            started: self.clock,
            ends: self.clock + run_time,
            is_alive: !was_refused,
            child_lives: act.leaves_child && !was_refused,
            was_ended: false,
            is_lost: false,
            was_refused,
            chunks: self.rng.number(),
            act,
            launch,
        });
        let number = self.processes.len() - 1;
        self.reports.push((self.clock + run_time, number));
        if kind == Some(Kind::KillAfter) {
            self.disk.tape(|tape| tape.go_down(Down::Killed));
            return Err(Crashed);
        }
        Ok(())
    }

    fn act(&mut self, launch: &Launch) -> Act {
        let (agent, visits) = (&launch.agent, launch.started.visits);
        let tries = self.monitor.tries(&agent.id);
        let Some(course) = &self.program.course else { return self.program.act(agent, visits, tries) };
        course.act(self.part, agent, visits, tries).unwrap_or_else(|| {
            self.is_off_course = true;
            Act::new(Does::GoesOn)
        })
    }

    /// A recorded program takes as long as it did in the recording.
    fn run_time(&mut self, act: &Act, launch: &Launch) -> u64 {
        let more = if self.program.course.is_some() { 0 } else { self.rng.below(500) as u64 };
        Process::run_time(act, launch) + more
    }

    fn fill_in(&self, text: &str, launch: &Launch) -> String {
        let home = self.program.home().to_string_lossy().into_owned();
        let input = launch.agent.payload.as_ref().map(|payload| self.monitor.text_of(payload));
        let text =
            if text.contains("{big}") { text.replace("{big}", &BIG.repeat(6_000)) } else { text.to_owned() };
        let place = |path: &str| path.strip_prefix(&home).unwrap_or(path).trim_start_matches('/').to_owned();
        let scope = launch.agent.scope.as_deref().map_or("own".to_owned(), place);
        text.replace("{home}", &home)
            .replace("{place}", &format!("{scope} in [{}]", place(&launch.agent.cwd)))
            .replace("{visits}", &launch.started.visits.to_string())
            .replace("{agent}", launch.agent.id.as_str())
            .replace("{input}", &input.unwrap_or_default())
    }

    /// Ends programs whose time has come. Raymond may be told of it or not.
    pub fn let_programs_end(&mut self) {
        for process in &mut self.processes {
            if process.is_alive && process.ends <= self.clock {
                process.is_alive = false;
                self.monitor.ended(process.step(), process.attempt(), process.cost(), process.estimate());
            }
        }
    }

    /// What has been reported by now; reports for earlier lives are dropped.
    pub fn take_reports(&mut self, most: usize) -> Vec<Input> {
        let now = self.now();
        let mut inputs = Vec::new();
        let mut due: Vec<usize> =
            (0..self.reports.len()).filter(|index| self.reports[*index].0 <= self.clock).collect();
        for _ in 0..most.min(due.len()) {
            let index = due.remove(self.rng.below(due.len()));
            let (time, number) = self.reports[index];
            self.reports[index].0 = u64::MAX;
            let process = &mut self.processes[number];
            let is_first = time == process.ends || process.was_ended;
            // A script that succeeded may leave a child behind; nothing else may.
            let has_failed = !matches!(process.act.does, Does::Says(_)) || process.was_ended;
            process.child_lives &= process.is_script() && !has_failed;
            if process.was_refused {
                self.monitor.ended(process.step(), process.attempt(), process.cost(), process.estimate());
            }
            inputs.extend(process.reports(&self.library, now));
            // Sometimes a report arrives twice, so late that another attempt may be running.
            if is_first && !self.processes[number].was_ended {
                self.reports.push((self.clock + 1 + self.rng.below(2_500) as u64, number));
            }
        }
        self.reports.retain(|(time, _)| *time != u64::MAX);
        inputs
    }

    /// The machine of a step that has not reported is lost, with all that runs there. The report stays on its way.
    pub fn lose_machine(&mut self) {
        let is_first = |(time, number): &(u64, usize)| {
            let process = &self.processes[*number];
            process.ends == *time && !process.is_lost
        };
        let unreported: Vec<usize> =
            self.reports.iter().filter(|report| is_first(report)).map(|(_, number)| *number).collect();
        if unreported.is_empty() {
            return;
        }
        let number = *self.rng.pick(&unreported);
        let process = &mut self.processes[number];
        (process.is_lost, process.is_alive, process.child_lives) = (true, false, false);
        self.monitor.ended(process.step(), process.attempt(), process.cost(), process.estimate());
        for _ in 0..2 {
            self.losses.push((self.clock + self.rng.below(4_000) as u64, number));
        }
    }

    /// When the next loss or end is reported.
    pub fn next_report(&self) -> Option<u64> {
        self.reports.iter().chain(&self.losses).map(|(time, _)| *time).min()
    }

    /// The losses that have been told by now.
    pub fn take_losses(&mut self) -> Vec<Input> {
        let (told, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.losses).into_iter().partition(|(time, _)| *time <= self.clock);
        self.losses = later;
        told.into_iter().map(|(_, number)| self.processes[number].loss()).collect()
    }

    /// Ends programs of the running Raymond, which gets their reports.
    pub fn end_programs(&mut self, only_scripts: bool) {
        let life = self.life;
        for (number, process) in self.processes.iter_mut().enumerate() {
            let is_meant = process.life == life && (!only_scripts || process.is_script());
            if is_meant && process.is_alive && process.ends > self.clock {
                process.was_ended = true;
                process.ends = self.clock + if process.act.is_stubborn { GRACE } else { 10 };
                self.reports.retain(|(_, reported)| *reported != number);
                self.reports.push((process.ends, number));
            }
        }
    }

    /// Ends everything with a token; returns what does not end.
    pub fn end_by_token(&mut self, token: &str) -> Result<Vec<i32>, Crashed> {
        let kind = self.pass(Site::End, || token.to_owned())?;
        if matches!(kind, Some(Kind::Refuse(_))) {
            let found = self.processes.iter().any(|process| process.token == token && process.lives());
            return Ok(if found { vec![42] } else { Vec::new() });
        }
        self.let_programs_end();
        for process in self.processes.iter_mut().filter(|process| process.token == token) {
            if process.is_alive {
                self.clock += if process.act.is_stubborn { GRACE } else { 10 };
                process.was_ended = true;
            }
            process.is_alive = false;
            process.child_lives = false;
            self.monitor.ended(process.step(), process.attempt(), process.cost(), process.estimate());
        }
        if kind == Some(Kind::KillAfter) {
            self.disk.tape(|tape| tape.go_down(Down::Killed));
            return Err(Crashed);
        }
        Ok(Vec::new())
    }

    /// Every running program is in the journal as running.
    pub fn check_programs(&mut self) {
        for process in self.processes.iter().filter(|process| process.is_alive) {
            let (step, attempt) = (process.step(), process.attempt());
            if !self.monitor.account.is_running(step, attempt) {
                self.monitor
                    .broken
                    .push(format!("step {step}/{attempt} runs, but the journal does not say so"));
            }
        }
    }

    /// Raymond is down; after a power cut all programs are.
    pub fn go_down(&mut self) {
        let down = self.disk.tape(|tape| tape.down);
        self.disk.log(|| format!("      -- down: {down:?}"));
        if matches!(down, Some(Down::PowerCut(_))) {
            for process in &mut self.processes {
                if process.is_alive {
                    process.was_ended = true;
                    self.monitor.ended(process.step(), process.attempt(), process.cost(), process.estimate());
                }
                process.is_alive = false;
                process.child_lives = false;
            }
            self.people.power_cut(down);
        }
        self.home.restart();
        self.reports.clear();
        self.clock += 1 + self.rng.below(3_000) as u64;
        self.let_programs_end();
    }
}

fn durability(program: &Program) -> Durability {
    if program.is_synced { Durability::Power } else { Durability::Process }
}

/// Whether a process belongs to another attempt of the same step and still lives.
fn is_twin(other: &Process, launch: &Launch) -> bool {
    other.step() == launch.started.step && other.lives()
}
