use std::fs;
use std::path::{Path, PathBuf};

use raymond_core::event::{StepFailed, StoppedStatus, Totals};
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::workflow::StateFile;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::LocalSet;

use super::*;
use crate::store::RunStore;
use crate::store::memory::MemoryStore;

/// Runs a command for some events; returns its folder and the warning.
async fn notified(command: &str, bounds: Bounds, events: &[Event]) -> (TempDir, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let command = command.replace("HERE", folder.path().to_str().unwrap());
    let warning = LocalSet::new()
        .run_until(async {
            let notifier = Notifier::with_bounds(command, payloads(), bounds);
            events.iter().for_each(|event| notifier.notify_of(event));
            notifier.finish().await
        })
        .await;
    (folder, warning)
}

/// None are stored.
fn payloads() -> Payloads {
    MemoryStore::default().run("run-1").unwrap().payloads()
}

fn event(seq: u64, body: Body) -> Event {
    Event { seq, time: jiff::Timestamp::UNIX_EPOCH, run: "run-1".to_owned(), body }
}

fn over_budget(seq: u64) -> Event {
    let body = Body::BudgetExceeded { cost_usd: Usd::ZERO, budget_usd: Usd::ZERO };
    event(seq, body)
}

fn failed(seq: u64, error: &str) -> Event {
    event(
        seq,
        Body::StepFailed(StepFailed {
            agent: AgentId::main(),
            title: None,
            step: Some(1),
            state: StateFile::new("A.sh").unwrap(),
            error: error.to_owned(),
            exit_code: None,
            stderr: String::new(),
            message: None,
            output: String::new(),
            output_file: None,
            fatal: true,
            cost_usd: Usd::ZERO,
            attempt_cost_usd: Usd::ZERO,
            cost_estimated: false,
            tokens: Default::default(),
            duration_ms: 0,
        }),
    )
}

fn stopped(seq: u64) -> Event {
    event(
        seq,
        Body::RunStopped {
            asks: Vec::new(),
            status: StoppedStatus::Failed,
            error: None,
            terminated: false,
            interrupted: Vec::new(),
            totals: Totals { steps: 1, agents: 1, cost_usd: Usd::ZERO, duration_ms: 0, failed_workers: 0 },
        },
    )
}

fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap()
}

/// A named pipe: reading it to its end waits until all processes that write to it have ended.
fn fifo(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

fn read_to_end(pipe: PathBuf) -> tokio::task::JoinHandle<String> {
    tokio::task::spawn_blocking(move || fs::read_to_string(pipe).unwrap())
}

/// Waits for the reader. If the command was ended before it opened the pipe, opening it here lets the reader go on.
async fn join(reader: tokio::task::JoinHandle<String>, pipe: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    let not_blocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    while !reader.is_finished() {
        let _ = fs::OpenOptions::new().write(true).custom_flags(not_blocking).open(pipe);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    reader.await.unwrap();
}

#[tokio::test]
async fn the_command_gets_the_event() {
    let events = [failed(1, "no"), over_budget(2), stopped(3)];
    let bounds = Bounds { at_once: 1, ..Bounds::default() };
    let (folder, warning) =
        notified(r#"echo "$RAYMOND_EVENT $RAYMOND_RUN_ID" >> HERE/told; cat >> HERE/json"#, bounds, &events)
            .await;
    assert_eq!(warning, None);
    assert_eq!(read(&folder, "told"), "step_failed run-1\nbudget_exceeded run-1\nrun_stopped run-1\n");
    let json = read(&folder, "json");
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["error"], "no");
    assert_eq!(lines[2]["event"], "run_stopped");
}

#[tokio::test]
async fn the_command_is_not_run_for_other_events() {
    let print = Body::Warning { agent: None, step: None, state: None, message: "hm".to_owned() };
    let (folder, warning) = notified("touch HERE/told", Bounds::default(), &[event(1, print)]).await;
    assert_eq!(warning, None);
    assert!(!folder.path().join("told").exists());
}

#[tokio::test]
async fn a_command_need_not_read_its_input() {
    let long = "x".repeat(1024 * 1024);
    let (_folder, warning) = notified("exit 0", Bounds::default(), &[failed(1, &long)]).await;
    assert_eq!(warning, None);
}

#[tokio::test]
async fn the_first_failure_is_reported() {
    let bounds = Bounds { at_once: 1, ..Bounds::default() };
    let command = r#"[ "$RAYMOND_EVENT" = run_stopped ] && exit 4; exit 3"#;
    let (_folder, warning) = notified(command, bounds, &[over_budget(1), stopped(2)]).await;
    let warning = warning.unwrap();
    assert!(warning.ends_with("`: ended with exit status: 3 (for budget_exceeded)"), "{warning}");
}

#[tokio::test]
async fn a_command_that_hangs_is_ended_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = fifo(&folder);
    let all_dead = read_to_end(pipe.clone());
    let bounds = Bounds { patience: Duration::from_millis(300), ..Bounds::default() };
    let command = format!("exec > {}; sleep 1000 & sleep 1000", pipe.display());
    let (_folder, warning) = notified(&command, bounds, &[over_budget(1)]).await;
    assert!(
        warning.unwrap().contains("took longer than 0 s and was ended"),
        "the time limit is what ended it"
    );
    join(all_dead, &pipe).await;
}

#[tokio::test]
async fn the_end_of_the_run_does_not_wait_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = fifo(&folder);
    let all_dead = read_to_end(pipe.clone());
    let bounds = Bounds { at_once: 1, farewell: Duration::from_millis(300), ..Bounds::default() };
    let command = format!("exec > {}; sleep 1000", pipe.display());
    let (_folder, warning) = notified(&command, bounds, &[over_budget(1), stopped(2)]).await;
    let warning = warning.unwrap();
    assert!(warning.contains("2 had not finished"), "{warning}");
    join(all_dead, &pipe).await;
}

