//! Runs whose tasks come in parts: a question that the server hands to a worker without the run in its memory brings events
//! that have no task yet. Recorded histories are played to a worker as a server would, task by task, with such questions at any
//! place between the tasks. The worker must decide as the history tells, which all workers find again.
//!
//! `RAYMOND_SEEDS=5000` plays so many, each with other places.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use prost::Message;
use raymond_temporal::workflow::{NOT_DECIDED, RaymondRun};
use temporalio_client::callback_based::{CallbackBasedGrpcService, GrpcRequest, GrpcSuccessResponse};
use temporalio_client::tonic::Status;
use temporalio_client::{Client, ClientOptions, Connection, ConnectionOptions};
use temporalio_common::protos::temporal::api::command::v1::Command;
use temporalio_common::protos::temporal::api::command::v1::command::Attributes as Ordered;
use temporalio_common::protos::temporal::api::common::v1::{
    Payload, Payloads, WorkflowExecution, WorkflowType,
};
use temporalio_common::protos::temporal::api::enums::v1::EventType;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes as Told;
use temporalio_common::protos::temporal::api::history::v1::{History, HistoryEvent};
use temporalio_common::protos::temporal::api::query::v1::WorkflowQuery;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::get_system_info_response::Capabilities;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeNamespaceResponse, GetSystemInfoResponse, GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryResponse, PollWorkflowTaskQueueResponse, RespondQueryTaskCompletedRequest,
    RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskCompletedResponse,
    RespondWorkflowTaskFailedRequest, RespondWorkflowTaskFailedResponse,
};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::sync::Notify;

/// The histories that the newest rules decide. In `claims`, four agents get their machines before one task, and not in the order in
/// which they were begun.
const HISTORIES: [&str; 7] =
    ["claims", "whole-2", "first-2", "continued-2", "texts-2", "stored-2", "waits-2"];
/// How many seeds are played unless `RAYMOND_SEEDS` asks for others.
const SEEDS: usize = 70;
/// How many runs are played at the same time.
const AT_ONCE: usize = 40;
/// How long a played run may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }
}

/// A history that is played.
struct Recorded {
    name: &'static str,
    events: Vec<HistoryEvent>,
    /// Where its tasks begin that were completed: the places of these events.
    tasks: Vec<usize>,
}

impl Recorded {
    fn read(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/histories/{name}.json"));
        let history: History = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let events = history.events;
        let begins = |at: &usize| {
            events[*at].event_type() == EventType::WorkflowTaskStarted
                && events
                    .get(at + 1)
                    .is_some_and(|next| next.event_type() == EventType::WorkflowTaskCompleted)
        };
        let tasks = (0..events.len()).filter(begins).collect();
        Self { name, events, tasks }
    }

    /// What the task at this place has ordered.
    fn ordered_by(&self, task: usize) -> Vec<String> {
        let completed = self.events[self.tasks[task] + 1].event_id;
        self.events.iter().filter_map(|event| ordered_in(event, completed)).collect()
    }

    fn up_to(&self, end: usize) -> History {
        History { events: self.events[..=end].to_vec() }
    }
}

/// What an event says that a task has ordered.
fn ordered_in(event: &HistoryEvent, by: i64) -> Option<String> {
    let (task, text) = match event.attributes.as_ref()? {
        Told::ActivityTaskScheduledEventAttributes(a) => {
            (a.workflow_task_completed_event_id, format!("activity {}", a.activity_id))
        }
        Told::ActivityTaskCancelRequestedEventAttributes(a) => {
            (a.workflow_task_completed_event_id, format!("cancel {}", a.scheduled_event_id))
        }
        Told::TimerStartedEventAttributes(a) => {
            (a.workflow_task_completed_event_id, format!("timer {}", a.timer_id))
        }
        Told::TimerCanceledEventAttributes(a) => {
            (a.workflow_task_completed_event_id, format!("no timer {}", a.timer_id))
        }
        Told::WorkflowExecutionCompletedEventAttributes(a) => {
            (a.workflow_task_completed_event_id, "end".to_owned())
        }
        Told::WorkflowExecutionContinuedAsNewEventAttributes(a) => {
            (a.workflow_task_completed_event_id, "another history".to_owned())
        }
        _ => return None,
    };
    (task == by).then_some(text)
}

