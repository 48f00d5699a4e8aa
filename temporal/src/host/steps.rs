//! Carries out the attempts that are delivered to this machine.
//!
//! Programs are started from one thread, because a program ends with the thread that started it. Deliveries reach it
//! through a channel. The activity that brings one ends at once and leaves the report to this thread, which repeats it
//! until the server has it: the SDK would give up after ten seconds.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use raymond::agent::registry::Backends;
use raymond::run::hosted::{Done, HostedRun, Roots, Said, StepOrder, StepReport, is_of_this_machine};
use raymond::view::debug::LeftFiles;
use raymond_core::input::{Plan, StepOutcome, TurnOutcome};
use raymond_core::money::Usd;
use temporalio_client::{ActivityIdentifier, AsyncActivityHandle, Client};
use temporalio_common::protos::TaskToken;
use tokio::sync::{Mutex, Notify, Semaphore};

use super::debug;
use super::ends::{End, before_it_began, report};
use super::files::{Files, Kept, Ready};
use super::heart::{Heart, Pulse};
use super::leases::{Lease, Leases};
use super::load::{Load, UNFIT};
use super::records::{Known, RECORDS, Records};
use super::superseded::remove_meanwhile;
use crate::blobs::Blobs;
use crate::messages::{Delivered, Delivery, Home};
use crate::packed::Packed;

/// How long a report waits before it is tried again, at first and at most. What the store of blobs must keep waits as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(200);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long it waits before it tries again to put a step's files in place.
const READY_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// How long a machine tries to keep what a step left. A store may be away for a moment, but the run waits for the report.
const LONGEST_KEEPING: Duration = Duration::from_secs(3 * 60);
/// How long it tries when the run is to stop at once. People wait for that.
const LONGEST_KEEPING_AT_STOP: Duration = Duration::from_secs(8);

/// So many runs are kept ready. When there are more, those of which no step is here are dropped.
const MOST_IDLE_RUNS: usize = 100;

/// Why an attempt was not begun.
const NO_RECORDS: &str = "no records can be written on its machine";
const CANNOT_BEGIN: &str = "its machine cannot carry out steps";

/// Why an attempt was ended that counts as lost.
const SILENT: &str = "its machine could not reach the server";
const TOLD_TO_END: &str = "its machine was told to end it";
const UNGUARDED: &str = "no guard could be started on its machine";

/// A delivery, and the token under which its result is expected.
pub struct Task {
    pub delivery: Delivery,
    pub token: Vec<u8>,
}

/// The steps of this machine.
pub struct Steps {
    client: Client,
    /// The name of this machine, and its queue.
    home: Home,
    pub(super) files: Files,
    backends: Backends,
    slots: Semaphore,
    load: Arc<Load>,
    /// What the guard knows of them.
    pub leases: Rc<Leases>,
    runs: RefCell<BTreeMap<String, Rc<HostedRun>>>,
    /// The runs of which a delivery is dealt with or a report waits for the server.
    held: RefCell<BTreeMap<String, Weak<()>>>,
    /// Held for as long as a delivery of an attempt is dealt with: a second delivery of it waits.
    attempts: RefCell<BTreeMap<String, Rc<Mutex<()>>>>,
    /// Told when the steps that still run must be ended.
    ends_now: Notify,
    has_ended: Cell<bool>,
}

/// Whether an attempt begins.
enum Begin {
    Yes(Box<Begun>),
    No(End),
}

/// An attempt that begins, with everything that it needs here.
struct Begun {
    run: Rc<HostedRun>,
    ready: Ready,
    order: StepOrder,
}

/// How a step that has begun comes to its end.
enum Ended {
    ByItself,
    /// The run has stopped it.
    AsWanted,
    /// This machine has ended it, for this reason.
    AsLost(&'static str),
    /// This machine must run nothing, because it has no guard.
    Unguarded,
}

/// Why an attempt counts as lost.
enum Lost {
    Ended(&'static str),
    /// This machine cannot carry out steps now.
    Unfit(String),
}

impl Steps {
    pub fn new(
        client: Client,
        home: Home,
        work: PathBuf,
        blobs: Blobs,
        backends: Backends,
        slots: usize,
        load: Arc<Load>,
    ) -> Self {
        Self {
            client,
            home,
            files: Files::new(work, blobs),
            backends,
            slots: Semaphore::new(slots),
            load,
            leases: Leases::new(),
            runs: RefCell::default(),
            held: RefCell::default(),
            attempts: RefCell::default(),
            ends_now: Notify::new(),
            has_ended: Cell::new(false),
        }
    }

