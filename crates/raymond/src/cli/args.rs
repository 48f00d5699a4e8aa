//! What can be written on the command line.

pub(super) mod author;
mod examples;
pub(super) mod fleet;
pub(super) mod serve;
pub(super) mod trust;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use super::completions::{backends, named_inputs, run_ids, statuses};
use super::completions::{runs_to_answer, runs_to_change, runs_to_resume, runs_to_retry, runs_to_stop};
use crate::agent::prepared::Missing;
use crate::config::{self, OnAsk, Timeout};
use crate::error::UserError;
use crate::handover::Handover;
use crate::view::Detail;
use crate::view::status::STATUSES;
use crate::workflow::labels::check_label;

/// Commands of later versions. A workflow with such a name must already be written as a path (`./watch`), so that its
/// command line keeps its meaning when the command exists.
const RESERVED: [&str; 1] = ["watch"];

/// Whether a workflow with this name has to be written as a path although the command does not exist yet.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

#[derive(Debug, Parser)]
#[command(
    name = "raymond",
    version = super::version(),
    about = "Runs workflows of prompts and scripts, and survives anything on the way",
    args_conflicts_with_subcommands = true,
    after_help = examples::RAYMOND
)]
pub(super) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
    /// Write a commented .raymond/config.toml
    #[arg(long, exclusive = true)]
    init_config: bool,
    /// The same as `raymond resume RUN`
    #[arg(long, value_name = "RUN", conflicts_with = "workflow", num_args = 0..=1, add = ArgValueCompleter::new(runs_to_resume))]
    resume: Option<Option<String>>,
}

impl Cli {
    /// What to do: `raymond WORKFLOW` is `raymond run WORKFLOW`.
    pub(super) fn into_command(self) -> Result<Command, UserError> {
        if let Some(command) = self.command {
            return Ok(command);
        }
        if self.init_config {
            return Ok(Command::InitConfig);
        }
        let args = self.run;
        if let Some(run) = self.resume {
            if !args.set.is_empty() {
                return Err(UserError::usage("--set is for new runs; a resumed run keeps its inputs"));
            }
            return Ok(Command::Resume(ResumeArgs {
                run,
                fresh: false,
                diff: false,
                options: args.options,
                place: args.place,
            }));
        }
        match args.workflow.as_deref() {
            None if is_bare(&args.place) => Ok(Command::Overview(args.place)),
            None => Err(UserError::usage("nothing to do")
                .hint("give a workflow: raymond WORKFLOW")
                .hint("or look at what there is: raymond --help")),
            Some(name) if is_reserved(name) => {
                Err(UserError::usage(format!("`raymond {name}` is not part of this version yet"))
                    .hint(format!("to run a workflow of that name, write ./{name}")))
            }
            Some(_) => Ok(Command::Run(args)),
        }
    }
}

