//! A server, workers and the command line, in a folder of their own. Nothing waits by sleeping: everything waits for
//! something to be seen, up to a limit.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use test_kit::needs::installed;

use crate::network::{self, Network};

/// The heartbeat timeout of runs, so long that a busy machine does not miss one, and that of runs whose losses are waited for.
const CALM: Duration = Duration::from_secs(120);
const QUICK: Duration = Duration::from_secs(10);
/// How many steps a worker carries out at once.
pub const SLOTS: usize = 4;
/// How long anything may take on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(240);

/// The server program, or nothing; then the test is skipped.
pub fn server_program() -> Option<PathBuf> {
    let named = std::env::var_os("RAYMOND_TEMPORAL_SERVER").map(PathBuf::from);
    named.or_else(|| installed("temporal/temporal", "a run on many machines", "install-temporal.sh"))
}

/// Waits until this returns something.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "this did not happen within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A child that is killed with the test.
pub struct Process(pub Child);

impl Process {
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    pub fn terminate(&self) {
        self.signal("TERM");
    }

    pub fn signal(&self, name: &str) {
        signal(&self.0.id().to_string(), name);
    }

    /// The guard of a worker.
    pub fn guard(&self) -> String {
        let parent = self.0.id().to_string();
        eventually("a guard", || {
            let mut processes = fs::read_dir("/proc").expect("processes").flatten();
            processes.find_map(|process| {
                let stat = fs::read_to_string(process.path().join("stat")).ok()?;
                let line = fs::read_to_string(process.path().join("cmdline")).ok()?;
                let is_child = stat.rsplit(')').next()?.split_whitespace().nth(1)? == parent;
                let is_guard = is_child && line.contains("guard-of-a-worker");
                is_guard.then(|| process.file_name().to_string_lossy().into_owned())
            })
        })
    }

    /// Ctrl-C.
    pub fn interrupt(&self) {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
    }