    /// Deals with one delivery, until the server has its result.
    pub async fn carry_out(self: Rc<Self>, task: Task) {
        let Task { delivery, token } = task;
        let identifier = ActivityIdentifier::from_task_token(TaskToken::from(token));
        let handle = || self.client.get_async_activity_handle(identifier.clone());
        let order = delivery.order.open();
        let _held = order.as_ref().ok().map(|order| self.hold(&order.id));
        let end = match order {
            Ok(order) => self.end_of(&delivery, &order, handle()).await,
            Err(error) => End::Report(self.lost(format!("the order cannot be read: {error}"), None)),
        };
        report(&handle(), end).await;
        self.load.steps.fetch_sub(1, Ordering::Relaxed);
    }

    /// Holds a run for as long as what is returned is there.
    fn hold(&self, run: &str) -> Rc<()> {
        let mut held = self.held.borrow_mut();
        let hold = held.get(run).and_then(Weak::upgrade).unwrap_or_default();
        held.insert(run.to_owned(), Rc::downgrade(&hold));
        hold
    }

    /// Forgets a run, so that its files may be removed, unless it is held.
    pub fn lets_go(&self, run: &str) -> bool {
        let mut held = self.held.borrow_mut();
        if held.get(run).is_some_and(|hold| hold.strong_count() > 0) {
            return false;
        }
        held.remove(run);
        self.runs.borrow_mut().remove(run);
        true
    }

    /// Ends all steps. They count as lost.
    pub fn end_now(&self) {
        self.has_ended.set(true);
        self.ends_now.notify_waiters();
    }

    async fn end_of(
        &self,
        delivery: &Delivery,
        order: &StepOrder,
        handle: AsyncActivityHandle<Client>,
    ) -> End {
        let token = order.token();
        let limit = Duration::from_millis(delivery.heartbeat_ms);
        let records = match Records::open(self.files.run_folder(&order.id).join(RECORDS)) {
            Ok(records) => records,
            // So nothing of the run is known here. If the attempt was begun all the same, it counts as lost.
            Err(error) => return End::Report(self.unfit(format!("{NO_RECORDS}: {error}"), Some(Usd::ZERO))),
        };
        let lease = self.leases.lease(token.clone(), self.scratch_of(order), limit);
        let has_begun = !matches!(records.look(&token), Ok(Known::Nothing));
        let mut heart = Heart::start(handle, limit, Rc::clone(&lease), has_begun);
        let attempt = Rc::clone(self.attempts.borrow_mut().entry(token.clone()).or_default());
        let end = {
            let _only = tokio::select! {
                only = attempt.lock() => only,
                // What an earlier delivery has begun has an end, and that is reported, whatever becomes of this one.
                pulse = heart.fails(), if !has_begun => return before_it_began(pulse),
            };
            match self.known_or_new(delivery, order, &records, &mut heart, &lease).await {
                Ok(end) => end,
                // What is left of the attempt could not be ended. The server delivers it again.
                Err(error) => {
                    eprintln!("raymond: {}: {error:#}", order.started.state);
                    End::Nothing
                }
            }
        };
        // Another delivery of the attempt may wait for its lock.
        let is_last = Rc::strong_count(&attempt) <= 2;
        if is_last {
            self.attempts.borrow_mut().remove(&token);
        }
        end
    }

