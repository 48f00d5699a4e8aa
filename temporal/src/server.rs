//! What the server itself knows of a run, without any worker.

use jiff::Timestamp;
use raymond::fleet::Address;
use temporalio_client::errors::WorkflowInteractionError;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{IntoRequest, Request, Status};
use temporalio_client::{Client, NamespacedClient, WorkflowDescribeOptions, WorkflowExecutionStatus};
use temporalio_common::protos::temporal::api::common::v1::WorkflowExecution;
use temporalio_common::protos::temporal::api::enums::v1::{
    EventType, TaskQueueType, WorkflowTaskFailedCause,
};
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::history::v1::{
    HistoryEvent, WorkflowExecutionStartedEventAttributes, WorkflowTaskFailedEventAttributes,
};
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeTaskQueueRequest, DescribeWorkflowExecutionRequest, GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryReverseRequest,
};

use crate::fleet::in_patience;
use crate::machine::Machine;
use crate::messages::{From, Part, RunInput};
use crate::workflow::{RaymondRun, timestamp};

/// So many events of a history are looked at to see whether a worker has taken the run. Before that only messages come.
const FIRST_EVENTS: i32 = 200;

/// So many of the last events of a history are looked at to see why its last task has failed.
const LAST_EVENTS: i32 = 50;
/// A task that fails so often fails always, whatever the cause.
const HOPELESS_ATTEMPT: i32 = 3;

/// Whether a worker reads the queue of runs, or has done so lately.
pub async fn is_queue_read(client: &Client, at: &Address) -> Result<bool, Status> {
    let request = DescribeTaskQueueRequest {
        namespace: client.namespace(),
        task_queue: Some(TaskQueue { name: at.queue.clone(), ..TaskQueue::default() }),
        task_queue_type: TaskQueueType::Workflow as i32,
        ..DescribeTaskQueueRequest::default()
    };
    let told = client.clone().describe_task_queue(in_time(request)).await?;
    Ok(!told.into_inner().pollers.is_empty())
}

/// How a run stands with the server; nothing if the server does not know it.
pub async fn status_of(
    client: &Client,
    run: &str,
) -> Result<Option<WorkflowExecutionStatus>, WorkflowInteractionError> {
    let handle = client.get_workflow_handle::<RaymondRun>(run);
    let options = WorkflowDescribeOptions::builder().rpc_options(in_patience()).build();
    match handle.describe(options).await {
        Ok(described) => Ok(Some(described.status())),
        Err(WorkflowInteractionError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How the server has ended a run without asking it, in words; nothing if it did not.
pub fn ended_how(status: Option<WorkflowExecutionStatus>) -> Option<&'static str> {
    match status {
        None => Some("is not there any more"),
        Some(WorkflowExecutionStatus::Failed) => Some("has failed"),
        Some(WorkflowExecutionStatus::Canceled) => Some("was cancelled"),
        Some(WorkflowExecutionStatus::Terminated) => Some("was terminated"),
        Some(WorkflowExecutionStatus::TimedOut) => Some("has timed out"),
        Some(_) => None,
    }
}

/// Why the server cannot have a run decided any further: its last task has failed, and fails again whenever it is tried. Nothing
/// if it can. A task that was only not taken up in time says nothing about the run.
pub async fn why_wedged(client: &Client, run: &str) -> Result<Option<String>, Status> {
    let execution = Some(WorkflowExecution { workflow_id: run.to_owned(), ..WorkflowExecution::default() });
    let request =
        DescribeWorkflowExecutionRequest { namespace: client.namespace(), execution: execution.clone() };
    let described = client.clone().describe_workflow_execution(in_time(request)).await?.into_inner();
    let attempt = described.pending_workflow_task.map_or(0, |task| task.attempt);
    if attempt < 2 {
        return Ok(None);
    }
    let request = GetWorkflowExecutionHistoryReverseRequest {
        namespace: client.namespace(),
        execution,
        maximum_page_size: LAST_EVENTS,
        ..GetWorkflowExecutionHistoryReverseRequest::default()
    };
    let told = client.clone().get_workflow_execution_history_reverse(in_time(request)).await?.into_inner();
    let last = told.history.unwrap_or_default().events.into_iter();
    let failed =
        last.take_while(|event| event.event_type() != EventType::WorkflowTaskCompleted).find_map(|event| {
            match event.attributes {
                Some(Attributes::WorkflowTaskFailedEventAttributes(failed)) => Some(failed),
                _ => None,
            }
        });
    Ok(failed.and_then(|failed| why_hopeless(&failed, attempt)))
}

/// Why a task that has failed like this is no use to try again. One that contradicts its history always does. Others may have had
/// another cause: a worker that was ended, or a question that came between an event and its task.
fn why_hopeless(failed: &WorkflowTaskFailedEventAttributes, attempt: i32) -> Option<String> {
    let is_certain = failed.cause() == WorkflowTaskFailedCause::NonDeterministicError;
    let why = failed.failure.as_ref().map_or("", |failure| failure.message.as_str());
    (is_certain || attempt >= HOPELESS_ATTEMPT).then(|| format!("what is next cannot be decided: {why}"))
}

/// Whether no worker has ever decided about a run, so that nothing of it has been done.
pub async fn is_untaken(client: &Client, run: &str) -> Result<bool, Status> {
    let (events, has_more) = first_events(client, run, "", FIRST_EVENTS).await?;
    Ok(!has_more && !events.iter().any(shows_a_decision))
}

/// Whether an event of a run's latest history shows that a worker has decided about the run. A history that continues an
/// earlier one begins because of a decision, and has none of its own until a worker takes it up.
fn shows_a_decision(event: &HistoryEvent) -> bool {
    match &event.attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
            !started.continued_execution_run_id.is_empty()
        }
        _ => event.event_type == EventType::WorkflowTaskCompleted as i32,
    }
}

