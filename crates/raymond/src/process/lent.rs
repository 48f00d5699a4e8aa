//! Descriptors that a child on Linux takes its streams from.
//!
//! A child gets a copy of the table of descriptors and closes, as it becomes its program, all that are not meant for
//! it. With a thousand programs running that is thousands of them for each new one. So where there are many, and the
//! kernel can do it, a child copies only the beginning of the table. That is where
//! its streams must be, and these are lent the same three low numbers each time. What whoever started Raymond left
//! open for its children lies there as well.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::io::{DupFlags, FdFlags, dup3, fcntl_dupfd_cloexec, fcntl_getfd};

/// Fewer descriptors are copied as quickly as any are lent.
const MANY: RawFd = 64;

/// Three numbers, held by one child at a time.
static NUMBERS: OnceLock<Option<Mutex<[OwnedFd; 3]>>> = OnceLock::new();

/// Streams at low numbers, until this is dropped.
pub(super) struct Lent {
    numbers: MutexGuard<'static, [OwnedFd; 3]>,
}

impl Lent {
    /// None where that is of no use, or the kernel cannot copy a part of the table.
    pub(super) fn new(streams: [BorrowedFd<'_>; 3]) -> io::Result<Option<Self>> {
        if streams.iter().all(|stream| stream.as_raw_fd() < MANY) {
            return Ok(None);
        }
        let Some(numbers) = NUMBERS.get_or_init(|| reserve().map(Mutex::new)) else { return Ok(None) };
        let mut lent = Lent { numbers: numbers.lock().unwrap_or_else(PoisonError::into_inner) };
        for (number, stream) in lent.numbers.iter_mut().zip(streams) {
            dup3(stream, number, DupFlags::CLOEXEC)?;
        }
        Ok(Some(lent))
    }

    pub(super) fn numbers(&self) -> [RawFd; 3] {
        [0, 1, 2].map(|index: usize| self.numbers[index].as_raw_fd())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A pipe has an end for its reader only when nobody holds the other.
        if let Ok(null) = null_device() {
            for number in self.numbers.iter_mut() {
                let _ = dup3(null, number, DupFlags::CLOEXEC);
            }
        }
    }
}

fn reserve() -> Option<[OwnedFd; 3]> {
    let null = null_device().ok()?;
    let first = last_for_children().ok()? + 1;
    let number = || fcntl_dupfd_cloexec(null, first).ok();
    can_copy_a_part().then_some([number()?, number()?, number()?])
}

/// Kernels have been able to since 5.9, but left marks behind by which a child could believe the rest of its table to
/// be full. 6.11 does not, and a system may forbid it all the same.
fn can_copy_a_part() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map(str::parse::<u32>);
    let version = (numbers.next().and_then(Result::ok), numbers.next().and_then(Result::ok));
    version >= (Some(6), Some(11)) && can_close_ranges()
}

/// The last descriptor that programs inherit. Raymond opens none for them but their streams.
#[expect(unsafe_code, reason = "a descriptor that is known by its number only")]
fn last_for_children() -> io::Result<RawFd> {
    let mut last = 2;
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|number| *number > last) else { continue };
        // SAFETY: whether one of that number is open or not, it is only asked about its flags.
        let flags = fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) });
        if flags.is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
            last = number;
        }
    }
    Ok(last)
}

/// Asked with a range in which there is nothing.
#[expect(unsafe_code, reason = "no safe function closes a range")]
fn can_close_ranges() -> bool {
    // SAFETY: there is no descriptor of that number, so nothing is closed.
    unsafe { libc::syscall(libc::SYS_close_range, libc::c_uint::MAX, libc::c_uint::MAX, 0) == 0 }
}

/// Where there is nothing to read. One for all programs: nobody can change where it stands.
pub(super) fn null_device() -> io::Result<BorrowedFd<'static>> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(file) = NULL.get() {
        return Ok(file.as_fd());
    }
    let file = File::open("/dev/null")?;
    Ok(NULL.get_or_init(|| file).as_fd())
}