/// Whether nothing is said but where runs are kept.
fn is_bare(place: &Place) -> bool {
    let words = std::env::args_os().skip(1);
    let is_state_dir = |word: &std::ffi::OsString| {
        word.to_str().is_some_and(|word| word.starts_with("--state-dir"))
            || place.state_dir.as_deref() == Some(word.as_ref())
    };
    words.into_iter().all(|word| is_state_dir(&word))
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a workflow
    Run(RunArgs),
    /// Continue a run where it was
    Resume(ResumeArgs),
    /// List all runs, the most recently active one first
    List(ListArgs),
    /// Show what needs a person: questions, failures, spent budgets and limits
    Inbox(InboxArgs),
    /// Show the status of a run
    Status(StatusArgs),
    /// Show everything that happened in a run
    Log(LogArgs),
    /// Show what the steps of a run were told, did and answered
    Show(ShowArgs),
    /// Begin a new run with the history of another one, up to one of its steps
    Branch(BranchArgs),
    /// Remove runs with all their files, git refs and worktrees
    Clean(CleanArgs),
    /// Take a run back to one of its steps; what came after it becomes another run
    Rewind(RewindArgs),
    /// Let failed agents of a run try again
    Retry(RetryArgs),
    /// Send an agent of a run to another state
    Jump(JumpArgs),
    /// Answer a question of a run, whether it is running or not
    Answer(AnswerArgs),
    /// Ask a run to stop; it can be resumed
    Stop(StopArgs),
    /// Write a workflow in another form: a folder, a .zip archive or one .yaml file
    Convert(ConvertArgs),
    /// Look for mistakes in workflows before a model finds them
    Lint(author::LintArgs),
    /// Show what a workflow may do
    Inspect(trust::InspectArgs),
    /// Show what a workflow may do, and let it start by itself as it is now
    Trust(trust::TrustArgs),
    /// Test workflows, with prepared replies instead of agents
    Test(author::TestArgs),
    /// Make a recording of a run, to replay it or test with it
    Record(RecordArgs),
    /// Write a workflow to start from
    Init(author::InitArgs),
    /// Print the JSON schema of a file format
    Schema(author::SchemaArgs),
    /// Print a tag with everything escaped, for scripts
    Emit(author::EmitArgs),
    /// Draw a workflow
    Diagram(author::DiagramArgs),
    /// Show runs and workflows on a page, and serve them to other programs
    Serve(serve::ServeArgs),
    /// Carry out steps of runs on other machines, until it is stopped
    Worker(fleet::WorkerArgs),
    /// Look at agent programs, settings and this machine, and say what to do
    Doctor(DoctorArgs),
    /// Write a run as one HTML file, which opens without a network
    Export(serve::ExportArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    #[command(skip)]
    InitConfig,
    /// There is no word that says what to do.
    #[command(skip)]
    Overview(Place),
}

impl Command {
    /// Where the runs that it is about are kept.
    pub(super) fn place(&self) -> Option<&Place> {
        match self {
            Self::Run(args) => Some(&args.place),
            Self::Resume(args) => Some(&args.place),
            Self::List(args) => Some(&args.place),
            Self::Inbox(args) => Some(&args.place),
            Self::Overview(place) => Some(place),
            Self::Status(args) => Some(&args.place),
            Self::Log(args) => Some(&args.place),
            Self::Show(args) => Some(&args.place),
            Self::Branch(args) => Some(&args.place),
            Self::Clean(args) => Some(&args.place),
            Self::Rewind(args) => Some(&args.place),
            Self::Retry(args) => Some(&args.place),
            Self::Jump(args) => Some(&args.place),
            Self::Answer(args) => Some(&args.place),
            Self::Stop(args) => Some(&args.place),
            Self::Serve(args) => Some(&args.place),
            Self::Export(args) => Some(&args.place),
            Self::Record(args) => Some(&args.place),
            Self::Convert(_)
            | Self::Lint(_)
            | Self::Inspect(_)
            | Self::Trust(_)
            | Self::Test(_)
            | Self::Init(_)
            | Self::Schema(_)
            | Self::Diagram(_)
            | Self::Emit(_)
            | Self::Worker(_)
            | Self::Doctor(_)
            | Self::Completions(_)
            | Self::InitConfig => None,
        }
    }

    /// The run that it names, as it was written.
    pub(super) fn run(&self) -> Option<&str> {
        match self {
            Self::Resume(args) => args.run.as_deref(),
            Self::Status(args) => args.run.as_deref(),
            Self::Log(args) => args.run.as_deref(),
            Self::Show(args) => args.run.as_deref(),
            Self::Clean(args) => args.run.as_deref(),
            Self::Export(args) => args.run.as_deref(),
            Self::Retry(args) => args.run.as_deref(),
            Self::Stop(args) => args.run.as_deref(),
            Self::Record(args) => args.run.as_deref(),
            Self::Branch(args) => Some(&args.run),
            Self::Rewind(args) => Some(&args.run),
            Self::Jump(args) => Some(&args.run),
            _ => None,
        }
    }
}

/// Where runs are kept.
#[derive(Debug, Default, Args)]
pub(super) struct Place {
    /// Keep journals in this folder instead of .raymond/state
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) state_dir: Option<PathBuf>,
}

