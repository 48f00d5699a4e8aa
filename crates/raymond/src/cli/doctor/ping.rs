//! `--ping`: a short turn with the default backend, run as a step of a run would be.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use super::backends::BackendReport;
use crate::agent::registry::{Backend, Backends};
use crate::agent::{Turn, TurnEnding, TurnReader};
use crate::error::UserError;
use crate::process::{
    AfterExit, Ending, Flow, Input, OutputTail, Reaper, Sink, StopSignal, TimeLimits, program_on_path,
    supervise,
};

/// How long a program may take for its answer.
const PATIENCE: Duration = Duration::from_secs(180);
/// How many lines of stderr the program's decoder gets.
const STDERR_LINES: usize = 40;

/// Asks whether money may be spent.
pub(super) fn agree(backend: &str, is_agreed: bool) -> Result<(), UserError> {
    if is_agreed {
        return Ok(());
    }
    let cost = format!("--ping asks the model of `{backend}` for one word, which costs a fraction of a cent");
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(UserError::usage(cost).hint("to agree without a terminal: --ping --yes"));
    }
    let _ = write!(io::stderr(), "{cost}.\nGo on? [y/N] ");
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    match ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        true => Ok(()),
        false => {
            Err(UserError::usage("nothing was asked").hint("leave out --ping to look without asking a model"))
        }
    }
}

/// Runs a short turn with the default backend, and reports whether it was answered.
pub(super) fn ping(reports: &mut [BackendReport], known: &Backends, default: &str, model: Option<&str>) {
    let Some(report) = reports.iter_mut().find(|report| report.name == default && report.installed) else {
        return;
    };
    let Ok(backend) = known.get(default) else { return };
    if backend.inspection().is_none() {
        return;
    }
    let answered = short_turn(backend, model);
    report.answers = Some(answered.is_ok());
    report.problem = answered.err();
}

fn short_turn(backend: &Backend, model: Option<&str>) -> Result<(), String> {
    let can = backend.capabilities();
    let turn = Turn {
        prompt: "Reply with the word pong and nothing else.".to_owned(),
        cwd: std::env::current_dir().unwrap_or_default(),
        session: can.takes_session_id().then(|| uuid::Uuid::new_v4().to_string()),
        model: model.filter(|_| can.model).map(str::to_owned),
        ..Turn::default()
    };
    let invocation = backend.invocation(&turn)?;
    let program = program_on_path(&invocation.program).ok_or("it was not found")?;
    let mut process = invocation.into_process(&turn.cwd, uuid::Uuid::new_v4().simple().to_string());
    process.program = program.into();
    let mut hearing = Hearing { reader: TurnReader::new(&**backend, &turn), stderr: OutputTail::default() };
    let limits = TimeLimits { total: Some(PATIENCE), ..TimeLimits::default() };
    let reaper = Reaper::start().map_err(|error| format!("cannot watch over processes: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let stop = StopSignal::new();
    let done = runtime.block_on(supervise(process, limits, &mut hearing, stop, &reaper, AfterExit::EndAll));
    match done.ending {
        Ending::SpawnFailed(error) => Err(format!("it cannot be started: {error}")),
        Ending::TotalTimeout => Err(format!("it did not answer in {} seconds", PATIENCE.as_secs())),
        ending => hearing.result(TurnEnding::of(&ending, &limits)),
    }
}

/// Reads the turn.
struct Hearing {
    reader: TurnReader,
    stderr: OutputTail,
}

impl Hearing {
    fn result(mut self, ending: TurnEnding) -> Result<(), String> {
        self.reader.close();
        let ended = self.reader.finish(ending, &self.stderr.last_lines(STDERR_LINES));
        ended.map(drop).map_err(|failed| failed.fault.to_string())
    }
}

impl Sink for Hearing {
    fn stdout(&mut self, bytes: &[u8]) -> Flow {
        self.reader.feed(bytes);
        self.reader.flow_after_stdout()
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        let mut text = bytes.to_vec();
        self.reader.feed_stderr(&mut text);
        self.stderr.push(&text);
        self.reader.flow_after_stderr()
    }

    fn input(&mut self) -> Input {
        self.reader.input()
    }
}
