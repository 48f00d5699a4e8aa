//! `raymond test`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use super::args::author::{TestArgs, TestFormat};
use super::print::{cannot_write, print_stdout, say};
use crate::check::coverage::{Coverage, measure};
use crate::check::file::{BadFile, TestFile, load};
use crate::check::find::test_files;
use crate::check::report::{self, Report};
use crate::check::suite::{self, Case, Ran};
use crate::check::trial::Bench;
use crate::error::{ExitKind, UserError};
use crate::files;
use crate::process::{Reaper, StopSignal};

pub(super) fn test(args: TestArgs) -> Result<ExitKind, UserError> {
    let began = Instant::now();
    let (files, bad) = load_all(&args)?;
    for bad in &bad {
        say(&format!("error: {bad}"));
    }
    if !bad.is_empty() && !args.no_fail_fast {
        let number = if bad.len() == 1 {
            "a test file is wrong".to_owned()
        } else {
            format!("{} test files are wrong", bad.len())
        };
        return Err(UserError::usage(format!("{number}; nothing was run"))
            .hint("to run the tests in the other files all the same: --no-fail-fast"));
    }
    let cases = chosen(&files, args.filter.as_deref());
    if cases.is_empty() && bad.is_empty() {
        return Err(nothing_found(&args));
    }
    let ran = run(&args, &cases)?;
    let coverage = (args.coverage.is_some() || args.min_coverage.is_some()).then(|| covered(&files, &ran));
    if let (Some(coverage), Some(Some(file))) = (&coverage, &args.coverage) {
        write_coverage(coverage, file)?;
    }
    let report = Report {
        cases: &cases,
        ran: &ran,
        bad: &bad,
        coverage: coverage.as_ref(),
        duration: began.elapsed(),
    };
    match args.format {
        TestFormat::Text => print(&format!("{}{}", report::failures(&report), report::summary(&report)))?,
        TestFormat::Json => print_stdout(report::json(&report).as_bytes())?,
        TestFormat::Junit => print_stdout(report::junit(&report).as_bytes())?,
    }
    Ok(exit(&report, args.min_coverage))
}

fn exit(report: &Report<'_>, min_coverage: Option<f64>) -> ExitKind {
    if let Some(interrupted) = report.ran.interrupted {
        return interrupted;
    }
    if !report.bad.is_empty() {
        return ExitKind::Usage;
    }
    let low =
        min_coverage.filter(|percent| report.coverage.is_some_and(|coverage| !coverage.reaches(*percent)));
    if let Some(percent) = low {
        say(&format!("the coverage of states or of transitions is below {percent}%"));
    }
    match report.failed() > 0 || low.is_some() {
        true => ExitKind::Failed,
        false => ExitKind::Completed,
    }
}

fn load_all(args: &TestArgs) -> Result<(Vec<Rc<TestFile>>, Vec<BadFile>), UserError> {
    let mut files = Vec::new();
    let mut bad = Vec::new();
    for path in test_files(&args.paths)? {
        match load(&path) {
            Ok(file) => files.push(Rc::new(file)),
            Err(fault) => bad.push(fault),
        }
    }
    Ok((files, bad))
}

fn chosen(files: &[Rc<TestFile>], filter: Option<&str>) -> Vec<Case> {
    let all = files
        .iter()
        .flat_map(|file| (0..file.tests.len()).map(|index| Case { file: Rc::clone(file), index }));
    all.filter(|case| filter.is_none_or(|text| case.title().contains(text))).collect()
}

fn nothing_found(args: &TestArgs) -> UserError {
    match &args.filter {
        Some(text) => UserError::usage(format!("no test has `{}` in its file or name", text.escape_debug())),
        None => {
            let paths: Vec<String> = args.paths.iter().map(|path| path.display().to_string()).collect();
            UserError::usage(format!("there are no tests at or below {}", paths.join(", ")))
                .hint("the names of test files end in .test.yaml; `raymond init` writes one")
        }
    }
}

fn run(args: &TestArgs, cases: &[Case]) -> Result<Ran, UserError> {
    crate::process::raise_file_limit();
    let raymond = std::env::current_exe()
        .map_err(|error| UserError::failed(format!("cannot find this program: {error}")))?;
    let base = std::env::temp_dir().join(format!("raymond-test-{}", uuid::Uuid::new_v4().simple()));
    files::create_private_folders(&base)
        .map_err(|error| UserError::failed(format!("cannot make {}: {error}", base.display())))?;
    let reaper = Reaper::start()
        .map_err(|error| UserError::failed(format!("cannot watch over processes: {error}")))?;
    let bench = Bench {
        raymond,
        base,
        reaper,
        stop: StopSignal::new(),
        keep: args.keep,
        updates_recordings: args.update_recordings,
    };
    let jobs = args.jobs.map_or_else(default_jobs, usize::from);
    suite::run(bench, cases, jobs, |case, outcome| {
        let line = report::progress(case, outcome);
        // A closed pipe does not stop the tests.
        let _ = match args.format {
            TestFormat::Text => print(&line),
            TestFormat::Json | TestFormat::Junit => {
                write!(anstream::stderr(), "{line}").map_err(|error| cannot_write(&error))
            }
        };
    })
}

/// A test waits for programs most of the time.
fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from) + 1
}

fn covered(files: &[Rc<TestFile>], ran: &Ran) -> Coverage {
    let mut workflows: Vec<PathBuf> = files.iter().map(|file| tidy(&file.workflow)).collect();
    workflows.sort();
    workflows.dedup();
    measure(&workflows, ran.outcomes.iter().flat_map(|outcome| &outcome.taken))
}

/// The path without `.` parts, which a person would not write.
fn tidy(path: &Path) -> PathBuf {
    let tidy: PathBuf = path.components().filter(|part| *part != std::path::Component::CurDir).collect();
    if tidy.as_os_str().is_empty() { PathBuf::from(".") } else { tidy }
}

fn write_coverage(coverage: &Coverage, file: &Path) -> Result<(), UserError> {
    let mut text = serde_json::to_string_pretty(coverage).unwrap_or_default();
    text.push('\n');
    crate::files::write_output(file, text.as_bytes())
        .map_err(|error| UserError::usage(format!("cannot write {}: {error}", file.display())))
}

fn print(text: &str) -> Result<(), UserError> {
    let mut stdout = anstream::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(cannot_write(&error)),
        _ => Ok(()),
    }
}