/// Options that new and resumed runs have in common.
#[derive(Debug, Default, Args)]
pub(super) struct RunOptions {
    /// Dollars the run may spend, over all agents and resumes; 0 is unlimited, +5 is 5 more than before [default: 10]
    #[arg(long, value_name = "USD", value_parser = parse_budget, allow_negative_numbers = true)]
    pub(super) budget: Option<Budget>,
    /// The model for prompts that do not choose one
    #[arg(long, value_name = "NAME", value_parser = parse_choice)]
    pub(super) model: Option<String>,
    /// The effort for prompts that do not choose one
    #[arg(long, value_name = "LEVEL", value_parser = parse_choice)]
    pub(super) effort: Option<String>,
    /// The backend for prompts that do not choose one, or several with commas: the next where one is missing or at its
    /// limit [default: claude]
    #[arg(long, value_name = "NAME", value_parser = parse_backends, add = ArgValueCompleter::new(backends))]
    pub(super) backend: Option<String>,
    /// How long a step that sets no limit may be silent; 0 is no limit [default: 30m for prompts, none for scripts]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) timeout: Option<Timeout>,
    /// How many agent programs run at the same time [default: 8]
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroUsize>, allow_negative_numbers = true)]
    pub(super) max_parallel: Option<NonZeroUsize>,
    /// How many scripts run at the same time [default: 256]
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroUsize>, allow_negative_numbers = true)]
    pub(super) max_parallel_scripts: Option<NonZeroUsize>,
    /// Let agents do anything without asking; only for workflows you trust
    #[arg(long)]
    pub(super) dangerously_skip_permissions: bool,
    /// Let agents ask for permissions even if the config file says otherwise; `serve` starts runs with it
    #[arg(long, hide = true, conflicts_with = "dangerously_skip_permissions")]
    pub(super) ask_permissions: bool,
    /// Accept the settings of the project's config file that give power, for workflows that are not part of the project and for
    /// commands that only look, too
    #[arg(long)]
    pub(super) trust: bool,
    /// What to do when the workflow asks a person
    #[arg(long, value_name = "HOW")]
    pub(super) on_ask: Option<OnAsk>,
    /// Stop at a usage limit instead of waiting for its end
    #[arg(long)]
    pub(super) no_wait: bool,
    /// Write no debug files
    #[arg(long)]
    pub(super) no_debug: bool,
    /// Stop once this many steps have been started; the run can be resumed
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroU64>, allow_negative_numbers = true)]
    pub(super) max_steps: Option<NonZeroU64>,
    /// Keep the files that each step leaves as a commit, without touching the index, HEAD or branches; only in a git repository
    #[arg(long)]
    pub(super) snapshots: bool,
    /// Do not check what the workflow declares before it runs; for states that a step will make
    #[arg(long)]
    pub(super) no_lint: bool,
    /// Write every finished turn to this file, so that the run can be replayed
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) record: Option<PathBuf>,
    /// Answer prompts from this recording; no agent program is started
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) replay: Option<PathBuf>,
    /// What to do with a prompt that is not in the recording: fail, take the closest turn, or ask the agent
    #[arg(long, value_name = "HOW")]
    pub(super) replay_missing: Option<Missing>,
    /// How `raymond test` wants the run to go
    #[arg(long, value_name = "FILE", hide = true)]
    pub(super) stage: Option<PathBuf>,
    /// Print events as JSON lines on stdout instead of the result
    #[arg(long)]
    pub(super) json: bool,
    /// Show failures only
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Show the output of steps, too
    #[arg(short, long)]
    pub(super) verbose: bool,
}