    async fn known_or_new(
        &self,
        delivery: &Delivery,
        order: &StepOrder,
        records: &Records,
        heart: &mut Heart,
        lease: &Lease,
    ) -> anyhow::Result<End> {
        let token = order.token();
        let result = match look(records, &token).await {
            Known::Ended(result) => return Ok(End::Report(result)),
            Known::Unkept(report) => self.keep_again(delivery, order, heart, *report).await?,
            Known::Begun => {
                let run = self.run_of(delivery, order)?;
                let survivors = run.end_leftovers(order).await;
                anyhow::ensure!(survivors.is_empty(), "processes could not be ended: {survivors:?}");
                self.keep_debug(order, run.debug_left_by(order)).await;
                self.lost("the worker on its machine was restarted".to_owned(), None)
            }
            Known::Nothing => {
                let _slot = tokio::select! {
                    slot = self.slots.acquire() => slot?,
                    pulse = heart.fails() => return Ok(before_it_began(pulse)),
                };
                match self.begin(delivery, order, records, heart, lease).await {
                    Ok(Begin::Yes(begun)) => self.run_step(delivery, &begun, records, heart, lease).await?,
                    Ok(Begin::No(end)) => return Ok(end),
                    Err(error) => {
                        let why = format!("{CANNOT_BEGIN}: {error:#}");
                        return Ok(End::Report(self.unfit(why, Some(Usd::ZERO))));
                    }
                }
            }
        };
        // If the disk is full, the server should have the result all the same.
        if let Err(error) = records.end(&token, &result).await {
            eprintln!("raymond: {}: its result is not on disk: {error:#}", order.started.state);
        }
        lease.end();
        Ok(End::Report(result))
    }

    /// An attempt that has ended here, before this process was started. What it left is kept now.
    async fn keep_again(
        &self,
        delivery: &Delivery,
        order: &StepOrder,
        heart: &mut Heart,
        report: StepReport,
    ) -> anyhow::Result<Delivered> {
        let run = self.run_of(delivery, order)?;
        let done = Done { report, debug: run.debug_left_by(order), shortage: None };
        let roots = self.files.roots(&delivery.files, order);
        self.delivered(delivery, order, &run, &roots, heart, done).await
    }

    /// Makes everything ready for an attempt that is new here, and lets the guard, the server and the disk know that it begins. With an
    /// error nothing has begun, and this machine cannot carry it out.
    async fn begin(
        &self,
        delivery: &Delivery,
        order: &StepOrder,
        records: &Records,
        heart: &mut Heart,
        lease: &Lease,
    ) -> anyhow::Result<Begin> {
        let run = self.run_of(delivery, order)?;
        let ready = tokio::select! {
            ready = self.ready(delivery, order, &run) => ready,
            pulse = heart.fails() => return Ok(Begin::No(before_it_began(pulse))),
        };
        let (ready, order) = match ready {
            Ok(ready) => ready,
            Err(error) if is_of_this_machine(error.chain()) => return Err(error),
            Err(error) => {
                let why = format!("its files could not be put in place: {error:#}");
                return Ok(Begin::No(End::Report(self.not_started(delivery, order, why)?)));
            }
        };
        // The agent's files are here by now, so that it can go on with another backend.
        if let Some(delivered) = self.lacks_program(delivery, &order, ready.warning.as_ref())? {
            return Ok(Begin::No(End::Report(delivered)));
        }
        let announced = self.not_begun(records, &order.token(), heart, lease).await;
        if !matches!(announced, Ok(None)) {
            lease.end();
        }
        match announced? {
            None => Ok(Begin::Yes(Box::new(Begun { run, ready, order }))),
            Some(end) => Ok(Begin::No(end)),
        }
    }

    /// Lets the guard, the server and the disk know that an attempt begins. If it must not begin, says what becomes of it.
    async fn not_begun(
        &self,
        records: &Records,
        token: &str,
        heart: &mut Heart,
        lease: &Lease,
    ) -> anyhow::Result<Option<End>> {
        tokio::select! {
            () = lease.begin() => {}
            pulse = heart.fails() => return Ok(Some(before_it_began(pulse))),
            () = self.leases.unguarded() => {
                return Ok(Some(End::Report(self.unfit(UNGUARDED.to_owned(), Some(Usd::ZERO)))));
            }
        }
        // The server and the disk are told at the same time: a step waits for both of them.
        let (pulse, recorded) = tokio::join!(heart.announce(), records.begin(token));
        if recorded.is_ok() && pulse == Pulse::Good && !lease.is_over() {
            return Ok(None);
        }
        let forgotten = records.forget(token);
        recorded.context(NO_RECORDS)?;
        forgotten?;
        Ok(Some(before_it_began(pulse)))
    }

