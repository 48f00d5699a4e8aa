//! Shows a run that other machines carry out, until it is over or the user leaves it.

use std::pin::pin;
use std::time::Duration;

use raymond_core::evolve;
use raymond_core::run::Run;
use tokio::time::Instant;

use super::drive::{Manner, Shown};
use super::print::say;
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::fleet::mirror::Keeper;
use crate::run::driver::{STOP_MESSAGE, StopRequest};
use crate::store::{Elsewhere, Events, RunHandle, Silence, Start};
use crate::view::text::local_time;

/// How often the copy of a run that is followed is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long after the first Ctrl-C a second one stops the run.
const SECOND_THOUGHTS: Duration = Duration::from_secs(3);

/// How following a run has ended.
pub(super) enum Followed {
    Over(Box<Run>),
    /// The user has left; the run goes on, or is stopping.
    Left(ExitKind),
}

/// What Ctrl-C has led to so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// The run is left alone soon.
    Soon {
        since: Instant,
    },
    /// The run was asked to stop.
    Stops,
    /// Its running steps are ended.
    Ends,
    Now,
}

impl Leaving {
    fn after_ctrl_c(self) -> Self {
        match self {
            Self::No => Self::Soon { since: Instant::now() },
            Self::Soon { .. } => Self::Stops,
            Self::Stops => Self::Ends,
            Self::Ends | Self::Now => Self::Now,
        }
    }

    /// What the run is asked for: whether its steps are ended.
    fn stop(self) -> Option<bool> {
        match self {
            Self::Stops => Some(false),
            Self::Ends => Some(true),
            Self::No | Self::Soon { .. } | Self::Now => None,
        }
    }

    fn words(self) -> Option<&'static str> {
        match self {
            Self::Soon { .. } => Some("goes on elsewhere; Ctrl-C again stops it"),
            Self::Stops => Some("is asked to stop when its running steps are done; Ctrl-C again ends them"),
            Self::Ends => Some("is asked to end its running steps; Ctrl-C again leaves it"),
            Self::No | Self::Now => None,
        }
    }

    fn is_due(self) -> bool {
        match self {
            Self::Soon { since } => since.elapsed() > SECOND_THOUGHTS,
            Self::Now => true,
            Self::No | Self::Stops | Self::Ends => false,
        }
    }
}

