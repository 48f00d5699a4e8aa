//! Runs many tests side by side.

use std::rc::Rc;

use tokio::task::{JoinSet, LocalSet};

use super::file::{Test, TestFile};
use super::trial::{self, Bench, Outcome};
use crate::error::{ExitKind, UserError};

/// A test with its file.
#[derive(Clone, Debug)]
pub struct Case {
    pub file: Rc<TestFile>,
    /// Its number in the file.
    pub index: usize,
}

impl Case {
    pub fn test(&self) -> Option<&Test> {
        self.file.tests.get(self.index)
    }

    pub fn name(&self) -> &str {
        self.test().map_or("", |test| test.name.as_str())
    }

    /// The file and the name, as reports show it.
    pub fn title(&self) -> String {
        format!("{}: {}", self.file.path.display(), self.name())
    }
}

/// How all tests went, in their order.
#[derive(Debug)]
pub struct Ran {
    pub outcomes: Vec<Outcome>,
    /// Set if a signal ended it; the tests that had not ended are missing then.
    pub interrupted: Option<ExitKind>,
}

/// Runs all tests, at most `jobs` at the same time. Each outcome is shown when it is known.
pub fn run(
    bench: Bench,
    cases: &[Case],
    jobs: usize,
    mut show: impl FnMut(&Case, &Outcome),
) -> Result<Ran, UserError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| UserError::failed(format!("cannot start: {error}")))?;
    let bench = Rc::new(bench);
    let ran = LocalSet::new().block_on(&runtime, async {
        let mut signals = Signals::listen()?;
        let mut waiting = cases.iter().cloned().enumerate();
        let mut running: JoinSet<Outcome> = JoinSet::new();
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut interrupted = None;
        loop {
            while interrupted.is_none() && running.len() < jobs {
                let Some((number, case)) = waiting.next() else { break };
                let bench = Rc::clone(&bench);
                running.spawn_local(async move {
                    let test = case.test().cloned().unwrap_or_default();
                    trial::run(&bench, number, &case.file, &test).await
                });
            }
            tokio::select! {
                ended = running.join_next() => match ended {
                    None => break,
                    Some(Ok(outcome)) => {
                        if !outcome.is_stopped && let Some(case) = cases.get(outcome.number) {
                            show(case, &outcome);
                            outcomes.push(outcome);
                        }
                    }
                    Some(Err(error)) => return Err(UserError::failed(format!("a test was lost: {error}"))),
                },
                exit = signals.next() => {
                    interrupted = Some(exit);
                    bench.stop.trigger();
                }
            }
        }
        outcomes.sort_by_key(|outcome| outcome.number);
        Ok(Ran { outcomes, interrupted })
    });
    if !bench.keep {
        let _ = std::fs::remove_dir_all(&bench.base);
    }
    ran
}

/// Signals that end all tests.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Result<Self, UserError> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let cannot = |error| UserError::failed(format!("cannot listen for signals: {error}"));
            Ok(Self {
                interrupt: signal(SignalKind::interrupt()).map_err(cannot)?,
                terminate: signal(SignalKind::terminate()).map_err(cannot)?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    async fn next(&mut self) -> ExitKind {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => ExitKind::Interrupted,
            _ = self.terminate.recv() => ExitKind::Terminated,
        }
        #[cfg(not(unix))]
        {
            let _ = tokio::signal::ctrl_c().await;
            ExitKind::Interrupted
        }
    }
}
