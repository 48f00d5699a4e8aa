//! A private working folder, the program in it, and ways to wait for things.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{fake, programs};

/// Longer than anything here takes, even on a slow and busy machine: what is not there by then never comes. What is to
/// outlive all waiting sleeps for 300 seconds and more.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Every process that a rig's programs start carries this variable, so that survivors can be found.
const MARK: &str = "TEST_MARK";

/// A folder of its own with a clean environment.
pub struct Rig {
    root: TempDir,
    raymond: PathBuf,
    mark: String,
}

/// How a program ended, and what it said.
#[derive(Debug)]
pub struct Done {
    /// Its exit code; after a signal 128 and the signal's number, as a shell has it.
    pub exit: i32,
    /// Everything that it wrote to standard output.
    pub stdout: String,
    /// Everything that it wrote to standard error.
    pub stderr: String,
}

impl Rig {
    /// An empty workflow `workflow` in an empty project. `raymond` is the program under test: in the tests of its own package
    /// `env!("CARGO_BIN_EXE_raymond")`.
    pub fn new(raymond: impl Into<PathBuf>) -> Self {
        // Under `nohup` the programs would inherit that a hangup is ignored, and the tests of it would wait in vain.
        os_process::stop_ignoring(Signal::HUP).unwrap();
        let root = tempfile::tempdir().unwrap();
        // Pids come back, and are not the same in every container.
        let mark = root.path().display().to_string();
        let rig = Self { root, raymond: raymond.into(), mark };
        // Raymond looks no further up than this for its own folder.
        fs::create_dir_all(rig.work().join(".git")).unwrap();
        fs::create_dir_all(rig.work().join("workflow")).unwrap();
        fs::create_dir_all(rig.root.path().join("out")).unwrap();
        rig
    }

    /// The same with the program in a folder of its own: beside the original may lie others, which it would find.
    pub fn alone(raymond: impl Into<PathBuf>) -> Self {
        let mut rig = Self::new(raymond);
        let own = rig.root.path().join("alone/raymond");
        fs::create_dir(own.parent().unwrap()).unwrap();
        fs::hard_link(&rig.raymond, &own).or_else(|_| fs::copy(&rig.raymond, &own).map(drop)).unwrap();
        rig.raymond = own;
        rig
    }

    /// Where the program is started.
    pub fn work(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("work")
    }

    /// The home folder of the programs.
    pub fn home(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    /// A file or folder below [`work`](Self::work).
    pub fn path(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// Writes a file below [`work`](Self::work), with the folders above it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A state of the workflow `workflow`.
    pub fn state(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        self.write(&format!("workflow/{name}"), text);
        self
    }

    /// Puts the stand-in for Claude Code on the search path. `script` is what it does; see `fake-claude/src/main.rs`.
    pub fn agent(&self, script: &str) -> &Self {
        let bin = self.fake().join("bin");
        fs::create_dir_all(&bin).unwrap();
        let link = bin.join("claude");
        if !link.exists() {
            std::os::unix::fs::symlink(programs::fake_claude(), link).unwrap();
        }
        fs::write(self.fake().join("script.json"), script).unwrap();
        self
    }

    /// The stand-in's own folder, with its sessions, its record of calls and its gates.
    pub fn fake(&self) -> PathBuf {
        self.root.path().join("fake")
    }

    /// Lets turns go on that are held by this name.
    pub fn open_gate(&self, name: &str) {
        fs::write(self.fake().join(name), "").unwrap();
    }

    /// What the stand-in was called with, call by call.
    pub fn calls(&self) -> Vec<Value> {
        fake::lines(&self.fake().join("calls.jsonl"))
    }

    /// Waits until the stand-in was called so many times.
    #[track_caller]
    pub fn wait_for_calls(&self, number: usize) {
        wait_until(&format!("{number} calls of the agent program"), || self.calls().len() >= number);
    }

    /// The text of a file below [`work`](Self::work); empty if there is none.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// The journal of the run `r`.
    pub fn journal(&self) -> PathBuf {
        self.path(".raymond/state/r.jsonl")
    }

    /// The program under test, ready to be started.
    pub fn command<S: AsRef<str>>(&self, args: &[S]) -> Command {
        let mut command = self.program(&self.raymond);
        command.args(args.iter().map(AsRef::as_ref));
        command
    }

    /// A program, ready to be started with nothing inherited but the search path.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.work()).stdin(Stdio::null()).env_clear();
        let path = std::env::var("PATH").unwrap_or_default();
        if let Some(folder) = std::env::var_os("TMPDIR") {
            command.env("TMPDIR", folder);
        }
        if self.fake().exists() {
            command.env("PATH", format!("{}:{path}", self.fake().join("bin").display()));
            command.env("FAKE_CLAUDE_HOME", self.fake());
        } else {
            command.env("PATH", path);
        }
        command.env("HOME", self.root.path()).env("LANG", "C.UTF-8");
        command.env(MARK, &self.mark);
        command
    }

    /// Runs the program to its end.
    pub fn raymond<S: AsRef<str>>(&self, args: &[S]) -> Done {
        self.start(args).wait()
    }

    /// Runs `workflow` as the run `r`.
    pub fn run(&self) -> Done {
        self.raymond(&["workflow", "--id", "r"])
    }

    /// Resumes the run `r`.
    pub fn resume(&self) -> Done {
        self.raymond(&["resume", "r"])
    }

    /// Starts the program and does not wait for it.
    pub fn start<S: AsRef<str>>(&self, args: &[S]) -> Live {
        self.launch(self.command(args))
    }

    /// Starts a command with its output in files, so that no pipe fills up.
    pub fn launch(&self, mut command: Command) -> Live {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = |name: &str| self.root.path().join("out").join(format!("{number}.{name}"));
        let (stdout, stderr) = (file("stdout"), file("stderr"));
        command.stdout(File::create(&stdout).unwrap());
        command.stderr(File::create(&stderr).unwrap());
        Live { child: command.spawn().unwrap(), stdout, stderr }
    }

    /// Lets the runs count that the test itself has put into `.raymond`.
    #[track_caller]
    pub fn adopt(&self) {
        let done = self.raymond(&["doctor", "--adopt", "--yes"]);
        assert_eq!(done.exit, 0, "{done:?}");
    }

    /// `status --json` of the run `r`.
    pub fn status(&self) -> Value {
        let done = self.raymond(&["status", "r", "--json"]);
        assert_eq!(done.exit, 0, "{done:?}");
        serde_json::from_str(&done.stdout).unwrap()
    }

    /// Everything that happened in the run `r`.
    pub fn events(&self) -> Vec<Value> {
        let done = self.raymond(&["log", "r", "--json"]);
        assert_eq!(done.exit, 0, "{done:?}");
        done.lines().collect()
    }

    /// Pids and command lines of what steps of this rig have left alive.
    pub fn survivors(&self) -> Vec<(i32, String)> {
        let mark = format!("{MARK}={}", self.mark);
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else {
                continue;
            };
            // What dies while it is looked at, and zombies, show nothing here.
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
                let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
            }
        }
        found
    }

    /// Nothing lives but the program itself.
    pub fn assert_no_step_lives(&self, live: &Live) {
        let others: Vec<_> = self.survivors().into_iter().filter(|(pid, _)| *pid != live.pid()).collect();
        assert_eq!(others, [], "processes run");
    }

    /// No process of this rig is left.
    pub fn assert_nothing_lives(&self) {
        assert_eq!(self.survivors(), [], "processes are left alive");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for (pid, _) in self.survivors() {
            send(pid, Signal::KILL);
        }
    }
}