impl RunOptions {
    pub(super) fn detail(&self, verbose_by_default: bool) -> Detail {
        match (self.quiet, self.verbose || verbose_by_default) {
            (true, _) => Detail::Quiet,
            (false, true) => Detail::Verbose,
            (false, false) => Detail::Normal,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = examples::RUN)]
pub(super) struct RunArgs {
    /// A folder with a START state, the same as a .zip archive or .yaml file, or a single state of one
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(super) workflow: Option<String>,
    /// The input of the first state; `-` reads it from stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) input: Option<String>,
    /// The value of an input that the workflow declares; can be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_set, add = ArgValueCompleter::new(named_inputs))]
    pub(super) set: Vec<(String, String)>,
    /// Name the run
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(super) id: Option<String>,
    /// A label for the run, which status shows; can be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(super) labels: Vec<(String, String)>,
    /// What the process that started this one has handed over besides.
    #[arg(skip)]
    pub(super) handed: Handover,
    /// The hash of the workflow's content when `serve` found it trusted; nothing else is started
    #[arg(long, value_name = "HASH", hide = true)]
    pub(super) trusted_content: Option<String>,
    #[command(flatten)]
    pub(super) engine: fleet::EngineArgs,
    #[command(flatten)]
    pub(super) options: RunOptions,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::RESUME)]
pub(super) struct ResumeArgs {
    /// The run; the latest that can go on if left out
    #[arg(add = ArgValueCompleter::new(runs_to_resume))]
    pub(super) run: Option<String>,
    /// Begin new conversations where the agent program has deleted the old ones
    #[arg(long)]
    pub(super) fresh: bool,
    /// Show the state files that changed since they were last used, and run nothing
    #[arg(long)]
    pub(super) diff: bool,
    #[command(flatten)]
    pub(super) options: RunOptions,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::LIST)]
pub(super) struct ListArgs {
    /// Only runs of this status, such as failed or waiting; can be given several times
    #[arg(long, value_name = "STATUS", value_parser = parse_status, add = ArgValueCompleter::new(statuses))]
    pub(super) status: Vec<String>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub(super) workflow: Option<String>,
    /// Only runs with this label; can be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(super) labels: Vec<(String, String)>,
    /// Only runs that were started since this day or time, or so long ago, such as 2h or 2026-01-31
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub(super) since: Option<jiff::Timestamp>,
    /// Only so many, the most recently active ones
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count::<NonZeroUsize>, allow_negative_numbers = true)]
    pub(super) limit: Option<NonZeroUsize>,
    /// Print a JSON array
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::INBOX)]
pub(super) struct InboxArgs {
    /// Print one JSON object, as `GET inbox` of `raymond serve`
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::STATUS)]
pub(super) struct StatusArgs {
    /// The run; the latest if left out
    #[arg(add = ArgValueCompleter::new(run_ids))]
    pub(super) run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::LOG)]
pub(super) struct LogArgs {
    /// The run; the latest if left out
    #[arg(add = ArgValueCompleter::new(run_ids))]
    pub(super) run: Option<String>,
    /// Show all that is known about one step
    #[arg(value_name = "STEP", conflicts_with_all = ["follow", "step"])]
    pub(super) number: Option<u64>,
    /// Go on with events as they come, until the run is over; exits with the run's code
    #[arg(short, long)]
    pub(super) follow: bool,
    /// The same as STEP
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    pub(super) step: Option<u64>,
    /// Only the events of one agent
    #[arg(long, value_name = "AGENT")]
    pub(super) agent: Option<String>,
    /// Print events as JSON lines
    #[arg(long)]
    pub(super) json: bool,
    /// Print a long text on a terminal too, instead of showing it in $PAGER or less
    #[arg(long)]
    pub(super) no_pager: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::SHOW)]
