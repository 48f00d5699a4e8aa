//! A machine that carries out steps: `raymond worker`.

mod debug;
mod ends;
mod files;
mod heart;
mod leases;
mod load;
mod loose;
mod names;
mod records;
mod reports;
mod steps;
mod superseded;
mod tidy;
mod trash;
mod worker;
mod worktrees;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use raymond::agent::registry::Backends;
use raymond::run::frozen::FrozenStates;
use raymond_core::payload::Payload;
use temporalio_common::error::ApplicationFailure;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio::sync::mpsc::UnboundedSender;

use crate::blobs::Blobs;
use crate::bundle::unpack;
use crate::messages::{Delivered, Delivery, Home, JoinPart, JournalPart, StatesWanted, TextsPart};
use crate::packed::{MOST_BYTES, Packed};
use crate::texts::{NoText, Texts};
pub use debug::debug_key;
use load::Load;
use steps::Task;
use tidy::READING;
pub use worker::{runtime, work};

/// How long a machine without room keeps an agent waiting before it gives it back. Less than the limit of the activity.
const LONGEST_CLAIM: Duration = Duration::from_secs(20);
/// How often a machine without room looks whether there is some.
const ROOM_POLL: Duration = Duration::from_millis(20);
/// How long a machine keeps room for an agent that it has taken in. A run with many agents may take seconds to decide, and
/// a machine that takes in more than it has room for keeps them from the others.
const RESERVED: Duration = Duration::from_secs(10);
/// So often a text that a join needs is looked for, before the join fails.
const LOOKS_FOR_A_TEXT: u32 = 5;

/// The activities of this machine.
pub struct Host {
    home: Home,
    work: PathBuf,
    backends: Backends,
    blobs: Blobs,
    slots: usize,
    load: Arc<Load>,
    /// When agents were taken in that may not have sent a step yet.
    claims: Mutex<Vec<Instant>>,
    tasks: UnboundedSender<Task>,
}

#[activities]
impl Host {
    /// Takes an agent in, as soon as there is room. From then on its steps are delivered to this machine's own queue.
    #[activity]
    pub async fn claim(self: Arc<Self>, _ctx: ActivityContext, _: ()) -> Result<Home, ActivityError> {
        let asked = Instant::now();
        while !self.has_taken_in() {
            if !self.load.takes_agents() || asked.elapsed() > LONGEST_CLAIM {
                return Err(anyhow::anyhow!("{} has no room", self.home.host).into());
            }
            tokio::time::sleep(ROOM_POLL).await;
        }
        Ok(Home { backends: Some(self.backends.installed()), ..self.home.clone() })
    }

    /// Takes a delivery. Its result is reported by the thread that carries it out.
    #[activity]
    pub async fn run_step(
        self: Arc<Self>,
        ctx: ActivityContext,
        delivery: Delivery,
    ) -> Result<Delivered, ActivityError> {
        self.load.steps.fetch_add(1, Ordering::Relaxed);
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let token = ctx.info().task_token.clone();
        self.tasks.send(Task { delivery, token }).context("this machine runs no more steps")?;
        Err(ActivityError::WillCompleteAsync)
    }

    /// Keeps a part of a run's journal.
    #[activity]
    pub async fn keep_journal(
        self: Arc<Self>,
        _ctx: ActivityContext,
        part: JournalPart,
    ) -> Result<(), ActivityError> {
        let key = format!("{}/{:012}.json", journal_folder(&part.run), part.first);
        self.blobs.put(&key, serde_json::to_vec(&part.part)?).await?;
        Ok(())
    }

    /// Keeps texts of a run.
    #[activity]
    pub async fn keep_texts(
        self: Arc<Self>,
        _ctx: ActivityContext,
        part: TextsPart,
    ) -> Result<(), ActivityError> {
        let texts = Texts::of(&self.blobs, &part.run);
        for text in part.texts.open()? {
            texts.keep(&text).await?;
        }
        Ok(())
    }

    /// Puts the results of workers together.
    #[activity]
    pub async fn join(
        self: Arc<Self>,
        ctx: ActivityContext,
        part: JoinPart,
    ) -> Result<Result<Payload, String>, ActivityError> {
        let joined = Texts::of(&self.blobs, &part.run).join(part).await;
        match joined.as_ref().err().and_then(|error| error.downcast_ref()) {
            // A shared disk may show a new file late, and another machine may have the right store.
            Some(NoText::Missing(why)) if ctx.info().attempt >= LOOKS_FOR_A_TEXT => {
                Ok(Err(format!("{why} ({})", self.home.host)))
            }
            _ => Ok(joined?),
        }
    }

    /// Reads the states of a run again, for a resume.
    #[activity]
    pub async fn read_states(
        self: Arc<Self>,
        _ctx: ActivityContext,
        wanted: StatesWanted,
    ) -> Result<Packed<FrozenStates>, ActivityError> {
        // Only a store that does not answer is asked again. Other errors would stay, and are told instead.
        let found = self.blobs.get(&wanted.bundle).await?;
        let states = self.states_in(found, &wanted);
        Ok(states.map_err(ApplicationFailure::non_retryable)?)
    }
}

impl Host {
    fn states_in(
        &self,
        bundle: Option<Vec<u8>>,
        wanted: &StatesWanted,
    ) -> anyhow::Result<Packed<FrozenStates>> {
        let bytes = bundle.with_context(|| {
            format!(
                "its workflows ({}) are not in the blob store of {}; all machines need the same `--blobs`",
                wanted.bundle, self.home.host
            )
        })?;
        let copy = self.work.join(format!("{READING}{}", uuid::Uuid::new_v4().simple()));
        let read = unpack(&bytes, &copy).and_then(|()| {
            let before = wanted.states.open()?;
            let scopes = match &wanted.scopes {
                Some(scopes) => scopes.iter().map(String::as_str).collect(),
                None => before.workflows().collect::<Vec<_>>(),
            };
            let states = FrozenStates::read_below(&copy, scopes, &wanted.options, &self.backends);
            let states = Packed::new(&states.map_err(|error| anyhow::anyhow!(error.message))?)?;
            anyhow::ensure!(
                states.bytes() < MOST_BYTES,
                "its states are too large for a message of the engine"
            );
            Ok(states)
        });
        let removed = fs::remove_dir_all(&copy).context("the copy of the workflows stays");
        read.and_then(|states| removed.map(|()| states))
    }

    /// Keeps room for an agent, if there is some.
    fn has_taken_in(&self) -> bool {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.retain(|claim| claim.elapsed() < RESERVED);
        let taken = self.load.steps.load(Ordering::Relaxed) + claims.len();
        let has_room = taken < self.slots && self.load.takes_agents();
        if has_room {
            claims.push(Instant::now());
        }
        has_room
    }
}

/// The queue of agents that have no machine yet.
pub fn agents_queue(queue: &str) -> String {
    format!("{queue}.agents")
}

/// Where the parts of a run's journal are.
pub fn journal_folder(run: &str) -> String {
    format!("{}/journal", run_folder(run))
}

/// Where everything is that the store of blobs has of one run alone.
pub fn run_folder(run: &str) -> String {
    format!("runs/{run}")
}
