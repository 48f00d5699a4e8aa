use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::rig::*;
use crate::process::*;

/// A file written by another process. If this process wrote it, a child of another test might still have it open between
/// fork and exec, and a file that is open for writing cannot be executed.
fn write_program(path: &Path, text: &str, mode: &str) {
    let script = "printf %s \"$1\" > \"$0\" && chmod \"$2\" \"$0\"";
    let mut shell = std::process::Command::new("bash");
    assert!(shell.args(["-c", script]).arg(path).args([text, mode]).status().unwrap().success());
}

async fn refusal(rig: &Rig, spec: ProgramSpec) -> String {
    let outcome = rig.supervise(spec, &mut Collector::default()).await;
    assert_eq!(outcome.target, None);
    match outcome.ending {
        Ending::SpawnFailed(error) => error.to_string(),
        other => panic!("it started: {other:?}"),
    }
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let rig = Rig::new();
    let spec = ProgramSpec::new("no-such-program-here", rig.folder.path(), unique_token());
    assert_eq!(refusal(&rig, spec).await, "the program `no-such-program-here` was not found on PATH");
    let spec = ProgramSpec::new("/no/such/program", rig.folder.path(), unique_token());
    assert_eq!(refusal(&rig, spec).await, "the program /no/such/program does not exist");
}

#[tokio::test]
async fn a_missing_working_directory_is_named_and_not_the_program() {
    let rig = Rig::new();
    let spec = ProgramSpec::new("bash", "/no/such/folder", unique_token());
    assert_eq!(refusal(&rig, spec).await, "the working directory /no/such/folder does not exist");
    let spec = ProgramSpec::new("bash", "/dev/null", unique_token());
    assert_eq!(refusal(&rig, spec).await, "the working directory /dev/null is not a directory");
}

#[tokio::test]
async fn a_file_that_cannot_be_run_says_why() {
    let rig = Rig::new();
    let path = rig.folder.path().join("script");
    write_program(&path, "#!/no/such/interpreter\n", "644");
    let spec = || ProgramSpec::new(&path, rig.folder.path(), unique_token());
    assert!(refusal(&rig, spec()).await.contains("is it executable?"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(refusal(&rig, spec()).await.starts_with("the interpreter that "));
    let _writer = fs::File::options().append(true).open(&path).unwrap();
    assert!(refusal(&rig, spec()).await.contains("while something writes to it"));
}

#[tokio::test]
async fn too_long_an_environment_says_so() {
    let rig = Rig::new();
    let mut spec = rig.spec("true");
    spec.env.push(("HUGE".into(), Some("x".repeat(1 << 20).into())));
    let text = refusal(&rig, spec).await;
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
    let mut spec = rig.spec(r#"echo "${PATH:+path} ${HOME-none} $NEW $RAYMOND_STEP_TOKEN $PWD""#);
    spec.env = vec![
        ("NEW".into(), Some("a b".into())),
        ("HOME".into(), None),
        (TOKEN_VARIABLE.into(), Some("stolen".into())),
    ];
    spec.token = "mine".to_owned();
    let mut collector = Collector::default();
    assert!(rig.supervise(spec, &mut collector).await.ending.is_success());
    let expected = format!("path none a b mine {}\n", rig.folder.path().display());
    assert_eq!(String::from_utf8(collector.stdout).unwrap(), expected);
}

#[tokio::test]
async fn the_program_leads_its_own_group_and_reads_nothing() {
    let rig = Rig::new();
    let (outcome, collector) = rig.run("cat; cut -d' ' -f5 /proc/$$/stat; echo $$").await;
    assert!(outcome.ending.is_success());
    let pid = outcome.target.unwrap().group.unwrap().id;
    assert_eq!(String::from_utf8(collector.stdout).unwrap(), format!("{pid}\n{pid}\n"));
}

/// The future must be `Send`.
#[tokio::test]
async fn a_supervised_step_can_be_a_task() {
    let rig = Rig::new();
    let task = tokio::spawn(async move {
        let mut sink = Collector::default();
        let spec = rig.spec("true");
        supervise(spec, rig.limits, &mut sink, rig.stop.clone(), &rig.reaper, rig.after_exit).await
    });
    assert!(task.await.unwrap().ending.is_success());
}

/// A script without an interpreter line is run by the shell.
#[tokio::test]
async fn a_script_without_an_interpreter_line_is_run_all_the_same() {
    let rig = Rig::new();
    let path = rig.folder.path().join("script");
    write_program(&path, "echo \"$0 $1\"\n", "755");
    let mut spec = ProgramSpec::new(&path, rig.folder.path(), unique_token());
    spec.args = vec!["argument".into()];
    let mut collector = Collector::default();
    assert!(rig.supervise(spec, &mut collector).await.ending.is_success());
    assert_eq!(String::from_utf8(collector.stdout).unwrap(), format!("{} argument\n", path.display()));
}

/// The step's own PATH is used, and a file that is not executable does not hide a later one that is.
#[tokio::test]
async fn a_program_is_looked_up_on_the_path_of_the_step() {
    let rig = Rig::new();
    let folder = |name: &str| rig.folder.path().join(name);
    for (name, mode) in [("first", "644"), ("second", "755")] {
        fs::create_dir(folder(name)).unwrap();
        write_program(&folder(name).join("my-tool"), &format!("#!/bin/sh\necho {name}\n"), mode);
    }
    let search = |names: &[&str]| std::env::join_paths(names.iter().map(|name| folder(name))).unwrap();
    let spec = |names: &[&str]| {
        let mut spec = ProgramSpec::new("my-tool", rig.folder.path(), unique_token());
        spec.env.push(("PATH".into(), Some(search(names))));
        spec
    };
    let mut collector = Collector::default();
    let outcome = rig.supervise(spec(&["none", "first", "second"]), &mut collector).await;
    assert!(outcome.ending.is_success(), "{outcome:?}");
    assert_eq!(String::from_utf8(collector.stdout).unwrap(), "second\n");
    assert!(refusal(&rig, spec(&["first", "none"])).await.contains("is it executable?"));
}

/// How a program is started differs between systems and kernels; what it gets must not.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn every_way_of_starting_gives_the_program_the_same() {
    let rig = Rig::new();
    let looks =
        "cat; pwd; env | sort | grep -v '^_='; cut -d' ' -f5 /proc/$$/stat | grep -qx $$ && echo leader
        grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls -l /proc/self/fd | wc -l";
    let mut spec = rig.spec(looks);
    spec.stdin = b"input\n".to_vec();
    let mut found = Vec::new();
    for is_common in [false, true] {
        let started = if is_common {
            spawn::start_commonly(&spec).await.unwrap()
        } else {
            spawn::start(&spec, None).await.unwrap()
        };
        let (mut child, mut streams) = started;
        let input = Input { bytes: spec.stdin.clone(), is_last: true };
        let mut stdin = streams::StdinWriter::new(child.take_stdin(), input);
        let mut text = Vec::new();
        while !streams.are_closed() {
            tokio::select! {
                (source, bytes) = streams.next() => {
                    assert!(source == streams::Source::Stdout || bytes.is_empty(), "{bytes:?}");
                    text.extend_from_slice(bytes);
                }
                never = stdin.run() => match never {},
            }
        }
        assert!(child.wait().await.unwrap().success());
        found.push(String::from_utf8(text).unwrap());
    }
    assert!(found[0].starts_with("input\n") && found[0].contains("\nleader\n"), "{}", found[0]);
    assert_eq!(found[0], found[1]);
}