/// A run on its way to the screen.
pub(super) struct Follower<'a> {
    run: &'a dyn RunHandle,
    keeper: &'a Keeper,
    /// Events up to this one are not shown.
    seen: u64,
    manner: Option<Manner>,
    state: Option<Run>,
    shown: Option<Shown>,
    events: Option<Box<dyn Events>>,
    leaving: Leaving,
    /// Why nothing is heard of the run, as the user was last told.
    silence: Option<Silence>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(run: &'a dyn RunHandle, keeper: &'a Keeper, seen: u64, manner: Manner) -> Self {
        Self {
            run,
            keeper,
            seen,
            manner: Some(manner),
            state: None,
            shown: None,
            events: None,
            leaving: Leaving::No,
            silence: None,
        }
    }

    pub(super) async fn follow(mut self) -> Result<Followed, UserError> {
        let mut told_to_end = pin!(told_to_end());
        let mut ctrl_c = Box::pin(tokio::signal::ctrl_c());
        loop {
            // Whether the run is over is read first: what came before that is read below.
            let is_over = self.keeper.is_done();
            self.show_what_is_new()?;
            self.tell_silence();
            if is_over {
                return self.over().await;
            }
            tokio::select! {
                _ = &mut ctrl_c => {
                    ctrl_c = Box::pin(tokio::signal::ctrl_c());
                    self.interrupted()?;
                }
                () = &mut told_to_end => return self.left(ExitKind::Terminated).await,
                () = stdin_ended(self.shown.as_ref()) => self.leave_questions(),
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            if self.leaving.is_due() {
                return self.left(ExitKind::Interrupted).await;
            }
        }
    }

    fn show_what_is_new(&mut self) -> Result<(), UserError> {
        if self.events.is_none() && self.run.load().is_ok() {
            self.events = Some(self.run.events(Start::After(0))?);
        }
        while let Some(batch) = self.events.as_mut().map(|events| events.next_batch()).transpose()?.flatten()
        {
            for event in &batch {
                self.state = evolve::evolve(self.state.take(), event);
            }
            let is_new = batch.last().is_some_and(|event| event.seq > self.seen);
            let Some(state) = self.state.as_ref().filter(|_| is_new) else { continue };
            if let Some(manner) = self.manner.take() {
                self.shown.insert(manner.views(state, self.run)).begin(state, &batch);
            } else if let Some(shown) = &mut self.shown {
                shown.go_on(state, &batch);
            }
        }
        Ok(())
    }

    /// Says why nothing is heard of the run, when that changes.
    fn tell_silence(&mut self) {
        let Some(mark) = self.run.elsewhere() else { return };
        if mark.silence == self.silence {
            return;
        }
        let id = self.run.id();
        let Elsewhere { engine, silence, seen_at, .. } = mark;
        let text = match &silence {
            Some(Silence::Workers(why)) => format!("{id} waits: {why}"),
            Some(Silence::Engine(why)) => {
                format!("{engine} does not answer: {why}; {id} is shown as it was at {}", local_time(seen_at))
            }
            Some(Silence::Copy(why)) => format!("{id} goes on, and its events cannot be copied: {why}"),
            Some(Silence::Wedged(why)) => format!("{id} is wedged: {why}"),
            None => format!("{id} is heard of again"),
        };
        self.silence = silence;
        self.say(&text);
    }

    fn interrupted(&mut self) -> Result<(), UserError> {
        if let Some(shown) = &mut self.shown {
            shown.stop_asking();
        }
        self.leaving = self.leaving.after_ctrl_c();
        if let Some(now) = self.leaving.stop() {
            let request = StopRequest::for_run(self.run, None, now);
            let content =
                serde_json::to_string(&request).map_err(|error| UserError::failed(error.to_string()))?;
            self.run.inbox().post(&request.name(), &content)?;
        }
        if let Some(words) = self.leaving.words() {
            self.say(&format!("{} {words}", self.run.id()));
        }
        Ok(())
    }

    /// stdin has ended, so answers have to come another way.
    fn leave_questions(&mut self) {
        if self.shown.as_mut().is_some_and(Shown::stop_asking) {
            let answer = advice::command(&format!("answer {} 'your answer'", self.run.id()));
            self.say(&format!("{} waits for an answer: {answer}", self.run.id()));
        }
    }

    fn say(&mut self, text: &str) {
        match &mut self.shown {
            Some(shown) => shown.say(text),
            None => say(text),
        }
    }

    async fn over(self) -> Result<Followed, UserError> {
        if let Some(shown) = self.shown {
            shown.finish().await;
        }
        let nothing = || UserError::failed(format!("nothing could be read of {}", self.run.id()));
        self.state.map(|state| Followed::Over(Box::new(state))).ok_or_else(nothing)
    }

    async fn left(self, exit: ExitKind) -> Result<Followed, UserError> {
        if let Some(shown) = self.shown {
            shown.finish().await;
        }
        let id = self.run.id();
        let again = advice::command(&format!("log --follow {id}"));
        let waiting = self.run.inbox().messages().unwrap_or_default();
        match self.leaving {
            Leaving::No | Leaving::Soon { .. } => say(&format!("{id} goes on; see it again with: {again}")),
            _ if waiting.iter().any(|message| message.name.starts_with(STOP_MESSAGE)) => say(&format!(
                "{id} goes on: its engine was not reached; the next command that reaches it asks {id} to stop"
            )),
            _ => say(&format!("{id} was asked to stop; see it again with: {again}")),
        }
        Ok(Followed::Left(exit))
    }
}

async fn stdin_ended(shown: Option<&Shown>) {
    match shown {
        Some(shown) => shown.stdin_ended().await,
        None => std::future::pending().await,
    }
}

/// Waits until this process is told to end, or its terminal is gone. The run goes on, and the terminal is left as it was.
#[cfg(unix)]
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let listening = (signal(SignalKind::terminate()), signal(SignalKind::hangup()));
    let (Ok(mut terminate), Ok(mut hangup)) = listening else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = hangup.recv(), if !crate::process::is_hangup_ignored() => {}
    }
}

#[cfg(not(unix))]
async fn told_to_end() {
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ctrl_c_goes_further() {
        let steps: Vec<Leaving> =
            std::iter::successors(Some(Leaving::No), |leaving| Some(leaving.after_ctrl_c()))
                .take(5)
                .collect();
        let stops: Vec<Option<bool>> = steps.iter().map(|leaving| leaving.stop()).collect();
        assert_eq!(stops, [None, None, Some(false), Some(true), None]);
        let due: Vec<bool> = steps.iter().map(|leaving| leaving.is_due()).collect();
        assert_eq!(due, [false, false, false, false, true]);
        let words: Vec<bool> = steps.iter().map(|leaving| leaving.words().is_some()).collect();
        assert_eq!(words, [false, true, true, true, false]);
    }
}
