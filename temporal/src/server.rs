//! What the server itself knows of a run, without any worker.

use jiff::Timestamp;
use raymond::fleet::Address;
use temporalio_client::errors::WorkflowInteractionError;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{IntoRequest, Request, Status};
use temporalio_client::{Client, NamespacedClient, WorkflowDescribeOptions, WorkflowExecutionStatus};
use temporalio_common::protos::temporal::api::common::v1::WorkflowExecution;
use temporalio_common::protos::temporal::api::enums::v1::{EventType, TaskQueueType};
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::history::v1::{
    HistoryEvent, WorkflowExecutionStartedEventAttributes,
};
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeTaskQueueRequest, GetWorkflowExecutionHistoryRequest,
};

use crate::fleet::in_patience;
use crate::machine::Machine;
use crate::messages::{From, Part, RunInput};
use crate::workflow::{RaymondRun, timestamp};

/// So many events of a history are looked at to see whether a worker has taken the run. Before that only messages come.
const FIRST_EVENTS: i32 = 200;

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
