//! The command line: one `match` shows the whole program.

mod answer;
mod args;
mod branch;
mod brought;
mod changed;
mod choose;
mod clean;
mod completions;
mod convert;
mod declared;
mod diagnostics;
mod diagram;
mod doctor;
mod drive;
mod elsewhere;
mod emit;
mod export;
mod find;
mod follow;
mod follower;
mod foreign;
mod inbox;
mod init;
mod init_config;
mod inputs;
mod inspect;
mod jump;
mod lint;
mod list;
mod log;
mod meant;
mod options;
mod pager;
pub(crate) mod panics;
mod print;
mod record;
mod restore;
mod resume;
mod retry;
mod rewind;
mod rewound;
mod run;
mod schema;
mod serve;
mod settings;
mod settled;
mod show;
mod staging;
mod status;
mod still;
mod stop;
mod test;
mod trust;

use std::io::Write;
use std::process::ExitCode;
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use args::{Cli, Command};

use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::fleet::Fleet;
use crate::handover::{Handover, NotBegun};
use crate::view::text::clean;

/// The version of the program, with its commit. Its main file has it, so that a commit does not have this package built again.
static VERSION: OnceLock<&'static str> = OnceLock::new();

fn version() -> &'static str {
    VERSION.get().copied().unwrap_or(env!("CARGO_PKG_VERSION"))
}

/// Runs the program that the command line asks for, with an engine for runs on other machines.
pub fn main_with(version: &'static str, fleet: &'static dyn Fleet) -> ExitCode {
    crate::fleet::install(fleet);
    main(version)
}

/// Runs the program that the command line asks for. The version is what `--version` and `doctor` tell.
pub fn main(version: &'static str) -> ExitCode {
    let _ = VERSION.set(version);
    end_on_panic();
    crate::process::survive_file_size_limit();
    if crate::workflow::result_schema::answer() {
        return ExitKind::Completed.into();
    }
    if completions::answer_the_shell() {
        return ExitKind::Completed.into();
    }
    let handed = match Handover::take() {
        Ok(handed) => handed,
        Err(error) => {
            report(&error);
            return error.exit.into();
        }
    };
    let parsed = match &handed {
        Some(handed) => {
            Cli::try_parse_from(std::iter::once("raymond").chain(handed.words.iter().map(String::as_str)))
        }
        None => Cli::try_parse_from(emit::with_text(std::env::args_os().collect())),
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if handed.is_some() => {
            report(&UserError::usage(what_is_wrong(&error)));
            return NotBegun::WrongWord.into();
        }
        Err(error) => return report_usage(&error).into(),
    };
    let is_handed = handed.is_some();
    match diagnostics::start().and_then(|()| dispatch(cli, handed.unwrap_or_default())) {
        Ok(exit) => exit.into(),
        Err(error) => {
            report(&error);
            if error.is_held && is_handed { NotBegun::Held.into() } else { error.exit.into() }
        }
    }
}

/// What the parser says is wrong, without how to get help.
fn what_is_wrong(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.trim_start_matches("error: ").trim().to_owned()
}

/// Prints what the parser says. It reports help and version as errors, too; those exit with 0.
fn report_usage(error: &clap::Error) -> ExitKind {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::ArgumentConflict, Some(ContextValue::String(word))) => {
            report(&meant::one_too_many(word, std::env::args_os().skip(1)));
        }
        _ => {
            let _ = error.print();
        }
    }
    if error.use_stderr() { ExitKind::Usage } else { ExitKind::Completed }
}

fn dispatch(cli: Cli, handed: Handover) -> Result<ExitKind, UserError> {
    let mut command = cli.into_command()?;
    if let Command::Run(args) = &mut command {
        args.handed = handed;
    }
    if let Some(folder) = command.place().and_then(|place| place.state_dir.clone()) {
        advice::repeat_state_dir(folder);
    }
    if let Some(exit) = elsewhere::hand_over(&command)? {
        return Ok(exit);
    }
    let _keepers = elsewhere::prepare(&command);
    carry_out(command)
}

fn carry_out(command: Command) -> Result<ExitKind, UserError> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Resume(args) => resume::resume(args),
        Command::List(args) => list::list(args),
        Command::Inbox(args) => inbox::inbox(args),
        Command::Overview(place) => inbox::overview(&place),
        Command::Status(args) => status::status(args),
        Command::Log(args) => log::log(args),
        Command::Show(args) => show::show(args),
        Command::Branch(args) => branch::branch_off(args),
        Command::Clean(args) => clean::clean(args),
        Command::Rewind(args) => rewind::take_back(args),
        Command::Retry(args) => retry::retry(args),
        Command::Jump(args) => jump::jump(args),
        Command::Answer(args) => answer::answer(args),
        Command::Stop(args) => stop::stop(args),
        Command::Convert(args) => convert::convert(args),
        Command::Diagram(args) => diagram::diagram(args),
        Command::Init(args) => init::init(args),
        Command::Schema(args) => schema::print_schema(args),
        Command::Emit(args) => emit::emit(args),
        Command::Lint(args) => lint::lint(args),
        Command::Serve(args) => serve::serve(args),
        Command::Worker(args) => follow::worker(args),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Export(args) => export::export(args),
        Command::Inspect(args) => inspect::inspect(args),
        Command::Trust(args) => trust::trust(args),
        Command::Test(args) => test::test(args),
        Command::Record(args) => record::record(args),
        Command::Completions(args) => completions::completions(args),
        Command::InitConfig => init_config::init_config(),
    }
}

/// Prints an error: what is wrong, then what to do.
fn report(error: &UserError) {
    const BAD: Style = AnsiColor::Red.on_default().bold();
    const DIM: Style = Style::new().dimmed();
    let mut stderr = anstream::stderr();
    let _ = writeln!(stderr, "{BAD}error{BAD:#}: {}", clean(&error.message));
    for hint in &error.hints {
        let _ = writeln!(stderr, "  {DIM}→{DIM:#} {}", clean(hint));
    }
}

/// A panic ends the whole program. If only one thread or task ended, the others would wait for it forever. A resume
/// continues from what is on disk, as after any crash.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        if crate::cli::panics::is_caught() {
            return;
        }
        let _ = writeln!(std::io::stderr(), "this is a bug in Raymond; the run can be resumed");
        std::process::abort();
    }));
}

/// The whole command line, for completions and manual pages.
pub fn command() -> clap::Command {
    <Cli as CommandFactory>::command()
}
