//! A folder to work in, and programs started there with an empty environment.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The profile of `Cargo.toml` with which programs are published.
const PUBLISHED: &str = "dist";

/// Builds the program as it is published and returns its path. `BENCH_RAYMOND` names another build to measure instead, for
/// example that of an earlier version.
pub fn build_raymond() -> Result<PathBuf, String> {
    if let Some(other) = std::env::var_os("BENCH_RAYMOND") {
        return Ok(PathBuf::from(other));
    }
    if cfg!(debug_assertions) {
        return Err(format!("measure what is published: cargo run --profile {PUBLISHED} -p raymond-bench"));
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let done = Command::new(cargo)
        .args(["build", "--quiet", "--profile", PUBLISHED, "-p", "raymond"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !done.success() {
        return Err("raymond does not build".to_owned());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    // The benchmark itself may have been built with another profile.
    let profiles = own.parent().and_then(Path::parent).ok_or("the benchmark is in no target folder")?;
    Ok(profiles.join(PUBLISHED).join("raymond"))
}

/// Another program that runs the same workflows, for comparison.
pub fn peer() -> Option<PathBuf> {
    std::env::var_os("BENCH_PEER").map(PathBuf::from)
}

pub struct Rig {
    folder: TempDir,
    raymond: PathBuf,
    peer: Option<PathBuf>,
}

/// The measurements of a program.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub time: Duration,
    pub max_memory: u64,
}

impl Rig {
    /// On the disk of the project: in a folder in memory, a sync would take no time.
    pub fn new(raymond: &Path, peer: Option<&Path>) -> Result<Self, String> {
        let beside = raymond.parent().unwrap_or(Path::new("."));
        let folder = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(beside)
            .map_err(|error| error.to_string())?;
        let rig = Rig { folder, raymond: raymond.to_owned(), peer: peer.map(Path::to_owned) };
        // Makes this folder the project, so that no folder above it is used.
        rig.write(".git/HEAD", "")?;
        rig.durability("process")?;
        Ok(rig)
    }

    /// The program that is measured.
    pub fn raymond_path(&self) -> &Path {
        &self.raymond
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap_or(&path))
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    pub fn durability(&self, kind: &str) -> Result<(), String> {
        self.write(".raymond/config.toml", &format!("[raymond]\ndurability = \"{kind}\"\n"))
    }

    pub fn raymond(&self, args: &[&str]) -> Command {
        self.command(&self.raymond, args)
    }

    /// Lets the runs count that were written without the program.
    pub fn adopt(&self) -> Result<(), String> {
        finish(self.raymond(&["doctor", "--adopt", "--yes"]), &[0]).map(drop)
    }

    pub fn peer(&self, args: &[&str]) -> Option<Command> {
        Some(self.command(self.peer.as_deref()?, args))
    }

    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.path("bin").display()));
        command.env("HOME", self.folder.path()).env("LANG", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Runs a program to its end. An exit code other than these is an error.
pub fn finish(mut command: Command, codes: &[i32]) -> Result<Duration, String> {
    let started = Instant::now();
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    let time = started.elapsed();
    check(&command, status, codes)?;
    Ok(time)
}

fn check(command: &Command, status: std::process::ExitStatus, codes: &[i32]) -> Result<(), String> {
    if status.code().is_some_and(|code| codes.contains(&code)) {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}"))
    }
}

/// Like [`finish`], and also measures the memory. `wait4` cannot be used: its value includes the memory of this
/// program, which the child had before `exec`.
pub fn finish_watched(mut command: Command, codes: &[i32]) -> Result<Done, String> {
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut max_memory = 0;
    let status = loop {
        max_memory = max_memory.max(memory_of(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let time = started.elapsed();
    check(&command, status, codes)?;
    Ok(Done { time, max_memory })
}

/// The peak memory of a running program so far.
fn memory_of(pid: u32) -> Result<u64, String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().map_err(|_| "VmHWM is no number")?;
    Ok(kib * 1024)
}

/// A run whose events are read as they are written.
pub struct Watched {
    child: Child,
    lines: io::Lines<BufReader<std::process::ChildStdout>>,
    pub started: Instant,
}

impl Watched {
    pub fn start(mut command: Command) -> Result<Self, String> {
        command.stdout(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        Ok(Watched { child, lines: BufReader::new(stdout).lines(), started })
    }

    /// Reads until `number` events of that name have come, and returns the time of the last.
    pub fn wait_for(&mut self, event: &str, number: usize) -> Result<Instant, String> {
        let mark = format!("\"event\":\"{event}\"");
        let mut seen = 0;
        while seen < number {
            let line = self
                .lines
                .next()
                .ok_or_else(|| format!("ended after {seen} {event}"))?
                .map_err(|e| e.to_string())?;
            seen += usize::from(line.contains(&mark));
        }
        Ok(Instant::now())
    }

    /// Its peak memory so far.
    pub fn max_memory(&self) -> Result<u64, String> {
        memory_of(self.child.id())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The path of a program. With only its name, the standard library would not start it with `posix_spawn`.
fn on_path(program: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("there is no {program}"))
}

/// The baseline loop: starts a program `times` times, one after the other, and reads the output of each.
pub fn spawn_and_read(rig: &Rig, program: &str, args: &[&str], times: usize) -> Result<Duration, String> {
    let program = on_path(program)?;
    let started = Instant::now();
    let mut output = Vec::new();
    for _ in 0..times {
        let mut command = rig.command(&program, args);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        output.clear();
        child
            .stdout
            .take()
            .ok_or("no stdout")?
            .read_to_end(&mut output)
            .map_err(|error| error.to_string())?;
        child.wait().map_err(|error| error.to_string())?;
    }
    Ok(started.elapsed())
}