    /// Brings the step's texts, which may name branches, and puts its files in place. The store of blobs may be away for a moment.
    async fn ready(
        &self,
        delivery: &Delivery,
        order: &StepOrder,
        run: &HostedRun,
    ) -> anyhow::Result<(Ready, StepOrder)> {
        let Delivery { files, left_at, left, .. } = delivery;
        let is_old = left_at.as_ref().is_some_and(|queue| *queue != self.home.queue);
        let ready = async || {
            let complete = self.with_texts(order).await;
            // If a text is missing, files that are old are removed all the same.
            let order = complete.as_ref().unwrap_or(order);
            let ready = self.files.ready(files, order, run, left.as_ref(), is_old).await?;
            anyhow::Ok((ready, complete?))
        };
        for pause in READY_PAUSES {
            match ready().await {
                Ok(ready) => return Ok(ready),
                Err(error) => eprintln!("raymond: {}: {error:#}", order.started.state),
            }
            tokio::time::sleep(pause).await;
        }
        ready().await
    }

    async fn run_step(
        &self,
        delivery: &Delivery,
        begun: &Begun,
        records: &Records,
        heart: &mut Heart,
        lease: &Lease,
    ) -> anyhow::Result<Delivered> {
        let Begun { run, ready: Ready { roots, warning }, order } = begun;
        if let Some(left) = &delivery.left {
            remove_meanwhile(&self.files.blobs, order, left);
        }
        let mut done = run.start(order.clone(), roots);
        let (mut done, end) = tokio::select! {
            done = &mut done => (done?, Ended::ByItself),
            end = self.must_end(heart) => {
                run.cancel(order);
                (done.await?, end)
            }
        };
        done.report.said.splice(..0, warning.clone().map(Said::Warning));
        let outcome = &done.report.outcome;
        let was_interrupted = matches!(outcome, StepOutcome::Interrupted { .. });
        let lost = match end {
            _ if was_interrupted && done.shortage.is_some() => done.shortage.clone().map(Lost::Unfit),
            Ended::Unguarded if was_interrupted => Some(Lost::Unfit(UNGUARDED.to_owned())),
            Ended::AsLost(why) if was_interrupted => Some(Lost::Ended(why)),
            // The guard may have ended it.
            Ended::AsLost(_) | Ended::ByItself if lease.is_over() && !outcome.has_succeeded() => {
                Some(Lost::Ended(SILENT))
            }
            _ => None,
        };
        match lost {
            Some(lost) => {
                let cost = cost_of(outcome);
                self.keep_debug(order, done.debug).await;
                Ok(match lost {
                    Lost::Ended(why) => self.lost(why.to_owned(), cost),
                    Lost::Unfit(why) => self.unfit(why, cost),
                })
            }
            None => {
                self.record(order, records, &done.report).await;
                let delivered = self.delivered(delivery, order, run, roots, heart, done);
                records.while_kept(&order.token(), delivered).await
            }
        }
    }

    /// Records that an attempt has ended. It may take minutes to keep what it left, and it must not run again if this process
    /// ends meanwhile.
    async fn record(&self, order: &StepOrder, records: &Records, report: &StepReport) {
        if let Err(error) = records.end_unkept(&order.token(), report).await {
            eprintln!("raymond: {}: its result is not on disk: {error:#}", order.started.state);
        }
    }

    /// Waits until a step must be ended.
    async fn must_end(&self, heart: &mut Heart) -> Ended {
        let why = tokio::select! {
            pulse = heart.fails() => match pulse {
                Pulse::Cancelled => return Ended::AsWanted,
                Pulse::Silent => SILENT,
                Pulse::Unknown | Pulse::Good | Pulse::Unwanted => TOLD_TO_END,
            },
            () = self.told_to_end() => TOLD_TO_END,
            () = self.leases.unguarded() => return Ended::Unguarded,
        };
        Ended::AsLost(why)
    }

    /// Waits until the run, or this machine, is to stop at once.
    pub(super) async fn asked_to_stop(&self, heart: &mut Heart) {
        tokio::select! {
            () = heart.cancelled() => {}
            () = self.told_to_end() => {}
        }
    }

