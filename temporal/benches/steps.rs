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

const REPETITIONS: usize = 7;
/// So many agents take so many steps each.
const AGENTS: usize = 16;
const STEPS: usize = 25;
const STEPS_IN_ALL: usize = AGENTS * STEPS;
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
    let (mut ours, mut bare) = (Used::default(), Used::default());
    let mut rows = Vec::new();
    for workers in [1, 2, 4] {
        let (mut our_time, mut bare_time) = (Sample::new(), Sample::new());
        for repetition in 0..REPETITIONS {
            let id = format!("{workers}-{repetition}");
            our_time.add(ours.during(
                &rig,
                ["a", "b", "c", "d"][..workers].iter().map(|name| rig.worker(name)).collect(),
                || runtime.block_on(measure_run(&rig, &format!("r-{id}"))).expect("the run"),
            ));
            bare_time.add(bare.during(&rig, (0..workers).map(|_| spawn_bare_worker(&rig)).collect(), || {
                runtime.block_on(measure_bare(&rig, &format!("bare-{id}"))).expect("the bare loop")
            }));
        }
        let rate = |sample: &Sample| format!("{:.1} steps/s", STEPS_IN_ALL as f64 / sample.median());
        let work = format!(
            "a step on Temporal, {workers} × {SLOTS} slots, beside an activity that starts the same script"
        );
        let row = Row::ratio(&work, rate(&our_time), rate(&bare_time), our_time.beside(&bare_time));
        rows.push(row.at_most(1.5));
        eprintln!("{}", rows[rows.len() - 1]);
    }
    rows.extend(ours.beside(&bare));
    println!("{}", report::table(&rows));
    ExitCode::from(u8::from(!rows.iter().all(Row::is_met)))
}

/// What server and workers have used.
#[derive(Default)]
struct Used {
    memory: u64,
    /// Seconds of processor time for each step.
    server: Sample,
    workers: Sample,
}

impl Used {
    /// Notes what is used while something is measured with these workers.
    fn during(&mut self, rig: &Rig, workers: Vec<Process>, measure: impl FnOnce() -> f64) -> f64 {
        let of_server = || rig.server_process.as_ref().map_or(Duration::ZERO, processor_time);
        let before = of_server();
        let measured = measure();
        let of_step = |time: Duration| time.as_secs_f64() / STEPS_IN_ALL as f64;
        self.server.add(of_step(of_server() - before));
        self.workers.add(of_step(workers.iter().map(processor_time).sum()));
        self.memory = workers.iter().map(peak_memory).fold(self.memory, u64::max);
        measured
    }

    fn beside(&self, bare: &Self) -> [Row; 3] {
        let time = |of: &str, ours: &Sample, bare: &Sample| {
            let shown = |sample: &Sample| format!("{:.1} ms", 1000.0 * sample.median());
            let work = format!("a step on Temporal: processor time of {of}");
            Row::ratio(&work, shown(ours), shown(bare), ours.beside(bare))
        };
        [
            time("the server", &self.server, &bare.server),
            time("the workers, with the script", &self.workers, &bare.workers),
            Row::ratio(
                "a worker on Temporal: memory, beside a bare one",
                sample::mebibytes(self.memory),
                sample::mebibytes(bare.memory),
                self.memory as f64 / bare.memory as f64,
            ),
        ]
    }
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
    assert_eq!(times("step_finished").count(), STEPS_IN_ALL);
    Ok(ended.expect("steps").duration_since(begun.expect("steps")).as_secs_f64())
}

/// The processor time that a process and those of its children that have ended have used.
fn processor_time(process: &Process) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.0.id())).unwrap_or_default();
    // The name may have blanks. Behind it the times are the fields 12 to 15, in hundredths of a second.
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let times = behind_name.split_whitespace().skip(11).take(4);
    Duration::from_millis(10 * times.filter_map(|time| time.parse::<u64>().ok()).sum::<u64>())
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
