//! How many steps a second a server and its workers carry out, beside a bare loop of activities that start the same script,
//! on the same server, in turns.
//!
//! ```text
//! cargo bench --bench steps
//! ```
//!
//! Server and workers share one machine here, so the numbers say what a step costs, and not how far a fleet grows.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use raymond::fleet::Address;
use raymond_temporal::client::connect;
use raymond_temporal::workflow::RaymondRun;
use temporalio_client::{WorkflowGetResultOptions, WorkflowStartOptions};
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder};
use temporalio_sdk::{ActivityOptions, Runtime, Worker, WorkerOptions, WorkflowContext, WorkflowResult};

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/it/harness.rs"]
mod harness;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/it/network.rs"]
mod network;
#[allow(dead_code, reason = "the benchmark of the local program uses the rest")]
#[path = "../../crates/raymond-bench/src/report.rs"]
mod report;
#[allow(dead_code, reason = "the benchmark of the local program uses the rest")]
#[path = "../../crates/raymond-bench/src/sample.rs"]
mod sample;

use harness::{Process, Rig, SLOTS};
use report::Row;
use sample::Sample;

const REPETITIONS: usize = 3;
/// So many agents take so many steps each.
const AGENTS: usize = 16;
const STEPS: usize = 25;
/// A bare worker is this program, with this variable. It has the address of the server.
const BARE: &str = "BENCH_BARE_WORKER";
const BARE_QUEUE: &str = "bare";
/// The server is on this machine and answers at once.
const PATIENCE: Duration = Duration::from_secs(30);
/// The script of a step. It counts what its agent has done.
const SCRIPT: &str = "n=$((${RAYMOND_RESULT:-0} + 1))\n\
    if [ $n -lt 25 ]; then echo \"<goto input='$n'>LOOP</goto>\"; else echo '<result>ok</result>'; fi\n";

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("threads can be started");
    if let Ok(server) = std::env::var(BARE) {
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, bare_worker(&server)).expect("a bare worker");
        return ExitCode::SUCCESS;
    }
    let Some(rig) = Rig::new() else { return ExitCode::SUCCESS };
    write_workflow(&rig);
    let mut rows = Vec::new();
    let mut memory = (0, 0);
    for workers in [1, 2, 4] {
        let (mut ours, mut bare) = (Sample::new(), Sample::new());
        let names = &["a", "b", "c", "d"][..workers];
        for repetition in 0..REPETITIONS {
            let running: Vec<Process> = names.iter().map(|name| rig.worker(name)).collect();
            let id = format!("r-{workers}-{repetition}");
            ours.add(runtime.block_on(measure_run(&rig, &id)).expect("the run"));
            memory.0 = running.iter().map(peak_memory).fold(memory.0, u64::max);
            drop(running);
            let running: Vec<Process> = names.iter().map(|_| spawn_bare_worker(&rig)).collect();
            let id = format!("bare-{workers}-{repetition}");
            bare.add(runtime.block_on(measure_bare(&rig, &id)).expect("the bare loop"));
            memory.1 = running.iter().map(peak_memory).fold(memory.1, u64::max);
        }
        let rate = |sample: &Sample| format!("{:.1} steps/s", (AGENTS * STEPS) as f64 / sample.median());
        let work = format!(
            "a step on Temporal, {workers} × {SLOTS} slots, beside an activity that starts the same script"
        );
        rows.push(Row::ratio(&work, rate(&ours), rate(&bare), ours.beside(&bare)).at_most(1.5));
        eprintln!("{}", rows[rows.len() - 1]);
    }
    let ratio = memory.0 as f64 / memory.1 as f64;
    let shown = |bytes| sample::mebibytes(bytes);
    rows.push(Row::ratio(
        "a worker on Temporal: memory, beside a bare one",
        shown(memory.0),
        shown(memory.1),
        ratio,
    ));
    println!("{}", report::table(&rows));
    ExitCode::from(u8::from(!rows.iter().all(Row::is_met)))
}