/// What a command orders.
fn ordered(command: &Command) -> Option<String> {
    Some(match command.attributes.as_ref()? {
        Ordered::ScheduleActivityTaskCommandAttributes(a) => format!("activity {}", a.activity_id),
        Ordered::RequestCancelActivityTaskCommandAttributes(a) => format!("cancel {}", a.scheduled_event_id),
        Ordered::StartTimerCommandAttributes(a) => format!("timer {}", a.timer_id),
        Ordered::CancelTimerCommandAttributes(a) => format!("no timer {}", a.timer_id),
        Ordered::CompleteWorkflowExecutionCommandAttributes(_) => "end".to_owned(),
        Ordered::ContinueAsNewWorkflowExecutionCommandAttributes(_) => "another history".to_owned(),
        _ => return None,
    })
}

/// A run that is played.
struct Play {
    recorded: Arc<Recorded>,
    seed: u64,
    dice: Dice,
    /// The task that comes next, or is with the worker.
    task: usize,
    /// The last event that a question has brought.
    asked_up_to: usize,
    /// What the worker got last, which it answers once.
    handed: Option<usize>,
    /// How much it has got.
    count: usize,
}

impl Play {
    fn new(recorded: &Arc<Recorded>, seed: u64) -> Self {
        Self {
            recorded: Arc::clone(recorded),
            seed,
            dice: Dice(seed),
            task: 0,
            asked_up_to: 0,
            handed: None,
            count: 0,
        }
    }

    /// What the worker gets next: a question between two tasks, or a task.
    fn next(&mut self, run: usize) -> PollWorkflowTaskQueueResponse {
        let begins = self.recorded.tasks[self.task];
        let before = self.task.checked_sub(1).map(|last| self.recorded.tasks[last]);
        // All that the last task has ordered is there when a question is.
        let asked_from = before.map(|last| {
            let completed = self.recorded.events[last + 1].event_id;
            let own = |at: &usize| ordered_in(&self.recorded.events[*at], completed).is_some();
            (last..begins).filter(own).max().unwrap_or(last + 1).max(self.asked_up_to)
        });
        if let Some(from) = asked_from.filter(|from| *from < begins)
            && self.dice.below(3) > 0
        {
            self.asked_up_to = from + self.dice.below(begins - from);
            if self.asked_up_to > from || self.dice.below(2) == 0 {
                return self.message(run, true, self.recorded.up_to(self.asked_up_to), before);
            }
        }
        self.asked_up_to = 0;
        let mut history = self.recorded.up_to(begins);
        // A worker that seems to have the run in its memory gets only what is new.
        if let Some(before) = before.filter(|_| self.dice.below(2) == 0) {
            history.events.drain(..=before);
        }
        self.message(run, false, history, before)
    }

    fn message(
        &mut self,
        run: usize,
        is_question: bool,
        history: History,
        before: Option<usize>,
    ) -> PollWorkflowTaskQueueResponse {
        self.count += 1;
        self.handed = Some(self.count);
        let id_of = |at: usize| self.recorded.events[at].event_id;
        let after = Payload {
            metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
            data: b"0".to_vec(),
            ..Payload::default()
        };
        let question = WorkflowQuery {
            query_type: "news".to_owned(),
            query_args: Some(Payloads { payloads: vec![after] }),
            ..WorkflowQuery::default()
        };
        PollWorkflowTaskQueueResponse {
            task_token: format!("{run} {}", self.count).into_bytes(),
            workflow_execution: Some(execution(run)),
            workflow_type: Some(WorkflowType { name: "raymond_run".to_owned() }),
            workflow_execution_task_queue: Some(TaskQueue { name: "q".to_owned(), ..TaskQueue::default() }),
            previous_started_event_id: before.map_or(0, id_of),
            started_event_id: if is_question { 0 } else { id_of(self.recorded.tasks[self.task]) },
            attempt: 1,
            history: Some(history),
            query: is_question.then_some(question),
            ..PollWorkflowTaskQueueResponse::default()
        }
    }
}