pub(super) struct ShowArgs {
    /// The run; the latest if left out
    #[arg(add = ArgValueCompleter::new(run_ids))]
    pub(super) run: Option<String>,
    /// The number of a step, as `raymond log` shows it, or several such as 3..7; all in order if left out
    #[arg(value_name = "STEP")]
    pub(super) steps: Option<Steps>,
    /// Continue the step's conversation in the agent's own program, on a branch; the run is not changed
    #[arg(long)]
    pub(super) open: bool,
    /// Print a long text on a terminal too, instead of showing it in $PAGER or less
    #[arg(long)]
    pub(super) no_pager: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::BRANCH)]
pub(super) struct BranchArgs {
    /// The run; it may be running
    #[arg(add = ArgValueCompleter::new(run_ids))]
    pub(super) run: String,
    /// The last step that both runs have, as `raymond log` numbers it
    #[arg(value_name = "STEP", required_unless_present = "at")]
    pub(super) step: Option<u64>,
    /// The same as STEP
    #[arg(long, value_name = "STEP", conflicts_with = "step")]
    pub(super) at: Option<u64>,
    /// Name the new run
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(super) id: Option<String>,
    /// Do not count what the steps up to there have cost
    #[arg(long)]
    pub(super) reset_cost: bool,
    /// Begin new conversations where the old ones cannot go on
    #[arg(long)]
    pub(super) fresh: bool,
    #[command(flatten)]
    pub(super) restoring: RestoreArgs,
    /// Go on with the new run at once
    #[arg(long = "run")]
    pub(super) run_it: bool,
    #[command(flatten)]
    pub(super) options: RunOptions,
    #[command(flatten)]
    pub(super) place: Place,
}

/// Whether and where the files of a step are restored.
#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// Also restore the files that the step left; the run must have taken snapshots
    #[arg(long)]
    pub(super) files: bool,
    /// Restore them in a new git worktree in this folder, in which the run goes on
    #[arg(long, value_name = "DIR", requires = "files", value_hint = ValueHint::DirPath)]
    pub(super) worktree: Option<PathBuf>,
    /// Replace files that are not committed; they are kept under refs/raymond-kept
    #[arg(long, requires = "files", conflicts_with = "worktree")]
    pub(super) force: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples::CLEAN)]
pub(super) struct CleanArgs {
    /// The run; it must not be running
    #[arg(add = ArgValueCompleter::new(runs_to_change), conflicts_with = "older_than")]
    pub(super) run: Option<String>,
    /// All runs that were last active so long ago, such as 30d
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub(super) older_than: Option<jiff::Timestamp>,
    /// With --older-than, also remove runs that wait for an answer
    #[arg(long)]
    pub(super) waiting: bool,
    /// Only say what would be removed
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Also remove worktrees with work that is not committed, the work that a rewind put aside, and what other machines have
    #[arg(long)]
    pub(super) discard_changes: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::REWIND)]
pub(super) struct RewindArgs {
    /// The run; it must not be running
    #[arg(add = ArgValueCompleter::new(runs_to_change))]
    pub(super) run: String,
    /// The last step that stays, as `raymond log` numbers it
    #[arg(value_name = "STEP", required_unless_present = "to")]
    pub(super) step: Option<u64>,
    /// The same as STEP
    #[arg(long, value_name = "STEP", conflicts_with = "step")]
    pub(super) to: Option<u64>,
    /// Begin new conversations where the old ones cannot go on
    #[arg(long)]
    pub(super) fresh: bool,
    #[command(flatten)]
    pub(super) restoring: RestoreArgs,
    /// Go on with the run at once
    #[arg(long = "run")]
    pub(super) run_it: bool,
    #[command(flatten)]
    pub(super) options: RunOptions,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::RETRY)]
pub(super) struct RetryArgs {
    /// The run; the latest with a failed agent if left out. It must not be running
    #[arg(add = ArgValueCompleter::new(runs_to_retry))]
    pub(super) run: Option<String>,
    /// The agent; all that have failed if left out
    pub(super) agent: Option<String>,
    /// Do not go on with the run
    #[arg(long)]
    pub(super) no_run: bool,
    /// Go on with the run, which is done anyway
    #[arg(long = "run", hide = true, conflicts_with = "no_run")]
    pub(super) run_it: bool,
    #[command(flatten)]
    pub(super) options: RunOptions,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::JUMP)]