    async fn told_to_end(&self) {
        let told = self.ends_now.notified();
        if !self.has_ended.get() {
            told.await;
        }
    }

    async fn delivered(
        &self,
        delivery: &Delivery,
        order: &StepOrder,
        run: &HostedRun,
        roots: &Roots,
        heart: &mut Heart,
        mut done: Done,
    ) -> anyhow::Result<Delivered> {
        let debug = done.debug.take();
        let keeping = self.files.keep(&delivery.files, order, run, roots, &done, delivery.left.as_ref());
        // At the same time: a step waits for both of them.
        let kept = in_time(LONGEST_KEEPING, keeping, self.asked_to_stop(heart));
        let (kept, debug_kept) = tokio::join!(kept, debug::keep(&self.files.blobs, order, debug));
        let is_whole = matches!(&kept, Ok(Kept { left_out: None, .. }));
        self.files.note_unkept(order, !is_whole);
        let (left, branch) = match kept {
            Ok(Kept { left, branch, left_out }) => {
                let news = left_out.filter(|warning| run.is_news(order, warning));
                done.report.said.extend(news.map(Said::Warning));
                (Some(left), branch)
            }
            Err(error) => {
                let warning = format!("what the step left could not be kept for other machines: {error:#}");
                done.report.said.push(Said::Warning(warning));
                (delivery.left.clone(), None)
            }
        };
        if let Err(error) = debug_kept {
            let warning = format!("its debug files stay on the machine that ran it: {error:#}");
            done.report.said.push(Said::Warning(warning));
            done.report.forget_output_file();
        }
        if matches!(order.plan, Plan::Prompt(_)) {
            done.report.backends = Some(self.backends.installed());
        }
        let report = self.packed(delivery, order, done.report, heart).await?;
        Ok(Delivered::Done { report, leaving: self.is_leaving(), left, branch })
    }

    /// Keeps the debug files of an attempt that is lost. Its end is told without a place for warnings.
    async fn keep_debug(&self, order: &StepOrder, left: Option<LeftFiles>) {
        if let Err(error) = debug::keep(&self.files.blobs, order, left).await {
            eprintln!("raymond: {}: its debug files stay here: {error:#}", order.started.state);
        }
    }

    /// The step fails without having run.
    fn not_started(
        &self,
        delivery: &Delivery,
        order: &StepOrder,
        error: String,
    ) -> anyhow::Result<Delivered> {
        self.without_a_start(delivery, &StepReport::not_started(&order.plan, error))
    }

    /// The report of an attempt that was not begun. The agent has what its last step left.
    fn without_a_start(&self, delivery: &Delivery, report: &StepReport) -> anyhow::Result<Delivered> {
        let (report, left) = (Packed::new(report)?, delivery.left.clone());
        Ok(Delivered::Done { report, leaving: self.is_leaving(), left, branch: None })
    }

    /// What is reported instead of a start if this machine lacks the program of the chosen backend.
    fn lacks_program(
        &self,
        delivery: &Delivery,
        order: &StepOrder,
        warning: Option<&String>,
    ) -> anyhow::Result<Option<Delivered>> {
        // It takes a while to look for the programs of all backends.
        let Plan::Prompt(_) = &order.plan else { return Ok(None) };
        let report = StepReport::not_installed(&order.plan, &self.backends.installed(), &self.home.host);
        let Some(mut report) = report else { return Ok(None) };
        report.said.extend(warning.cloned().map(Said::Warning));
        self.without_a_start(delivery, &report).map(Some)
    }

    fn lost(&self, why: String, cost: Option<Usd>) -> Delivered {
        Delivered::Lost { why, cost, leaving: self.is_leaving() }
    }

    /// The attempt counts as lost, and its agent goes to another machine: this one can run no steps at the moment.
    fn unfit(&self, why: String, cost: Option<Usd>) -> Delivered {
        eprintln!("raymond: {why}; no agents are taken for {} s", UNFIT.as_secs());
        self.load.note_unfit();
        Delivered::Lost { why, cost, leaving: true }
    }

    fn is_leaving(&self) -> bool {
        self.load.is_leaving.load(Ordering::Relaxed)
    }