/// The first part of a run's journal, exactly as a worker tells it: it follows from what the run was started with.
pub async fn opening(client: &Client, run: &str) -> anyhow::Result<Part> {
    let (mut time, mut started) = start_of(client, run, "").await?;
    let mut input = input_of(&started)?;
    if let From::Snapshot(_) = input.1 {
        (time, started) = start_of(client, run, &started.first_execution_run_id).await?;
        input = input_of(&started)?;
    }
    let (settings, from) = input;
    Ok(Machine::new(run, time, settings, from)?.journal_after(0).0)
}

fn input_of(
    started: &WorkflowExecutionStartedEventAttributes,
) -> anyhow::Result<(crate::messages::Settings, From)> {
    let payloads = started.input.as_ref().map(|input| input.payloads.as_slice()).unwrap_or_default();
    let [payload] = payloads else { anyhow::bail!("the run was not started by this program") };
    let RunInput { settings, from } = serde_json::from_slice(&payload.data)?;
    Ok((settings, from.open()?))
}

/// When a history began, and with what.
async fn start_of(
    client: &Client,
    run: &str,
    history: &str,
) -> anyhow::Result<(Timestamp, Box<WorkflowExecutionStartedEventAttributes>)> {
    let (events, _) = first_events(client, run, history, 1).await?;
    match events.into_iter().next() {
        Some(HistoryEvent {
            event_time,
            attributes: Some(Attributes::WorkflowExecutionStartedEventAttributes(started)),
            ..
        }) => Ok((timestamp(event_time.and_then(|time| time.try_into().ok())), Box::new(started))),
        _ => anyhow::bail!("the history of the run has no beginning"),
    }
}

/// The first events of one history of a run, of the latest if none is named, and whether there are more.
async fn first_events(
    client: &Client,
    run: &str,
    history: &str,
    most: i32,
) -> Result<(Vec<HistoryEvent>, bool), Status> {
    let request = GetWorkflowExecutionHistoryRequest {
        namespace: client.namespace(),
        execution: Some(WorkflowExecution { workflow_id: run.to_owned(), run_id: history.to_owned() }),
        maximum_page_size: most,
        ..GetWorkflowExecutionHistoryRequest::default()
    };
    let page = client.clone().get_workflow_execution_history(in_time(request)).await?.into_inner();
    Ok((page.history.unwrap_or_default().events, !page.next_page_token.is_empty()))
}

fn in_time<T>(request: T) -> Request<T> {
    let mut request = request.into_request();
    request.set_timeout(raymond::fleet::PATIENCE);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first event of a history that continues another one, or none.
    fn start(continued: &str) -> HistoryEvent {
        let started = WorkflowExecutionStartedEventAttributes {
            continued_execution_run_id: continued.to_owned(),
            ..WorkflowExecutionStartedEventAttributes::default()
        };
        HistoryEvent {
            event_type: EventType::WorkflowExecutionStarted as i32,
            attributes: Some(Attributes::WorkflowExecutionStartedEventAttributes(started)),
            ..HistoryEvent::default()
        }
    }

    fn event(kind: EventType) -> HistoryEvent {
        HistoryEvent { event_type: kind as i32, ..HistoryEvent::default() }
    }

    /// `stop --now` ends such a run for good.
    #[test]
    fn a_run_that_continues_with_a_new_history_was_taken_by_a_worker() {
        let signal = || event(EventType::WorkflowExecutionSignaled);
        let decided = event(EventType::WorkflowTaskCompleted);
        for (history, is_taken) in [
            (vec![start(""), signal()], false),
            (vec![start(""), signal(), decided], true),
            (vec![start("an earlier history"), signal()], true),
        ] {
            assert_eq!(history.iter().any(shows_a_decision), is_taken, "{history:?}");
        }
    }
}
