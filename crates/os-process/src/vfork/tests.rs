//! Real programs, started with `vfork`.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use rustix::process::Rlimit;
use tempfile::TempDir;

use super::*;

const ISOLATION: Isolation = Isolation { parent_death_signal: Signal::KILL, file_limit: None };

/// Long enough that only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(120);

struct Test {
    folder: TempDir,
    isolation: Isolation,
    path: Option<OsString>,
    cgroup: Option<File>,
}

impl Test {
    fn new() -> Self {
        Test { folder: TempDir::new().unwrap(), isolation: ISOLATION, path: None, cgroup: None }
    }

    /// A file written by another process. If this process wrote it, a child of another test might still have it open,
    /// and a file that is open for writing cannot be executed.
    fn file(&self, name: &str, text: &str, mode: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let script = "mkdir -p \"$(dirname \"$0\")\" && printf %s \"$1\" > \"$0\" && chmod \"$2\" \"$0\"";
        let mut shell = std::process::Command::new("sh");
        assert!(shell.args(["-c", script]).arg(&path).args([text, mode]).status().unwrap().success());
        path
    }

    fn start(&self, program: &OsStr, args: &[&str], stdout: BorrowedFd<'_>) -> io::Result<VforkChild> {
        let null = File::options().read(true).write(true).open("/dev/null").unwrap();
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let env: Vec<_> = self.path.iter().map(|path| (OsStr::new("PATH"), Some(path.as_os_str()))).collect();
        Spawn {
            program,
            args: &args,
            env: &env,
            cwd: self.folder.path(),
            streams: [null.as_fd(), stdout, null.as_fd()],
            isolation: self.isolation,
            cgroup: self.cgroup.as_ref().map(File::as_fd),
        }
        .start()
    }

    /// Starts a program, waits for its end and returns what it printed.
    async fn run(&self, program: impl AsRef<OsStr>, args: &[&str]) -> io::Result<String> {
        let (mut output, stdout) = io::pipe()?;
        let mut child = self.start(program.as_ref(), args, stdout.as_fd())?;
        drop(stdout);
        let mut text = String::new();
        output.read_to_string(&mut text)?;
        assert!(child.wait().await?.success());
        Ok(text)
    }

    async fn shell(&self, script: &str) -> String {
        self.run("sh", &["-c", script]).await.unwrap()
    }

    async fn error(&self, program: impl AsRef<OsStr>) -> io::ErrorKind {
        self.run(program, &[]).await.unwrap_err().kind()
    }
}

#[tokio::test]
async fn a_child_leads_its_process_group_and_runs_in_its_folder() {
    let test = Test::new();
    let text = test.shell("cut -d' ' -f5 /proc/$$/stat; echo $$; pwd -P").await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], lines[1]);
    assert_eq!(Path::new(lines[2]), test.folder.path().canonicalize().unwrap());
}

#[tokio::test]
async fn a_child_gets_its_file_limit_and_no_file_descriptors_but_its_own() {
    let mut test = Test::new();
    test.isolation.file_limit = Some(Rlimit { current: Some(77), maximum: Some(88) });
    assert_eq!(test.shell("ulimit -Sn; ulimit -Hn").await, "77\n88\n");
    let usual = std::process::Command::new("ls").arg("/proc/self/fd").output().unwrap();
    let usual = String::from_utf8(usual.stdout).unwrap();
    assert_eq!(test.run("ls", &["/proc/self/fd"]).await.unwrap(), usual);
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let mut test = Test::new();
    let (not_executable, no_interpreter) =
        (test.file("a", "", "644"), test.file("b", "#!/no/such/file\n", "755"));
    assert_eq!(test.error("/no/such/file").await, io::ErrorKind::NotFound);
    assert_eq!(test.error("no-such-program").await, io::ErrorKind::NotFound);
    assert_eq!(test.error(&not_executable).await, io::ErrorKind::PermissionDenied);
    assert_eq!(test.error(&no_interpreter).await, io::ErrorKind::NotFound);
    assert_eq!(test.error("zero\0byte").await, io::ErrorKind::InvalidInput);
    let name = "x".repeat(1 << 20);
    test.path = Some(name.into());
    assert_eq!(test.error("/bin/true").await, io::ErrorKind::ArgumentListTooLong);
}

