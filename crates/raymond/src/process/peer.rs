//! Which process is at the other end of a connection within this machine.
//!
//! The system's tables of connections tell the number of the other end's socket, and the open files of each process whose
//! it is. Bounds: one look at each table and at the open files of each process.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::files;

/// A connection, as this end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    pub peer: SocketAddr,
    pub own: SocketAddr,
}

/// What is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// These have it open: a child may have inherited it.
    Processes(Vec<i32>),
    /// No process has it open any more.
    Gone,
    /// It is on another machine, in another container, or another user's.
    Unknown,
}

/// The processes at the other end of a connection.
pub fn peer_of(connection: &Connection) -> Peer {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|table| files::read_text(Path::new(table), files::MAX_GIVEN_BYTES).unwrap_or_default());
    let socket =
        tables.iter().flat_map(|table| table.lines().skip(1)).find_map(|line| socket_in(line, connection));
    match socket {
        // A connection to this machine by another of its addresses is in the tables, too.
        None if !connection.peer.ip().to_canonical().is_loopback() => Peer::Unknown,
        None | Some(0) => Peer::Gone,
        Some(socket) => match holders_of(socket) {
            pids if pids.is_empty() => Peer::Unknown,
            pids => Peer::Processes(pids),
        },
    }
}

/// The number of the other end's socket, if a line is about it: `SL LOCAL REMOTE STATE QUEUES TIMER RETRIES UID TIMEOUT
/// INODE …`.
fn socket_in(line: &str, connection: &Connection) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (address_of(fields.next()?)?, address_of(fields.next()?)?);
    let is_it = local == canonical(connection.peer) && remote == canonical(connection.own);
    is_it.then(|| fields.nth(6)?.parse().ok()).flatten()
}

fn canonical(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// An address as the tables have it: words of four bytes in the order of this machine, and a port.
fn address_of(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let bytes: Vec<u8> = (0..4).map(word).collect::<Option<Vec<_>>>()?.concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))
        }
        _ => return None,
    };
    Some((ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

/// The processes that have a socket open.
fn holders_of(socket: u64) -> Vec<i32> {
    let link = format!("socket:[{socket}]");
    let has_it = |pid: &i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|target| target.as_os_str() == link.as_str())
    };
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has_it).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn own_pid() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    /// Nothing once this is at the other end, or what is there instead. A program that another test is just starting has all files
    /// open for a moment.
    fn peer_once_it_is(connection: &Connection, expected: &Peer) -> Option<Peer> {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            match peer_of(connection) {
                peer if peer == *expected => return None,
                peer if std::time::Instant::now() > deadline => return Some(peer),
                _ => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn the_process_at_the_other_end_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if address.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
            let Ok(client) = TcpStream::connect((to, port)) else { continue };
            let (server, peer) = listener.accept().unwrap();
            let connection = Connection { peer, own: server.local_addr().unwrap() };
            assert_eq!(peer_once_it_is(&connection, &Peer::Processes(vec![own_pid()])), None, "{address}");
            drop(client);
            assert_eq!(peer_once_it_is(&connection, &Peer::Gone), None, "{address}");
        }
    }

    #[test]
    fn what_comes_from_another_machine_is_not_looked_for() {
        let connection =
            Connection { peer: "192.0.2.1:5".parse().unwrap(), own: "192.0.2.2:80".parse().unwrap() };
        assert_eq!(peer_of(&connection), Peer::Unknown);
    }

    #[test]
    fn addresses_are_read_in_both_forms() {
        if cfg!(target_endian = "little") {
            assert_eq!(address_of("0100007F:1F90"), Some(("127.0.0.1".parse().unwrap(), 8080)));
            assert_eq!(
                address_of("00000000000000000000000001000000:0050"),
                Some(("::1".parse().unwrap(), 80))
            );
        }
        for wrong in ["", "0100007F", "0100007:1", "0100007F:zz", "ü100007F:1"] {
            assert_eq!(address_of(wrong), None, "{wrong}");
        }
    }
}