fn execution(run: usize) -> WorkflowExecution {
    WorkflowExecution { workflow_id: format!("run{run}"), run_id: format!("history{run}") }
}

/// The numbers of a run and of what it was handed.
fn numbers_in(token: &[u8]) -> (usize, usize) {
    let (run, handed) = std::str::from_utf8(token).unwrap().split_once(' ').unwrap();
    (run.parse().unwrap(), handed.parse().unwrap())
}

/// The server as a worker sees it.
#[derive(Default)]
struct Server {
    plays: Mutex<Vec<Play>>,
    ready: Mutex<VecDeque<PollWorkflowTaskQueueResponse>>,
    has_some: Notify,
    /// What went wrong, and which runs have not ended.
    troubles: Mutex<Vec<String>>,
    open: Mutex<BTreeSet<usize>>,
    /// How many questions came before the run had decided.
    refused: Mutex<usize>,
    is_over: Notify,
}

impl Server {
    fn hand_out(&self, run: usize) {
        let next = self.plays.lock().unwrap()[run].next(run);
        self.ready.lock().unwrap().push_back(next);
        self.has_some.notify_one();
    }

    /// A run is over.
    fn end(&self, run: usize) {
        let mut open = self.open.lock().unwrap();
        open.remove(&run);
        if open.is_empty() {
            self.is_over.notify_one();
        }
    }

    /// The run that this answer is for. An answer that comes once more is for none.
    fn answered(&self, token: &[u8]) -> Result<usize, Status> {
        let (run, handed) = numbers_in(token);
        let is_awaited = self.plays.lock().unwrap()[run].handed.take_if(|last| *last == handed).is_some();
        if is_awaited { Ok(run) } else { Err(Status::not_found("this was answered")) }
    }

    fn trouble(&self, run: usize, text: &str) {
        let plays = self.plays.lock().unwrap();
        let Play { recorded, seed, task, .. } = &plays[run];
        let event = recorded.events[recorded.tasks[*task]].event_id;
        let text = format!("{text} (asked up to {})", plays[run].asked_up_to);
        self.troubles
            .lock()
            .unwrap()
            .push(format!("{} with seed {seed} at event {event}: {text}", recorded.name));
    }

    fn completed(&self, run: usize, request: &RespondWorkflowTaskCompletedRequest) {
        let commands: Vec<String> = request.commands.iter().filter_map(ordered).collect();
        let (expected, is_last) = {
            let mut plays = self.plays.lock().unwrap();
            let play = &mut plays[run];
            let expected = play.recorded.ordered_by(play.task);
            let is_last = play.task + 1 == play.recorded.tasks.len();
            if expected == commands && !is_last {
                play.task += 1;
            }
            (expected, is_last)
        };
        if expected != commands {
            self.trouble(run, &format!("{commands:?} instead of {expected:?}"));
        } else if !is_last {
            return self.hand_out(run);
        }
        self.end(run);
    }