#[tokio::test]
async fn a_program_is_looked_up_like_in_a_shell() {
    let mut test = Test::new();
    test.file("first/tool", "#!/bin/sh\necho first\n", "644");
    // Without an interpreter line, so it is run by /bin/sh.
    test.file("second/tool", "echo \"second $1\"\n", "755");
    let search = |names: &[&str]| {
        Some(std::env::join_paths(names.iter().map(|name| test.folder.path().join(name))).unwrap())
    };
    let (both, first) = (search(&["none", "first", "second"]), search(&["first", "none"]));
    test.path = both;
    assert_eq!(test.run("tool", &["argument"]).await.unwrap(), "second argument\n");
    // An empty entry is the working folder of the child.
    test.path = Some("".into());
    test.file("tool", "echo here\n", "755");
    assert_eq!(test.run("tool", &[]).await.unwrap(), "here\n");
    test.path = first;
    assert_eq!(test.error("tool").await, io::ErrorKind::PermissionDenied);
}

/// The parent-death signal follows the thread, not the process.
#[tokio::test]
async fn a_child_ends_with_the_thread_that_started_it() {
    let test = Test::new();
    let runtime = tokio::runtime::Handle::current();
    let mut child = thread::scope(|scope| {
        let start = || {
            let _entered = runtime.enter();
            let null = File::options().write(true).open("/dev/null").unwrap();
            test.start(OsStr::new("sleep"), &["1000"], null.as_fd()).unwrap()
        };
        scope.spawn(start).join().unwrap()
    });
    let status = tokio::time::timeout(DEADLINE, child.wait()).await.expect("it lives on").unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
}

/// The parent died between the start of the child and the request for a signal: the child does not run the program.
#[tokio::test]
async fn a_child_whose_parent_is_dead_runs_nothing() {
    let test = Test::new();
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let env = EnvBlock::new(&[]).unwrap();
    let args = [OsString::from("ran")];
    let spawn = Spawn {
        program: OsStr::new("/usr/bin/touch"),
        args: &args,
        env: &[],
        cwd: test.folder.path(),
        streams: [null.as_fd(); 3],
        isolation: ISOLATION,
        cgroup: None,
    };
    let mut prepared = Prepared::new(&spawn, &env).unwrap();
    prepared.parent = Pid::INIT;
    let error = prepared.start(&c"/usr/bin/touch".to_owned()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert!(!test.folder.path().join("ran").exists());
}

#[tokio::test]
async fn a_program_starts_although_its_cgroup_cannot_be_used() {
    let mut test = Test::new();
    test.cgroup = Some(File::open(test.folder.path()).unwrap());
    assert_eq!(test.run("echo", &["started"]).await.unwrap(), "started\n");
    let (_output, stdout) = io::pipe().unwrap();
    let mut child = test.start(OsStr::new("true"), &[], stdout.as_fd()).unwrap();
    assert!(!child.is_in_cgroup());
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn a_dropped_child_does_not_stay_a_zombie() {
    let test = Test::new();
    let (mut output, stdout) = io::pipe().unwrap();
    let child = test.start(OsStr::new("cat"), &["/dev/zero"], stdout.as_fd()).unwrap();
    let pid = child.id();
    drop((child, stdout));
    output.read_exact(&mut [0]).unwrap();
    // The writer of a pipe without a reader ends.
    drop(output);
    while Path::new(&format!("/proc/{pid}")).exists() {
        test.run("true", &[]).await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_with_a_standard_number_is_left_to_the_standard_library() {
    let test = Test::new();
    let error = test.start(OsStr::new("true"), &[], io::stdout().as_fd()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}