impl Done {
    /// Stdout as JSON lines.
    pub fn lines(&self) -> impl Iterator<Item = Value> + '_ {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// It ended with this exit code and wrote exactly this to standard output.
    #[track_caller]
    pub fn assert(&self, exit: i32, stdout: &str) -> &Self {
        assert_eq!((self.exit, self.stdout.as_str()), (exit, stdout), "stderr: {}", self.stderr);
        self
    }

    /// It ended with this exit code.
    #[track_caller]
    pub fn assert_is(&self, exit: i32) -> &Self {
        assert_eq!(self.exit, exit, "stderr: {}", self.stderr);
        self
    }

    /// It wrote this to standard error, among other things.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "not in stderr: {text}\n{}", self.stderr);
        self
    }
}

/// A program that runs.
pub struct Live {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Live {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sends a signal to it.
    pub fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    fn bytes_said(&self) -> u64 {
        let length = |file: &Path| fs::metadata(file).map_or(0, |metadata| metadata.len());
        length(&self.stdout) + length(&self.stderr)
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Waits until it has written this to standard error.
    #[track_caller]
    pub fn wait_for_stderr(&self, text: &str) {
        wait_until(&format!("{text:?} on stderr"), || self.stderr().contains(text));
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(self) -> Done {
        self.watch(|_| {})
    }

    /// Waits for its end and lets `look` see its pid every few milliseconds until then.
    #[track_caller]
    pub fn watch(mut self, mut look: impl FnMut(i32)) -> Done {
        let begin = Instant::now();
        let (mut last_sign, mut said) = (begin, 0);
        let status = loop {
            look(self.pid());
            // A long run on a slow machine may take its time, as long as it gets on.
            if self.bytes_said() != said {
                (last_sign, said) = (Instant::now(), self.bytes_said());
            }
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if last_sign.elapsed() > PATIENCE || begin.elapsed() > 10 * PATIENCE => {
                    let _ = self.child.kill();
                    panic!("raymond does not end; stderr: {}", self.stderr());
                }
                None => pause(),
            }
        };
        Done {
            exit: status.code().unwrap_or_else(|| {
                128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default()
            }),
            stdout: String::from_utf8_lossy(&fs::read(&self.stdout).unwrap()).into_owned(),
            stderr: String::from_utf8_lossy(&fs::read(&self.stderr).unwrap()).into_owned(),
        }
    }

    /// Kills it and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Sends a signal to a process that may be gone.
pub fn send(pid: i32, signal: Signal) {
    // What is gone needs no signal.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

fn pause() {
    std::thread::sleep(Duration::from_millis(3));
}

/// Waits for something to become true; fails when it does not.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "after {PATIENCE:?} still waiting for {what}");
        pause();
    }
}

/// Waits until there is such a file or folder.
#[track_caller]
pub fn wait_for_file(path: &Path) {
    wait_until(&path.display().to_string(), || path.exists());
}
