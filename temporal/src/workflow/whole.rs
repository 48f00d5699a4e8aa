//! Decides about whole tasks of the workflow only.
//!
//! What comes to a run is decided in the groups that the tasks of its history make: all ends, messages and timers before a
//! task, at that task's time. Whoever decides the history again finds these groups. But a question that the server hands to a
//! worker without the run in its memory brings all of the history, with events that have no task yet. The SDK has them decided
//! at once, at the time of the task before, in a group that no history tells: messages and ends in another order, and some of
//! them apart from others. The commands that this leads to are sent with the next task, and another worker that decides the
//! history again finds that they do not belong to it. The run would be wedged for ever.
//!
//! So such a part of a task is not decided. The question fails, the worker forgets the run, and reads it anew with its next
//! task. The one who asks does so again.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::SystemTime;

use temporalio_sdk::WorkflowContext;

use super::RaymondRun;

/// What a question fails with that comes between an event and the task for it.
pub const NOT_DECIDED: &str = "the run has not decided yet about all that has happened";

/// The task that is decided now.
#[derive(Default)]
struct Task {
    /// When it began. Only the beginning of a task moves the time of a workflow on.
    time: Option<SystemTime>,
    /// How long the history was then.
    length: u32,
}

impl Task {
    /// Whether what came is a part of a later task. A history that is decided again tells whole tasks only. If the server's clock
    /// was set back, a task counts as a part until that time has passed: it is tried again until then.
    fn is_before(&mut self, time: Option<SystemTime>, length: u32, is_decided_again: bool) -> bool {
        if time == self.time && length > self.length && !is_decided_again {
            return true;
        }
        *self = Self { time, length };
        false
    }
}

/// Goes on with what a run does, whenever a whole task has come.
pub async fn in_whole_tasks<T>(ctx: &WorkflowContext<RaymondRun>, course: impl Future<Output = T>) -> T {
    let (mut course, mut task) = (pin!(course), Task::default());
    poll_fn(|context| {
        if task.is_before(ctx.workflow_time(), ctx.history_length(), ctx.is_replaying()) {
            ctx.force_task_fail(NOT_DECIDED);
            return Poll::Pending;
        }
        course.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn events_behind_a_task_are_a_part_of_the_next_one() {
        let at = |seconds: u64| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let mut task = Task::default();
        for (time, length, is_decided_again, is_before) in [
            (at(1), 3, false, false),
            // The same task goes on, with what its own commands led to.
            (at(1), 3, false, false),
            (at(1), 7, false, true),
            (at(1), 9, false, true),
            (at(2), 10, false, false),
            // The clock was set back between these two.
            (at(2), 14, true, false),
            (at(2), 14, false, false),
        ] {
            assert_eq!(task.is_before(time, length, is_decided_again), is_before, "{length}");
        }
    }
}
