use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::rig::*;
use crate::process::*;

async fn refusal(rig: &Rig, launch: Launch) -> String {
    let outcome = rig.supervise(launch, &mut Collector::default()).await;
    assert_eq!(outcome.group, None);
    match outcome.ending {
        Ending::SpawnFailed(error) => error.to_string(),
        other => panic!("it started: {other:?}"),
    }
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let rig = Rig::new();
    let launch = Launch::new("no-such-program-here", rig.folder.path(), unique_token());
    assert_eq!(refusal(&rig, launch).await, "the program `no-such-program-here` was not found on PATH");
    let launch = Launch::new("/no/such/program", rig.folder.path(), unique_token());
    assert_eq!(refusal(&rig, launch).await, "the program /no/such/program does not exist");
}

#[tokio::test]
async fn a_missing_working_directory_is_named_and_not_the_program() {
    let rig = Rig::new();
    let launch = Launch::new("bash", "/no/such/folder", unique_token());
    assert_eq!(refusal(&rig, launch).await, "the working directory /no/such/folder does not exist");
    let launch = Launch::new("bash", "/dev/null", unique_token());
    assert_eq!(refusal(&rig, launch).await, "the working directory /dev/null is not a directory");
}

#[tokio::test]
async fn a_file_that_cannot_be_run_says_why() {
    let rig = Rig::new();
    let path = rig.folder.path().join("script");
    fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    let launch = || Launch::new(&path, rig.folder.path(), unique_token());
    assert!(refusal(&rig, launch()).await.contains("is it executable?"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(refusal(&rig, launch()).await.starts_with("the interpreter that "));
    let _writer = fs::File::options().append(true).open(&path).unwrap();
    assert!(refusal(&rig, launch()).await.contains("while something writes to it"));
}

#[tokio::test]
async fn too_much_to_hand_over_says_so() {
    let rig = Rig::new();
    let mut launch = rig.launch("true");
    launch.env.push(("HUGE".into(), Some("x".repeat(1 << 20).into())));
    let text = refusal(&rig, launch).await;
    assert_eq!(text, "the arguments and environment for bash are longer than the system allows");
}

#[tokio::test]
async fn nothing_starts_after_a_stop() {
    let rig = Rig::new();
    rig.stop.trigger();
    let (outcome, _) = rig.run("echo started > file").await;
    assert!(matches!(outcome.ending, Ending::Stopped));
    assert!(!rig.folder.path().join("file").exists());
}

#[tokio::test]
async fn the_environment_is_inherited_changed_and_marked() {
    let rig = Rig::new();
    let mut launch = rig.launch(r#"echo "${PATH:+path} ${HOME-none} $NEW $RAYMOND_STEP_TOKEN $PWD""#);
    launch.env = vec![
        ("NEW".into(), Some("a b".into())),
        ("HOME".into(), None),
        (TOKEN_VARIABLE.into(), Some("stolen".into())),
    ];
    launch.token = "mine".to_owned();
    let mut collector = Collector::default();
    assert!(rig.supervise(launch, &mut collector).await.ending.is_success());
    let expected = format!("path none a b mine {}\n", rig.folder.path().display());
    assert_eq!(String::from_utf8(collector.stdout).unwrap(), expected);
}

#[tokio::test]
async fn the_program_leads_its_own_group_and_reads_nothing() {
    let rig = Rig::new();
    let (outcome, collector) = rig.run("cat; ps -o pgid= -p $$ | tr -d ' '; echo $$").await;
    assert!(outcome.ending.is_success());
    let pid = outcome.group.unwrap();
    assert_eq!(String::from_utf8(collector.stdout).unwrap(), format!("{pid}\n{pid}\n"));
}

/// The engine may want to move a step to a task of its own.
#[tokio::test]
async fn a_supervised_step_can_be_a_task() {
    let rig = Rig::new();
    let task = tokio::spawn(async move {
        let mut sink = Collector::default();
        let launch = rig.launch("true");
        supervise(launch, rig.limits, &mut sink, rig.stop.clone(), &rig.reaper, rig.after_exit).await
    });
    assert!(task.await.unwrap().ending.is_success());
}
