//! Whether this process sees who its ancestors are.
//!
//! A program can start another one in a namespace in which its ancestors have no numbers, or with another folder in the
//! place of `/proc`. There nothing proves that a process does *not* belong to a step. On systems without `/proc` nobody can
//! cover the process table.

#[cfg(target_os = "linux")]
use std::{io, os::unix::fs::MetadataExt, path::Path};

#[cfg(target_os = "linux")]
use crate::files;

/// The number of the file system.
#[cfg(target_os = "linux")]
const PROC_SUPER_MAGIC: u64 = 0x9fa0;

/// What keeps a process from seeing its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blind(pub String);

/// Checks that `/proc` tells of the processes around this one.
#[cfg(target_os = "linux")]
pub fn check_sight() -> Result<(), Blind> {
    let is_process_table =
        rustix::fs::statfs("/proc").is_ok_and(|found| found.f_type as u64 == PROC_SUPER_MAGIC);
    if !is_process_table {
        return Err(Blind("/proc is not the table of processes".to_owned()));
    }
    let own = std::fs::read_link("/proc/self").ok();
    if own.is_none_or(|own| own.as_os_str() != std::process::id().to_string().as_str()) {
        return Err(Blind("/proc is that of other processes".to_owned()));
    }
    let mounts = files::read_text(Path::new("/proc/self/mountinfo"), files::MAX_GIVEN_BYTES)
        .map_err(|error| Blind(format!("cannot read /proc/self/mountinfo: {error}")))?;
    match mounts.lines().find_map(covered) {
        Some(place) => Err(Blind(format!("something is mounted over {}", place.escape_debug()))),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn check_sight() -> Result<(), Blind> {
    Ok(())
}

/// Checks that a process of this pid namespace is in this user namespace, too. In another one nothing can be read of it and
/// of what else is outside. A process of another user cannot be asked, and proves nothing.
#[cfg(target_os = "linux")]
pub fn check_user_namespace(of: i32) -> Result<(), Blind> {
    let own = std::fs::read_link("/proc/self/ns/user").ok();
    let is_same = match std::fs::read_link(format!("/proc/{of}/ns/user")) {
        Ok(other) => own.as_ref() == Some(&other),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let user = std::fs::metadata(format!("/proc/{of}")).map(|data| data.uid());
            user.is_ok_and(|user| user != rustix::process::geteuid().as_raw())
        }
        // It has ended.
        Err(_) => true,
    };
    if is_same { Ok(()) } else { Err(Blind("it is in another user namespace".to_owned())) }
}

#[cfg(not(target_os = "linux"))]
pub fn check_user_namespace(_of: i32) -> Result<(), Blind> {
    Ok(())
}

/// The folder of a process over which something is mounted, if a line of `mountinfo` says so: `ID PARENT DEVICE ROOT PLACE …`.
#[cfg(target_os = "linux")]
fn covered(line: &str) -> Option<&str> {
    let place = line.split(' ').nth(4)?;
    let below = place.strip_prefix("/proc/")?.split('/').next()?;
    below.bytes().all(|byte| byte.is_ascii_digit()).then_some(place)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_test_sees_its_ancestors() {
        assert_eq!(check_sight(), Ok(()));
        assert_eq!(check_user_namespace(i32::try_from(std::process::id()).unwrap()), Ok(()));
    }

    #[test]
    fn what_covers_a_process_is_noticed() {
        let line = |place: &str| format!("36 35 98:0 / {place} rw - tmpfs none rw");
        assert_eq!(covered(&line("/proc/77/environ")), Some("/proc/77/environ"));
        for usual in ["/", "/proc", "/proc/sys", "/proc/kcore", "/proc/bus/7", "/process/7"] {
            assert_eq!(covered(&line(usual)), None, "{usual}");
        }
    }
}
