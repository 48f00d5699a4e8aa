use raymond::store::{Room, RunWriter};
use raymond_core::decide;
use raymond_core::event::Event;
use raymond_core::limits::MAX_INLINE_PAYLOAD_BYTES;
use raymond_core::workflow::StateFile;
use serde_json::json;

use super::*;
use crate::messages::FilesOfRun;
use crate::packed::MOST_BYTES;

#[test]
fn no_more_steps_are_started_than_a_history_has_room_for() {
    for (asked, allowed) in [(1, 1), (MOST_STARTED, MOST_STARTED), (5_000, MOST_STARTED)] {
        let mut options = Options { max_parallel: asked, max_parallel_scripts: asked, ..Options::default() };
        limit(&mut options);
        assert_eq!((options.max_parallel, options.max_parallel_scripts), (allowed, allowed));
    }
}

/// A run that has stopped, because its only state is missing.
fn stopped() -> Machine {
    let mut machine = run_with(String::new());
    machine.round(Timestamp::UNIX_EPOCH, Vec::new()).unwrap();
    assert!(!machine.is_open());
    machine
}

#[test]
fn a_resume_reads_states_again_only_if_they_may_be_others() {
    let now = |bundle: &str, scopes: &[&str]| WorkflowsNow {
        bundle: bundle.to_owned(),
        scopes: scopes.iter().map(|path| (*path).to_owned()).collect(),
        workflow_paths: Vec::new(),
        cd_paths: Vec::new(),
    };
    let model = |name: &str| Options { model: Some(name.to_owned()), ..Options::default() };
    let cases = [
        (Options::default(), None, None),
        (Options::default(), Some(now("old", &[])), None),
        (model("other"), None, Some("old")),
        (Options::default(), Some(now("new", &[])), Some("new")),
        (Options::default(), Some(now("old", &["/home/me/other"])), Some("old")),
    ];
    for (options, workflows, expected) in cases {
        let mut machine = stopped();
        let case = format!("{workflows:?}");
        let mail = Mail::Resume {
            options: Box::new(options),
            waits_for_answers: None,
            workflows: workflows.map(Box::new),
        };
        machine.take(mail);
        let wanted = machine.states_wanted().unwrap().map(|wanted| wanted.bundle);
        assert_eq!(wanted.as_deref(), expected, "{case}");
    }
}

#[test]
fn a_run_has_the_new_files_only_when_its_states_were_read_from_them() {
    let resume = || {
        let (scopes, paths) = (vec!["/home/me/wf".to_owned()], vec!["/shared".to_owned()]);
        let workflows =
            WorkflowsNow { bundle: "new".to_owned(), scopes, workflow_paths: paths, cd_paths: vec![] };
        Mail::Resume {
            options: Box::default(),
            waits_for_answers: None,
            workflows: Some(Box::new(workflows)),
        }
    };
    let mut machine = stopped();
    let inputs = machine.take(resume());
    machine.stay_stopped("the store is away".to_owned(), inputs);
    assert_eq!(machine.settings().files.bundle, "old");
    assert!(!machine.is_about_to_go_on());
    machine.take(resume());
    machine.use_states(FrozenStates::default());
    let files = &machine.settings().files;
    assert_eq!((files.bundle.as_str(), files.workflow_paths.len()), ("new", 1));
    assert!(machine.states_wanted().unwrap().is_none());
}

/// Such a stop may come hours later, because the server could not be reached from where it was asked for.
#[test]
fn a_stop_from_before_a_resume_is_ignored() {
    let stop = |seen: Option<u64>| {
        let content = serde_json::to_string(&StopRequest { incarnation: None, seen, now: false }).unwrap();
        Mail::Message { name: "stop-any".to_owned(), content }
    };
    let resume = || Mail::Resume { options: Box::default(), waits_for_answers: None, workflows: None };
    let is_stopped_by = |seen: Option<u64>| {
        let mut machine = stopped();
        machine.use_newer_rules();
        machine.take(resume());
        machine.take(stop(seen));
        machine.late_stop.is_some()
    };
    let last = stopped().run().seq;
    assert!(!is_stopped_by(Some(last - 1)), "the one who asked did not know that the run had stopped");
    assert!(is_stopped_by(Some(last)), "a run that was resumed and has no new event yet is stopped");
    assert!(is_stopped_by(Some(last + 1)));
    assert!(is_stopped_by(None), "a message of an earlier version");
    let mut machine = stopped();
    machine.take(resume());
    let snapshot = machine.snapshot(Vec::new(), Vec::new()).unwrap();
    assert_eq!(snapshot.resumed_after, last, "the next history has to know it");
    machine.take(stop(Some(last - 1)));
    assert!(machine.late_stop.is_some(), "earlier versions took every stop");

    let running = run_with(String::new());
    let snapshot = Snapshot { resumed_after: 7, ..running.snapshot(Vec::new(), Vec::new()).unwrap() };
    let from = From::Snapshot(Box::new(snapshot));
    let mut next = Machine::new("r", Timestamp::UNIX_EPOCH, running.settings().clone(), from).unwrap();
    next.use_newer_rules();
    for (seen, is_stopping) in [(6, false), (7, true)] {
        next.take(stop(Some(seen)));
        assert_eq!(next.is_stopping(), is_stopping, "{seen}");
    }
}

