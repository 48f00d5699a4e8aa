//! Machines with networks of their own, and a cable that can be pulled from each: what is sent is then dropped, as it is
//! when a real network fails.
//!
//! The namespaces have no names and leave nothing behind. Each is held by a process that ends with the test, however that
//! ends, and the system removes a namespace with its last process.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use test_kit::needs::say_skipped;

use crate::harness::Process;

/// Where the server is.
pub const SERVER: (&str, u16) = ("10.0.0.1", 7233);

/// A switch with the server and the command line on it, and machines with a cable to it.
pub struct Network {
    switch: Namespace,
    machines: BTreeMap<&'static str, Namespace>,
}

impl Network {
    /// A network with these machines. Nothing where namespaces cannot be made; then the test is skipped.
    pub fn new(machines: &[&'static str]) -> Option<Self> {
        let Some(switch) = Namespace::new() else {
            say_skipped("a broken network", "root, and the programs unshare, nsenter, ip and bridge");
            return None;
        };
        switch.run("ip link set lo up");
        switch.run("ip link add switch type bridge");
        switch.run(&format!("ip address add {}/24 dev switch", SERVER.0));
        switch.run("ip link set switch up");
        let mut network = Self { switch, machines: BTreeMap::new() };
        for (at, name) in machines.iter().enumerate() {
            network.add(name, at + 2);
        }
        Some(network)
    }

    fn add(&mut self, name: &'static str, address: usize) {
        let (machine, port) = (Namespace::new().expect("a second namespace"), port_of(name));
        self.switch.run(&format!("ip link add {port} type veth peer name cable netns {}", machine.pid()));
        self.switch.run(&format!("ip link set {port} master switch"));
        self.switch.run(&format!("ip link set {port} up"));
        machine.run("ip link set lo up");
        machine.run(&format!("ip address add 10.0.0.{address}/24 dev cable"));
        machine.run("ip link set cable up");
        self.machines.insert(name, machine);
    }

    /// A program beside the server.
    pub fn command(&self, program: &Path) -> Command {
        self.switch.command(program)
    }

    /// A program on a machine.
    pub fn command_on(&self, machine: &str, program: &Path) -> Command {
        self.machines[machine].command(program)
    }

    /// From now on all packets to and from a machine are dropped, or none.
    pub fn drop_packets(&self, machine: &str, are_dropped: bool) {
        // The state of the switch's port: disabled, or forwarding.
        let state = if are_dropped { 0 } else { 3 };
        self.switch.run(&format!("bridge link set dev {} state {state}", port_of(machine)));
    }

    /// Whether the server takes a connection from here, or from a machine.
    pub fn reaches_server(&self, from: Option<&str>) -> bool {
        let from = from.map_or(&self.switch, |machine| &self.machines[machine]);
        let (host, port) = SERVER;
        let mut connect = from.command(Path::new("timeout"));
        connect.args(["2", "bash", "-c", &format!("exec 3<>/dev/tcp/{host}/{port}")]).stderr(Stdio::null());
        connect.status().is_ok_and(|status| status.success())
    }
}

/// The name of a machine's port on the switch. The name of the machine could be taken for a word of the program `ip`.
fn port_of(machine: &str) -> String {
    format!("port-{machine}")
}

/// A network namespace, which lives as long as a process in it.
struct Namespace(Process);

impl Namespace {
    fn new() -> Option<Self> {
        let mut holder = Command::new("unshare");
        // `cat` ends when this process does, because its input does.
        holder.args(["--net", "sh", "-c", "echo made; exec cat"]);
        holder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder: Child = holder.spawn().ok()?;
        let mut said = [0; 5];
        let is_made = holder.stdout.as_mut()?.read_exact(&mut said).is_ok();
        let namespace = Self(Process(holder));
        let has_ip = || namespace.command(Path::new("ip")).arg("link").stdout(Stdio::null()).status();
        (is_made && has_ip().is_ok_and(|status| status.success())).then_some(namespace)
    }

    fn pid(&self) -> u32 {
        self.0.0.id()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.pid())).arg(program);
        command
    }

    fn run(&self, line: &str) {
        let mut words = line.split(' ');
        let program = words.next().unwrap_or_default();
        let done = self.command(Path::new(program)).args(words).output().expect("a program starts");
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
}
