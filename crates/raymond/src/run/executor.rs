//! The executor of steps: the seam between a run and the place where its programs run.

use raymond_core::name::AgentId;

use super::job::StepJob;

/// Carries out attempts at steps. Each is started from a self-contained [`StepJob`], and reports its end once, as an
/// [`Input::Ended`](raymond_core::input::Input::Ended) through the mailbox. Names in its output are not looked up: that is
/// done where the workflows are.
pub trait Executor {
    /// Starts an attempt whose start is recorded.
    fn start(&mut self, job: StepJob);

    /// Ends an attempt before its time; it then reports that it was interrupted.
    fn cancel(&self, agent: &AgentId);

    /// A signal told Raymond to stop. An attempt whose program the same signal has ended reports that it was
    /// interrupted.
    fn announce_stop(&self);

    /// The end of the agent's attempt is recorded. Nothing that a failed attempt started may stay behind.
    fn recorded(&mut self, agent: &AgentId, end: RecordedEnd);

    /// Suspends this process together with all programs of running attempts, until this process is continued.
    fn suspend(&self);

    /// Whether attempts are still running.
    fn is_busy(&self) -> bool;

    /// Waits until nothing is left of failed attempts.
    fn settle(&mut self) -> impl Future<Output = ()>;
}

/// How an attempt's end was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedEnd {
    /// As a success, or as a failure that is tried again.
    Kept,
    Failed,
}
