//! Removes a run for good: from the server, and from the store of blobs.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use raymond::fleet::{Address, PATIENCE, Trouble};
use temporalio_client::tonic::{Code, Request};
use temporalio_client::{Client, WorkflowExecutionStatus};
use temporalio_common::protos::temporal::api::common::v1::WorkflowExecution;
use temporalio_common::protos::temporal::api::workflowservice::v1::DeleteWorkflowExecutionRequest;
use tokio::time::timeout;

use crate::blobs::Blobs;
use crate::client::NoAnswer;
use crate::fleet::{Answer, Server, away, refused};
use crate::host::run_folder;
use crate::server::status_of;

/// How long the server may take to remove a run. It does so after it has answered, and half a minute is usual.
const LONGEST_REMOVAL: Duration = Duration::from_secs(120);
/// How long all of it may take, the store of blobs included.
pub const LONGEST_FORGETTING: Duration = Duration::from_secs(10 * 60);
/// How often it is asked whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Server {
    /// Removes a run that does not go on. Workflows and repositories stay in the store: other runs may use them.
    pub(crate) async fn forget(&self, run: &str) -> Result<(), Trouble> {
        let blobs = Blobs::open(self.at.blobs.as_deref()).map_err(|error| refused(format!("{error:#}")))?;
        self.check_that_it_does_not_go_on(run).await?;
        for history in self.histories_of(run).await? {
            delete(&self.client, &self.at, run, history).await?;
        }
        let until = Instant::now() + LONGEST_REMOVAL;
        // The blobs go last: a command that still finds the run on the server may read them.
        while !self.histories_of(run).await?.is_empty() {
            if Instant::now() >= until {
                return Err(away(format!("it has not removed {run} within {} s", LONGEST_REMOVAL.as_secs())));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        blobs.remove_all(&run_folder(run)).await.map_err(|error| away(format!("{error:#}")))
    }

    async fn check_that_it_does_not_go_on(&self, run: &str) -> Result<(), Trouble> {
        if status_of(&self.client, run).await.map_err(away)? != Some(WorkflowExecutionStatus::Running) {
            return Ok(());
        }
        // One that has stopped waits for a resume, and only the run itself knows that.
        match self.question(run, u64::MAX).await? {
            Answer::Told(told) if told.is_open => Err(refused("it goes on; stop it first")),
            Answer::Told(_) | Answer::NotThere => Ok(()),
            Answer::Unheard(why) => Err(refused(format!("it cannot say whether it goes on: {why}"))),
        }
    }

    /// The histories that the server has of a run.
    async fn histories_of(&self, run: &str) -> Result<Vec<String>, Trouble> {
        let mut stream = self.client.list_workflows(format!("WorkflowId = '{run}'"), Default::default());
        let listed = async {
            let mut histories = Vec::new();
            while let Some(found) = stream.next().await {
                histories.push(found.map_err(away)?.run_id().to_owned());
            }
            Ok(histories)
        };
        in_time(listed).await
    }
}

async fn delete(client: &Client, at: &Address, run: &str, history: String) -> Result<(), Trouble> {
    let workflow_execution = Some(WorkflowExecution { workflow_id: run.to_owned(), run_id: history });
    let wanted = DeleteWorkflowExecutionRequest { namespace: at.namespace.clone(), workflow_execution };
    let mut service = client.connection().workflow_service();
    let deleted = in_time(async { Ok(service.delete_workflow_execution(Request::new(wanted)).await) });
    match deleted.await? {
        Ok(_) => Ok(()),
        Err(status) if status.code() == Code::NotFound => Ok(()),
        Err(status) => Err(away(status.message())),
    }
}

async fn in_time<T>(act: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    timeout(PATIENCE, act).await.map_err(|_| away(NoAnswer))?
}