#[tokio::test]
async fn the_commands_keep_the_order_of_the_events() {
    let command = r#"[ "$RAYMOND_EVENT" = step_failed ] && sleep 0.1; echo "$RAYMOND_EVENT" >> HERE/told"#;
    let events = [failed(1, "no"), over_budget(2), stopped(3)];
    let (folder, warning) = notified(command, Bounds::default(), &events).await;
    assert_eq!(warning, None);
    assert_eq!(read(&folder, "told"), "step_failed\nbudget_exceeded\nrun_stopped\n");
}

/// The commands for earlier events end only after the last one has started, so they must run at the same time.
#[tokio::test]
async fn the_end_is_told_after_any_number_of_failures() {
    let command = r#"case "$RAYMOND_EVENT" in run_stopped) touch HERE/told;; esac
        while [ ! -e HERE/told ]; do sleep 0.05; done"#;
    let bounds = Bounds { at_once: 20, alone: Duration::from_secs(1000), ..Bounds::default() };
    let events: Vec<Event> = (1..10).map(|seq| failed(seq, "no")).chain([stopped(10)]).collect();
    let (_folder, warning) = notified(command, bounds, &events).await;
    assert_eq!(warning, None);
}

#[tokio::test]
async fn a_command_that_hangs_does_not_block_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = fifo(&folder);
    let bounds = Bounds { alone: Duration::ZERO, ..Bounds::default() };
    let command = format!(
        r#"case "$RAYMOND_EVENT" in budget_exceeded) read -r _ < {0};; *) echo go > {0};; esac"#,
        pipe.display()
    );
    let (_folder, warning) = notified(&command, bounds, &[over_budget(1), stopped(2)]).await;
    assert_eq!(warning, None, "the first can only end when the second has started");
}

#[tokio::test]
async fn the_number_of_commands_and_of_queued_events_is_bounded() {
    let bounds = Bounds { at_once: 2, queued: 3, ..Bounds::default() };
    // All five events come before the first command starts, so all of them are queued.
    let events: Vec<Event> = (1..=5).map(over_budget).collect();
    let (folder, warning) = notified(
        r#"mkdir HERE/busy.$$; ls -d HERE/busy.* | wc -l >> HERE/busy; cat >> HERE/json; rmdir HERE/busy.$$"#,
        bounds,
        &events,
    )
    .await;
    assert!(warning.unwrap().ends_with("2 events came faster than it could take them and were left out"));
    let json = read(&folder, "json");
    let mut told: Vec<u64> =
        json.lines().map(|line| serde_json::from_str::<Event>(line).unwrap().seq).collect();
    told.sort_unstable();
    assert_eq!(told, [3, 4, 5]);
    let busy = read(&folder, "busy");
    assert!(busy.lines().all(|line| line.trim().parse::<usize>().unwrap() <= 2), "{busy}");
}

#[tokio::test]
async fn a_notifier_that_was_idle_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = fifo(&folder);
    let command = format!("cat > {}", pipe.display());
    let warning = LocalSet::new()
        .run_until(async {
            let notifier = Notifier::new(command, payloads());
            for seq in 1..=20 {
                notifier.notify_of(&over_budget(seq));
                let told = read_to_end(pipe.clone()).await.unwrap();
                let told: Event = serde_json::from_str(&told).unwrap();
                assert_eq!(told.seq, seq);
            }
            notifier.finish().await
        })
        .await;
    assert_eq!(warning, None);
}