/// Messages of earlier versions have only the options.
#[test]
fn a_resume_of_an_earlier_version_is_understood() {
    let options = serde_json::to_value(Options::default()).unwrap();
    let mail: Mail = serde_json::from_value(serde_json::json!({ "Resume": { "options": options } })).unwrap();
    assert!(matches!(mail, Mail::Resume { workflows: None, .. }));
    let home: Home = serde_json::from_str(r#"{"host":"a","queue":"q.a"}"#).unwrap();
    assert_eq!(home.backends, None);
}

/// A text that cannot be made much shorter.
fn noise(length: usize) -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-";
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let numbers = std::iter::successors(Some(1_u64), next).skip(1);
    numbers.map(|number| letters[(number >> 58) as usize] as char).take(length).collect()
}

#[test]
fn results_that_are_long_together_are_put_together_by_a_machine_and_not_in_a_message() {
    let (of_before, of_now) = (Journal::new(false), Journal::new(true));
    let short = noise(MAX_INLINE_PAYLOAD_BYTES);
    let cases = [
        (short, Room::Here, Room::Here),
        (noise(PART_BYTES), Room::Here, Room::Elsewhere),
        (noise(3 * PART_BYTES), Room::Nowhere, Room::Elsewhere),
        ("x".repeat(3 * PART_BYTES), Room::Here, Room::Elsewhere),
    ];
    for (text, before, now) in cases {
        assert_eq!((of_before.room_for(&text), of_now.room_for(&text)), (before, now), "{}", text.len());
    }
}

/// A run of one agent, which is handed a text.
fn run_with(input: String) -> Machine {
    let started = RunStarted {
        version: raymond_core::event::FORMAT_VERSION,
        workflow: "wf".to_owned(),
        scope: "/wf".to_owned(),
        scope_hash: None,
        entry: StateFile::new("START.sh").unwrap(),
        cwd: "/".to_owned(),
        nonce: "nonce".to_owned(),
        labels: BTreeMap::new(),
        inputs: BTreeMap::new(),
        options: Options::default(),
        moved: Default::default(),
        origin: None,
    };
    let files = FilesOfRun {
        bundle: "old".to_owned(),
        project: "/".to_owned(),
        workflow_paths: Vec::new(),
        cd_paths: Vec::new(),
        repository: None,
        debug_folder: None,
    };
    let settings = Settings {
        queue: "q".to_owned(),
        heartbeat_ms: 1,
        patience_ms: 1,
        continue_after: 1,
        waits_for_answers: true,
        keeps_texts: true,
        files,
    };
    let opening = decide::start(started, Some(input));
    let from = From::Start { opening, states: FrozenStates::default() };
    Machine::new("r", Timestamp::UNIX_EPOCH, settings, from).unwrap()
}

#[test]
fn texts_of_a_state_that_is_too_large_are_replaced_by_references() {
    let text = noise(MAX_INLINE_PAYLOAD_BYTES);
    let mut machine = run_with(text.clone());
    let texts = machine.texts_to_keep();
    assert_eq!(texts, std::slice::from_ref(&text));
    machine.keeps_elsewhere(&texts).unwrap();
    assert!(machine.texts_to_keep().is_empty());
    let main = &machine.run().agents[&AgentId::main()];
    assert_eq!(main.payload, Some(reference_to(&text).unwrap()));
    assert!(run_with(noise(SHORT_TEXT_BYTES)).texts_to_keep().is_empty());
}

/// What failed may have run again since.
#[test]
fn what_was_put_together_before_a_resume_is_not_wanted() {
    let mut machine = run_with(String::new());
    let main = AgentId::main();
    let first = machine.join_order(main.clone()).unwrap();
    machine.stop(StopKind::Now);
    machine.round(Timestamp::UNIX_EPOCH, Vec::new()).unwrap();
    assert!(machine.wants_no_joins());
    machine.resume(Box::default(), None, None);
    assert!(!machine.has_joined(&main, first.number));
    let second = machine.join_order(main.clone()).unwrap();
    assert!(!machine.has_joined(&main, first.number));
    assert!(machine.has_joined(&main, second.number));
}

#[test]
fn each_part_of_the_joined_workers_fits_in_a_message() {
    let worker = |n: usize| {
        let result = noise(MAX_INLINE_PAYLOAD_BYTES);
        let worker = json!({
            "agent": format!("main_w{n}"), "state": "W.sh", "attributes": {}, "status": "done",
            "result": result, "error": null,
        });
        serde_json::from_value::<Joined>(worker).unwrap()
    };
    let workers: Vec<Joined> = (0..60).map(worker).collect();
    let parts = in_parts(workers.clone());
    assert!(parts.len() > 2);
    assert!(parts.iter().all(|part| Packed::new(part).unwrap().bytes() < MOST_BYTES));
    assert_eq!(parts.concat(), workers);
}

#[test]
fn a_batch_of_several_long_reports_is_told_in_parts() {
    let long = |seq: u64| {
        let body = Body::Warning { agent: None, step: None, state: None, message: noise(PART_BYTES - 1000) };
        Event { seq, time: Timestamp::UNIX_EPOCH, run: "r".to_owned(), body }
    };
    let mut journal = Journal::default();
    journal.commit(&[long(1), long(2), long(3)]).unwrap();
    let kept = journal.kept();
    let part = kept.part(kept.batches.iter().cloned());
    assert_eq!((kept.batches.len(), part.last()), (3, Some(1)));
    assert!(Packed::new(&part).unwrap().bytes() < MOST_BYTES);
}