    pub fn ends(&mut self) -> bool {
        eventually("the end of a process", || self.0.try_wait().expect("a child")).success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Everything that a test needs.
pub struct Rig {
    folder: tempfile::TempDir,
    program: PathBuf,
    port: Port,
    /// The network that all programs are in, unless it is that of this machine.
    network: Option<Network>,
    /// Where programs find the server.
    reached_at: (&'static str, u16),
    pub server_process: Option<Process>,
    heartbeat: Duration,
    /// Variables of all programs that are started from now on.
    pub variables: Vec<(&'static str, String)>,
    /// The address of the store of blobs; a folder unless it is changed.
    pub blobs: String,
}

impl Rig {
    /// A rig with a server, unless there is no server program.
    pub fn new() -> Option<Self> {
        Self::begin(None)
    }

    /// A rig in which each of these workers is in a network of its own, unless there can be none. The loss of a machine is
    /// noticed soon.
    pub fn on_network(workers: &[&'static str]) -> Option<Self> {
        let network = Network::new(workers)?;
        Some(Self { heartbeat: QUICK, ..Self::begin(Some(network))? })
    }

    fn begin(network: Option<Network>) -> Option<Self> {
        let program = server_program()?;
        let folder = tempfile::tempdir().expect("a folder");
        let port = Port::reserve();
        let reached_at = network.as_ref().map_or(("127.0.0.1", port.number), |_| network::SERVER);
        let (server_process, variables) = (None, Vec::new());
        let blobs = format!("file://{}", folder.path().join("blobs").display());
        let mut rig = Self {
            folder,
            program,
            port,
            network,
            reached_at,
            server_process,
            heartbeat: CALM,
            variables,
            blobs,
        };
        fs::create_dir_all(rig.path("project/wf")).expect("a folder");
        fs::create_dir_all(rig.path("project/.raymond")).expect("a folder");
        fs::create_dir_all(rig.path("home")).expect("a folder");
        rig.start_server();
        Some(rig)
    }

    /// A rig in which the loss of a machine is noticed soon.
    pub fn quick() -> Option<Self> {
        Some(Self { heartbeat: QUICK, ..Self::new()? })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `HOST:PORT` of the server.
    pub fn server(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    pub fn start_server(&mut self) {
        let mut server = self.spawn_server();
        eventually("the server", || {
            // It chooses more ports for itself, and ends when another program has taken one of them.
            if server.0.try_wait().expect("a child").is_some() {
                server = self.spawn_server();
            }
            self.is_server_up().then_some(())
        });
        self.server_process = Some(server);
    }

    fn is_server_up(&self) -> bool {
        match &self.network {
            Some(network) => network.reaches_server(None),
            None => TcpStream::connect(("127.0.0.1", self.port.number)).is_ok(),
        }
    }

    fn spawn_server(&self) -> Process {
        let log = fs::File::create(self.path("server.log")).expect("a file");
        // The parts of the server reach each other on this machine, so in a network it listens there too.
        let on_network = |_| ("0.0.0.0", network::SERVER.1);
        let (ip, port) = self.network.as_ref().map_or(("127.0.0.1", self.port.number), on_network);
        let child = self
            .command(None, &self.program)
            .args(["server", "start-dev", "--headless", "--log-level", "error", "--ip", ip])
            .args(["--port", &port.to_string()])
            .arg("--db-filename")
            .arg(self.path("server.db"))
            .env("HOME", self.path("home"))
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("the server starts");
        Process(child)
    }

    /// From now on programs reach the server here.
    pub fn reach_server_at(&mut self, host: &'static str, port: u16) {
        self.reached_at = (host, port);
    }

    pub fn kill_server(&mut self) {
        self.server_process = None;
    }

    pub fn state(&self, name: &str, text: &str) {
        fs::write(self.path("project/wf").join(name), text).expect("a file");
    }

    /// Programs that are started from now on find this script under this name.
    pub fn put_before_all_programs(&mut self, name: &str, script: &str) {
        let folder = self.path("programs");
        fs::create_dir_all(&folder).expect("a folder");
        let program = folder.join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}")).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        self.variables.push(("PATH", path));
    }

    /// Makes the project a repository, with these files in its first commit.
    pub fn commit_all(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = self.path("project").join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        let add = [&["add", "--"], names.as_slice()].concat();
        for arguments in [&["init", "--quiet"][..], &add, &["commit", "--quiet", "-m", "first commit"]] {
            let mut git = Command::new("git");
            git.current_dir(self.path("project")).args(["-c", "user.name=n", "-c", "user.email=e"]);
            assert!(git.args(arguments).status().expect("git starts").success());
        }
    }

    /// The address of the server.
    pub fn address(&self) -> String {
        let (host, port) = self.reached_at;
        format!("temporal://{host}:{port}?queue=q&blobs={}", self.blobs)
    }

    pub fn worker(&self, name: &str) -> Process {
        self.worker_at(name, self.reached_at)
    }

    /// The user's own config file, which holds for commands that only look, too.
    pub fn configure(&self, config: &str) {
        self.write_config("home", config);
    }

    /// The config file of a worker that is started later.
    pub fn configure_worker(&self, name: &str, config: &str) {
        self.write_config(&home_of(name), config);
    }

    fn write_config(&self, home: &str, config: &str) {
        let folder = self.path(home).join(".config/raymond");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("config.toml"), config).expect("a file");
    }

    /// A worker that reaches the server through another port.
    pub fn worker_through(&self, name: &str, port: u16) -> Process {
        self.worker_at(name, ("127.0.0.1", port))
    }

    fn worker_at(&self, name: &str, (host, port): (&str, u16)) -> Process {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path(&format!("{name}.log")));
        let log = log.expect("a file");
        let child = self
            .program_on(Some(name))
            .args(["worker", "--temporal", &format!("{host}:{port}"), "--queue", "q"])
            .args(["--slots", &SLOTS.to_string()])
            .arg("--work")
            .arg(self.path(name))
            .args(["--blobs", &self.blobs])
            .env("HOST_NAME", name)
            .env("HOME", self.path(&home_of(name)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("the worker starts");
        Process(child)
    }

    /// The network that the programs are in, in a rig that has one.
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("a rig on a network")
    }

    /// A program beside the server, or on the machine of a worker.
    fn command(&self, worker: Option<&str>, program: &Path) -> Command {
        match (&self.network, worker) {
            (Some(network), Some(worker)) => network.command_on(worker, program),
            (Some(network), None) => network.command(program),
            (None, _) => Command::new(program),
        }
    }

    fn program(&self) -> Command {
        self.program_on(None)
    }

    fn program_on(&self, worker: Option<&str>) -> Command {
        let mut command = self.command(worker, Path::new(env!("CARGO_BIN_EXE_raymond-temporal")));
        command
            .current_dir(self.path("project"))
            .env("HOME", self.path("home"))
            .env("DIR", self.folder.path())
            .env("RAYMOND_HEARTBEAT_MS", self.heartbeat.as_millis().to_string())
            .env("RAYMOND_HOST_PATIENCE_MS", self.heartbeat.as_millis().to_string())
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The command line.
    pub fn raymond(&self, arguments: &[&str]) -> Output {
        self.program().args(arguments).output().expect("the program starts")
    }

    /// The command line, with variables.
    pub fn raymond_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
        let mut program = self.program();
        program.envs(variables.iter().copied()).args(arguments).output().expect("the program starts")
    }

    /// The command line, with what it reads from stdin.
    pub fn raymond_reading(&self, arguments: &[&str], input: &[u8]) -> Output {
        let file = self.path("stdin");
        fs::write(&file, input).expect("a file");
        let input = fs::File::open(&file).expect("a file");
        self.program().args(arguments).stdin(input).output().expect("the program starts")
    }

    /// The server's own command line.
    pub fn temporal(&self, arguments: &[&str]) -> Output {
        let mut program = Command::new(&self.program);
        program.args(arguments).args(["--address", &self.server()]).env("HOME", self.path("home"));
        program.output().expect("the program starts")
    }

    /// The command line, started in a folder.
    pub fn raymond_in(&self, folder: &str, arguments: &[&str]) -> Output {
        self.program().current_dir(self.path(folder)).args(arguments).output().expect("the program starts")
    }

    /// The command line, without waiting for its end.
    pub fn spawn(&self, arguments: &[&str]) -> Process {
        self.spawn_saying(arguments, Stdio::null())
    }

    /// The same, with a place for what it says.
    pub fn spawn_saying(&self, arguments: &[&str], says: impl Into<Stdio>) -> Process {
        self.spawn_with(arguments, [Stdio::null(), Stdio::null(), says.into()])
    }

    /// The same, with a place for what it prints.
    pub fn spawn_printing(&self, arguments: &[&str], prints: impl Into<Stdio>) -> Process {
        self.spawn_with(arguments, [Stdio::null(), prints.into(), Stdio::null()])
    }

    /// The same, with something that can be typed.
    pub fn spawn_typing(&self, arguments: &[&str], says: impl Into<Stdio>) -> Process {
        self.spawn_with(arguments, [Stdio::piped(), Stdio::null(), says.into()])
    }

    fn spawn_with(&self, arguments: &[&str], [input, prints, says]: [Stdio; 3]) -> Process {
        let mut program = self.program();
        program.args(arguments).stdin(input).stdout(prints).stderr(says);
        Process(program.spawn().expect("the program starts"))
    }

    /// Starts the workflow as run `r` and leaves it alone.
    pub fn start(&self) {
        self.start_with(&[]);
    }

    pub fn start_with(&self, variables: &[(&str, &str)]) {
        self.start_as("r", variables);
    }

    pub fn start_as(&self, id: &str, variables: &[(&str, &str)]) {
        let mut said = String::new();
        // A server that has just been started does not answer at once.
        eventually("the start of the run", || {
            let mut program = self.program();
            program.envs(variables.iter().copied());
            program.args(["run", "wf", "--id", id, "--on", &self.address(), "--detach"]);
            let output = program.output().expect("the program starts");
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() || said.contains("does not answer"), "{said}");
            output.status.success().then_some(())
        });
    }

    /// The journal of a run, as far as it is known now.
    fn log(&self, id: &str) -> Vec<serde_json::Value> {
        let output = self.raymond(&["log", id, "--json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits for an event of this kind in run `r`, and returns the journal.
    pub fn until(&self, kind: &str) -> Vec<serde_json::Value> {
        self.until_in("r", kind)
    }

    /// Waits for an event of one of these kinds in run `r`, and returns the journal.
    pub fn until_one_of(&self, kinds: &[&str]) -> Vec<serde_json::Value> {
        eventually(&format!("one of {kinds:?}; {}", self.logs()), || {
            let log = self.log("r");
            kinds.iter().any(|kind| count(&log, kind) > 0).then_some(log)
        })
    }

    pub fn until_in(&self, id: &str, kind: &str) -> Vec<serde_json::Value> {
        self.until_there(id, kind, 1)
    }

    /// Waits until run `r` has so many events of this kind.
    pub fn until_count(&self, kind: &str, number: usize) -> Vec<serde_json::Value> {
        self.until_there("r", kind, number)
    }

    fn until_there(&self, id: &str, kind: &str, number: usize) -> Vec<serde_json::Value> {
        eventually(&format!("event {number} of the kind {kind}; {}", self.logs()), || {
            let log = self.log(id);
            (count(&log, kind) >= number).then_some(log)
        })
    }

    /// What the workers have said.
    pub fn logs(&self) -> String {
        ["a.log", "b.log", "c.log", "d.log"]
            .iter()
            .filter_map(|name| fs::read_to_string(self.path(name)).ok())
            .collect()
    }

    pub fn write(&self, name: &str) {
        fs::write(self.path(name), "").expect("a file");
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits until a worker has recorded the end of a step of run `r`: that its programs have ended, or that what they left is
    /// kept, too.
    pub fn until_recorded(&self, worker: &str, is_kept: bool) {
        let records = self.path(&format!("{worker}/runs/r/.records"));
        let has_ended = |entry: fs::DirEntry| {
            let record = fs::read_to_string(entry.path()).unwrap_or_default();
            if is_kept { record.contains("{\"Done\":") } else { record.contains('\n') }
        };
        eventually("the record of a step's end", || {
            fs::read_dir(&records).ok()?.flatten().any(has_ended).then_some(())
        });
    }

    /// Waits until a file has so many lines.
    pub fn lines(&self, name: &str, count: usize) -> Vec<String> {
        eventually(&format!("{count} lines in {name}; {}", self.logs()), || {
            let lines: Vec<String> = self.read(name).lines().map(str::to_owned).collect();
            (lines.len() >= count).then_some(lines)
        })
    }
}

fn home_of(worker: &str) -> String {
    format!("home-of-{worker}")
}

/// How many events of a kind there are.
pub fn count(log: &[serde_json::Value], kind: &str) -> usize {
    log.iter().filter(|event| event["event"] == kind).count()
}

/// Sends a signal, by its name.
pub fn signal(pid: &str, name: &str) {
    assert!(Command::new("kill").args(["-s", name, pid]).status().expect("kill starts").success());
}

pub fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A port for a server that is started later, perhaps more than once.
///
/// It is not one of those that the system gives to programs that ask for any. And as long as a socket of the other protocol
/// has it, other tests choose other ones.
pub struct Port {
    pub number: u16,
    _reserved: UdpSocket,
}

impl Port {
    const RANGE: Range<u16> = 12_000..32_000;

    pub fn reserve() -> Self {
        let count = Self::RANGE.end - Self::RANGE.start;
        let first = (std::process::id() % u32::from(count)) as u16;
        let mut ports = (0..count).map(|at| Self::RANGE.start + (first + at) % count);
        let reserved = ports.find_map(|number| {
            let reserved = UdpSocket::bind(("127.0.0.1", number)).ok()?;
            TcpListener::bind(("127.0.0.1", number)).ok()?;
            Some(Self { number, _reserved: reserved })
        });
        reserved.expect("a port")
    }
}

/// A way to a server that can be cut, in both directions or in one. What is sent then is held back, as if packets were
/// dropped.
pub struct Way {
    pub port: u16,
    is_cut_to_server: Arc<AtomicBool>,
    is_cut_from_server: Arc<AtomicBool>,
}

impl Way {
    pub fn to(rig: &Rig) -> Self {
        Self::to_port(rig.port.number)
    }

    pub fn to_port(server: u16) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("a port").port();
        let way = Self { port, is_cut_to_server: Arc::default(), is_cut_from_server: Arc::default() };
        let (there, back) = (Arc::clone(&way.is_cut_to_server), Arc::clone(&way.is_cut_from_server));
        std::thread::spawn(move || {
            for from in socket.incoming().flatten() {
                let Ok(to) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let (from2, to2) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                let (there, back) = (Arc::clone(&there), Arc::clone(&back));
                std::thread::spawn(move || pass(from, to, &there));
                std::thread::spawn(move || pass(to2, from2, &back));
            }
        });
        way
    }

    pub fn cut(&self, is_cut: bool) {
        self.is_cut_to_server.store(is_cut, Ordering::SeqCst);
        self.cut_answers(is_cut);
    }

    /// The server hears the worker, and the worker does not hear the server.
    pub fn cut_answers(&self, is_cut: bool) {
        self.is_cut_from_server.store(is_cut, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        while cut.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
        if to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}