fn write_workflow(rig: &Rig) {
    let forks: String = (0..AGENTS).map(|_| "<fork next=\"ALL\">LOOP</fork>").collect();
    rig.state("START.sh", &format!("echo '{forks}'\n"));
    rig.state("LOOP.sh", SCRIPT);
    rig.state("ALL.sh", "echo '<join>DONE</join>'\n");
    rig.state("DONE.sh", "echo '<result>all</result>'\n");
}

/// The seconds between the first and the last step of the loops. Nothing asks for news of the run meanwhile.
async fn measure_run(rig: &Rig, id: &str) -> anyhow::Result<f64> {
    let client = connect(&address(&rig.server()), "bench", PATIENCE).await?;
    rig.start_as(id, &[]);
    let run = client.get_workflow_handle::<RaymondRun>(id);
    run.get_result(WorkflowGetResultOptions::default()).await?;
    let log = rig.until_in(id, "run_finished");
    let times = |kind: &'static str| {
        log.iter()
            .filter(move |event| event["event"] == kind && event["state"] == "LOOP.sh")
            .filter_map(|event| event["time"].as_str()?.parse::<jiff::Timestamp>().ok())
    };
    let (begun, ended) = (times("step_started").min(), times("step_finished").max());
    assert_eq!(times("step_finished").count(), AGENTS * STEPS);
    Ok(ended.expect("steps").duration_since(begun.expect("steps")).as_secs_f64())
}

fn peak_memory(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    peak.and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn address(server: &str) -> Address {
    Address::of_server(server).expect("an address")
}

fn spawn_bare_worker(rig: &Rig) -> Process {
    let mut worker = Command::new(std::env::current_exe().expect("this program"));
    worker.env(BARE, rig.server()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Process(worker.spawn().expect("a bare worker"))
}

async fn measure_bare(rig: &Rig, id: &str) -> anyhow::Result<f64> {
    let client = connect(&address(&rig.server()), "bench", PATIENCE).await?;
    let options = WorkflowStartOptions::new(BARE_QUEUE, id).build();
    let handle = client.start_workflow(BareLoop::run, (), options).await?;
    Ok(handle.get_result(WorkflowGetResultOptions::default()).await?)
}

async fn bare_worker(server: &str) -> anyhow::Result<()> {
    let client = connect(&address(server), "bare", PATIENCE).await?;
    let runtime = Runtime::from_current_tokio(Default::default())?;
    let slots = || FixedSizeSlotSupplier::new(SLOTS);
    let tuner = TunerHolder::builder()
        .workflow_task_slot_supplier(slots())
        .activity_task_slot_supplier(slots())
        .local_activity_task_slot_supplier(slots())
        .nexus_task_slot_supplier(slots())
        .build();
    let options = WorkerOptions::new(BARE_QUEUE)
        .tuner(tuner)
        .register_workflow::<BareLoop>()?
        .register_activities(Scripts)
        .build();
    let mut worker = Worker::new(&runtime, client, options).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(worker.run().await?)
}

pub struct Scripts;

#[activities]
impl Scripts {
    /// Runs the script and returns what it prints.
    #[activity]
    pub async fn script(_ctx: ActivityContext, done: usize) -> Result<String, ActivityError> {
        let mut bash = tokio::process::Command::new("bash");
        let output = bash.args(["-c", SCRIPT]).env("RAYMOND_RESULT", done.to_string()).output().await;
        Ok(String::from_utf8_lossy(&output.map_err(anyhow::Error::from)?.stdout).into_owned())
    }
}

#[workflow]
#[derive(Default)]
pub struct BareLoop;

#[workflow_methods]
impl BareLoop {
    /// Returns the seconds that the loops took.
    #[run]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<f64> {
        let ctx = &*ctx;
        let begun = ctx.workflow_time();
        join_all((0..AGENTS).map(|_| async {
            for done in 0..STEPS {
                let options = ActivityOptions::with_start_to_close_timeout(Duration::from_secs(60)).build();
                ctx.execute_activity(Scripts::script, done, options).await?;
            }
            Ok::<(), temporalio_sdk::ActivityExecutionError>(())
        }))
        .await
        .into_iter()
        .collect::<Result<(), _>>()?;
        let took = begun.zip(ctx.workflow_time()).and_then(|(begun, ended)| ended.duration_since(begun).ok());
        Ok(took.unwrap_or_default().as_secs_f64())
    }
}