pub(super) struct JumpArgs {
    /// The run; it must not be running
    #[arg(add = ArgValueCompleter::new(runs_to_change))]
    pub(super) run: String,
    /// The agent that is sent elsewhere, such as main
    pub(super) agent: String,
    /// A state of the workflow that it is in
    pub(super) state: String,
    /// The input of that state; `-` reads it from stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) input: Option<String>,
    /// Do not go on with the run
    #[arg(long)]
    pub(super) no_run: bool,
    /// Go on with the run, which is done anyway
    #[arg(long = "run", hide = true, conflicts_with = "no_run")]
    pub(super) run_it: bool,
    #[command(flatten)]
    pub(super) options: RunOptions,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::ANSWER, override_usage = "raymond answer [OPTIONS] [RUN] [ASK] <TEXT|->")]
pub(super) struct AnswerArgs {
    /// The run. It may be left out, with ASK, if only one question is open
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(runs_to_answer))]
    pub(super) first: Option<String>,
    /// Which question. It may be left out if the run has only one
    #[arg(value_name = "ASK")]
    pub(super) second: Option<String>,
    /// The answer; `-` reads it from stdin. One that begins with `-` is written behind `--`
    #[arg(value_name = "TEXT")]
    pub(super) third: Option<String>,
    /// Do not go on with a run that no process drives
    #[arg(long)]
    pub(super) no_resume: bool,
    /// Let the run go on in a process of its own
    #[arg(long, conflicts_with = "no_resume")]
    pub(super) detach: bool,
    /// Go on with the run if no process drives it, which is done anyway
    #[arg(long, hide = true, conflicts_with = "no_resume")]
    pub(super) resume: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::STOP)]
pub(super) struct StopArgs {
    /// The run; the only one that is running if left out
    #[arg(add = ArgValueCompleter::new(runs_to_stop))]
    pub(super) run: Option<String>,
    /// End running steps instead of letting them finish
    #[arg(long)]
    pub(super) now: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::RECORD)]
pub(super) struct RecordArgs {
    /// The run; the latest if left out
    #[arg(add = ArgValueCompleter::new(run_ids))]
    pub(super) run: Option<String>,
    /// The recording to write
    #[arg(short = 'o', long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::CONVERT)]
pub(super) struct ConvertArgs {
    /// The workflow: a folder, a .zip archive or a .yaml file
    #[arg(value_name = "IN", value_hint = ValueHint::AnyPath)]
    pub(super) from: PathBuf,
    /// Where to write it; a name that ends in .zip, .yaml or .yml says in which form, any other is a folder
    #[arg(short = 'o', long = "output", value_name = "OUT", value_hint = ValueHint::AnyPath)]
    pub(super) to: PathBuf,
    /// Replace what is there
    #[arg(long)]
    pub(super) force: bool,
    /// Pack the workflows that it calls, too
    #[arg(long)]
    pub(super) bundle: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples::DOCTOR)]
pub(super) struct DoctorArgs {
    /// Accept the settings of the project's config file that give power, so that they are tried here and used for all workflows
    #[arg(long)]
    pub(super) trust: bool,
    /// Ask the default backend's model for one word, which costs a fraction of a cent
    #[arg(long)]
    pub(super) ping: bool,
    /// Show the runs in .raymond that your Raymond has not made there, and ask whether they are to count; only the named ones
    /// if some are named
    #[arg(long, value_name = "RUN", num_args = 0.., conflicts_with_all = ["ping", "json"])]
    pub(super) adopt: Option<Vec<String>>,
    /// Agree to the cost of --ping, or to --adopt, without being asked
    #[arg(long)]
    pub(super) yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples::COMPLETIONS)]