    /// The folder for notes about the run's steps.
    fn scratch_of(&self, order: &StepOrder) -> PathBuf {
        self.files.run_folder(&order.id).join(".scratch")
    }

    fn run_of(&self, delivery: &Delivery, order: &StepOrder) -> std::io::Result<Rc<HostedRun>> {
        if let Some(run) = self.runs.borrow().get(&order.id) {
            return Ok(Rc::clone(run));
        }
        let scratch = self.scratch_of(order);
        // Half of the time without a heartbeat is over when a step is ended, so this leaves a quarter.
        let grace = Duration::from_millis(delivery.heartbeat_ms) / 4;
        let debug = self.files.run_folder(&order.id).join(".debug");
        let debug = Some(debug).filter(|_| !order.run.options.no_debug);
        let backends = self.backends.clone();
        let run = Rc::new(HostedRun::open(&order.id, &scratch, backends, grace, debug)?);
        let mut runs = self.runs.borrow_mut();
        if runs.len() >= MOST_IDLE_RUNS {
            runs.retain(|_, run| Rc::strong_count(run) > 1);
        }
        runs.insert(order.id.clone(), Rc::clone(&run));
        Ok(run)
    }
}

/// What is known of an attempt. A record that cannot be read tells at least that it was begun.
async fn look(records: &Records, token: &str) -> Known {
    for pause in READY_PAUSES {
        match records.look(token) {
            Ok(known) => return known,
            Err(error) => eprintln!("raymond: a record cannot be read: {error}"),
        }
        tokio::time::sleep(pause).await;
    }
    records.look(token).unwrap_or(Known::Begun)
}

/// Waits for something to be kept in the store of blobs, up to a limit. When it is asked to stop, it waits only a little longer.
pub(super) async fn in_time<T>(
    limit: Duration,
    keeping: impl Future<Output = anyhow::Result<T>>,
    asked_to_stop: impl Future<Output = ()>,
) -> anyhow::Result<T> {
    let stop = async {
        asked_to_stop.await;
        tokio::time::sleep(LONGEST_KEEPING_AT_STOP).await;
    };
    let limit = tokio::select! {
        kept = keeping => return kept,
        () = tokio::time::sleep(limit) => limit,
        () = stop => LONGEST_KEEPING_AT_STOP,
    };
    anyhow::bail!("the store of blobs has not taken it within {} s", limit.as_secs())
}

/// What an attempt that counts as lost has cost.
fn cost_of(outcome: &StepOutcome) -> Option<Usd> {
    match outcome {
        StepOutcome::Interrupted { cost } => Some(*cost),
        StepOutcome::Turn(TurnOutcome::Failed(turn)) => Some(turn.cost.usd()),
        StepOutcome::Turn(TurnOutcome::Completed(turn)) => Some(turn.cost.usd()),
        StepOutcome::Script(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that does not answer must keep no step for ever, and a run that stops only for a moment.
    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_is_waited_for_only_for_a_while() {
        let hangs = || std::future::pending::<anyhow::Result<()>>();
        for (is_asked, limit) in [(true, LONGEST_KEEPING_AT_STOP), (false, LONGEST_KEEPING)] {
            let start = tokio::time::Instant::now();
            let asked = async {
                if !is_asked {
                    std::future::pending().await
                }
            };
            let said = in_time(LONGEST_KEEPING, hangs(), asked).await.unwrap_err().to_string();
            assert!(said.ends_with(&format!("within {} s", limit.as_secs())), "{said}");
            assert_eq!(start.elapsed().as_secs(), limit.as_secs());
        }
        let never = std::future::pending();
        assert_eq!(in_time(LONGEST_KEEPING, async { Ok(1) }, never).await.unwrap(), 1);
    }

    #[test]
    fn a_full_disk_is_a_fault_of_the_machine() {
        let full = std::io::Error::from_raw_os_error(28);
        let full = anyhow::Error::from(full).context("cannot make a folder");
        assert!(is_of_this_machine(full.chain()));
        let missing = anyhow::anyhow!("x is not in the blob store of this machine");
        assert!(!is_of_this_machine(missing.chain()));
    }
}