    async fn answer(&self, request: GrpcRequest) -> Result<Vec<u8>, Status> {
        match request.rpc.as_str() {
            "GetSystemInfo" => {
                let capabilities = Some(Capabilities { sdk_metadata: true, ..Capabilities::default() });
                Ok(GetSystemInfoResponse { capabilities, ..Default::default() }.encode_to_vec())
            }
            "DescribeNamespace" => Ok(DescribeNamespaceResponse::default().encode_to_vec()),
            "PollWorkflowTaskQueue" => loop {
                let next = self.ready.lock().unwrap().pop_front();
                if let Some(next) = next {
                    // There may be one for the next that asks.
                    self.has_some.notify_one();
                    return Ok(next.encode_to_vec());
                }
                self.has_some.notified().await;
            },
            "GetWorkflowExecutionHistory" => {
                let request = GetWorkflowExecutionHistoryRequest::decode(request.proto).unwrap();
                let id = request.execution.unwrap().workflow_id;
                let run: usize = id.strip_prefix("run").unwrap().parse().unwrap();
                let plays = self.plays.lock().unwrap();
                let history = Some(plays[run].recorded.up_to(plays[run].recorded.tasks[plays[run].task]));
                Ok(GetWorkflowExecutionHistoryResponse { history, ..Default::default() }.encode_to_vec())
            }
            "RespondWorkflowTaskCompleted" => {
                let request = RespondWorkflowTaskCompletedRequest::decode(request.proto).unwrap();
                self.completed(self.answered(&request.task_token)?, &request);
                Ok(RespondWorkflowTaskCompletedResponse::default().encode_to_vec())
            }
            "RespondWorkflowTaskFailed" => {
                let request = RespondWorkflowTaskFailedRequest::decode(request.proto).unwrap();
                let run = self.answered(&request.task_token)?;
                self.trouble(
                    run,
                    &format!("the task failed: {:?}", request.failure.map(|failure| failure.message)),
                );
                self.end(run);
                Ok(RespondWorkflowTaskFailedResponse::default().encode_to_vec())
            }
            "RespondQueryTaskCompleted" => {
                let request = RespondQueryTaskCompletedRequest::decode(request.proto).unwrap();
                let run = self.answered(&request.task_token)?;
                match request.error_message.as_str() {
                    "" => {}
                    text if text.contains(NOT_DECIDED) => *self.refused.lock().unwrap() += 1,
                    other => self.trouble(run, &format!("a question failed: {other}")),
                }
                self.hand_out(run);
                Ok(Vec::new())
            }
            // There is nothing else for a worker to do.
            poll if poll.starts_with("Poll") => std::future::pending().await,
            _ => Err(Status::unimplemented("only tasks of workflows are played")),
        }
    }
}

async fn client_of(server: &Arc<Server>) -> Client {
    let server = Arc::clone(server);
    let callback = move |request: GrpcRequest| {
        let server = Arc::clone(&server);
        let answer = async move {
            let proto = server.answer(request).await?;
            Ok(GrpcSuccessResponse { headers: Default::default(), proto })
        };
        answer.boxed()
    };
    let service = CallbackBasedGrpcService { callback: Arc::new(callback) };
    let options = ConnectionOptions::new(url::Url::parse("http://played").unwrap())
        .identity("test")
        .service_override(service)
        .dns_load_balancing(None)
        .build();
    let connection = Connection::connect(options).await.unwrap();
    Client::new(connection, ClientOptions::new("default").build()).unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn a_run_decides_as_its_history_tells_however_its_tasks_come_in_parts() {
    let recorded = HISTORIES.map(|name| Arc::new(Recorded::read(name)));
    let asked = std::env::var("RAYMOND_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds = asked.unwrap_or(SEEDS);
    let server = Arc::new(Server::default());
    for run in 0..seeds {
        let play = Play::new(&recorded[run % recorded.len()], run as u64);
        server.plays.lock().unwrap().push(play);
    }
    let client = client_of(&server).await;
    let runtime = Runtime::from_current_tokio(Default::default()).unwrap();
    let options = WorkerOptions::new("q").register_workflow::<RaymondRun>().unwrap().build();
    let mut worker = Worker::new(&runtime, client, options).unwrap();
    let played = async {
        for first in (0..seeds).step_by(AT_ONCE) {
            let runs = first..seeds.min(first + AT_ONCE);
            *server.open.lock().unwrap() = runs.clone().collect();
            runs.for_each(|run| server.hand_out(run));
            if tokio::time::timeout(LIMIT, server.is_over.notified()).await.is_err() {
                let open = server.open.lock().unwrap().clone();
                open.into_iter().for_each(|run| server.trouble(run, "nothing came of it"));
                return;
            }
        }
    };
    let local = tokio::task::LocalSet::new();
    let worked = local.run_until(async {
        tokio::select! {
            ended = worker.run() => panic!("the worker has ended: {ended:?}"),
            () = played => {}
        }
    });
    worked.await;
    let troubles = server.troubles.lock().unwrap();
    assert!(troubles.is_empty(), "{} of {seeds}:\n{}", troubles.len(), troubles.join("\n"));
    assert!(*server.refused.lock().unwrap() > 0, "no task came in parts");
}