pub(super) struct CompletionsArgs {
    /// Which shell reads the script
    #[arg(value_enum)]
    pub(super) shell: clap_complete::Shell,
}

/// The numbers of some steps in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Steps {
    pub(super) fn one(number: u64) -> Self {
        Self { first: number, last: number }
    }

    /// The number, if it is only one.
    pub(super) fn single(self) -> Option<u64> {
        (self.first == self.last).then_some(self.first)
    }

    pub(super) fn contain(self, number: u64) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

impl std::fmt::Display for Steps {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.single() {
            Some(number) => write!(out, "step {number}"),
            None => write!(out, "steps {} to {}", self.first, self.last),
        }
    }
}

impl std::str::FromStr for Steps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        let steps = match text.split_once("..") {
            None => number(text).map(Self::one),
            Some((first, last)) => number(first)
                .zip(number(last))
                .filter(|(first, last)| first <= last)
                .map(|(first, last)| Self { first, last }),
        };
        steps.ok_or_else(|| "give the number of a step, such as 7, or several, such as 3..7".to_owned())
    }
}

/// A budget as it is given on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Budget {
    Dollars(f64),
    /// So much more than there was.
    More(f64),
}

fn parse_budget(text: &str) -> Result<Budget, String> {
    let more = text.strip_prefix('+');
    let dollars: f64 = more
        .unwrap_or(text)
        .trim_start_matches('$')
        .parse()
        .map_err(|_| "give dollars, such as 2.50, or +2.50 for more than before".to_owned())?;
    // `parse` takes a second sign, too.
    if !dollars.is_finite() || dollars < 0.0 || text.starts_with("++") {
        return Err("a budget is a number of dollars from 0 on".to_owned());
    }
    Ok(if more.is_some() { Budget::More(dollars) } else { Budget::Dollars(dollars) })
}

fn parse_backends(text: &str) -> Result<String, String> {
    match config::lacks_a_name(text) {
        true => Err("the name of a backend is missing; `raymond doctor` lists them".to_owned()),
        false => parse_choice(text),
    }
}

/// How long the name of a model, an effort, or a list of backends may be.
const MAX_CHOICE_BYTES: usize = 1024;

/// A name that becomes an argument of another program.
fn parse_choice(text: &str) -> Result<String, String> {
    if text.len() > MAX_CHOICE_BYTES {
        return Err(format!("it is longer than {MAX_CHOICE_BYTES} bytes"));
    }
    match text.chars().any(char::is_control) {
        true => Err("it holds a control character".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn parse_status(text: &str) -> Result<String, String> {
    let status = text.replace([' ', '-'], "_");
    match STATUSES.contains(&status.as_str()) {
        true => Ok(status),
        false => Err(format!("a run is one of: {}", STATUSES.join(", "))),
    }
}

/// A duration before now, or a local day or time.
fn parse_since(text: &str) -> Result<jiff::Timestamp, String> {
    if let Ok(ago) = raymond_core::duration::parse(text) {
        let ago = jiff::SignedDuration::try_from(ago).unwrap_or(jiff::SignedDuration::MAX);
        return Ok(crate::clock::now().saturating_sub(ago).unwrap_or(jiff::Timestamp::MIN));
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time);
    }
    let local = text.parse::<jiff::civil::DateTime>().ok();
    let zoned = local.and_then(|time| time.to_zoned(crate::view::text::local_zone()).ok());
    zoned
        .map(|time| time.timestamp())
        .ok_or_else(|| "give a time such as 2h, 2026-01-31 or 2026-01-31T18:00".to_owned())
}

fn parse_count<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "give a whole number from 1 on".to_owned())
}

fn parse_set(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("an input is written NAME=VALUE".to_owned()),
    }
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is written KEY=VALUE")?;
    check_label(key, value)?;
    Ok((key.to_owned(), value.to_owned()))
}
