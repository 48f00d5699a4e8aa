//! The system calls that make a child which shares this process's memory and suspends the calling thread until it has
//! called `exec` or has ended.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

/// The child makes a few system calls and calls nothing deep.
const STACK_BYTES: usize = 64 * 1024;

/// Every platform is content with this alignment of a stack.
const STACK_ALIGNMENT: usize = 16;

thread_local! {
    /// The stack of the next child. The calling thread is suspended while a child uses it.
    static STACK: RefCell<Vec<MaybeUninit<u8>>> = RefCell::new(Vec::with_capacity(STACK_BYTES));
}

/// What the child runs. It must not return.
pub(super) type Body = extern "C" fn(*mut c_void) -> c_int;

/// A child that was made. It has called `exec`, or has ended.
#[derive(Debug)]
pub(super) struct Cloned {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    /// Whether it was made in the cgroup that it was meant for.
    pub(super) is_in_cgroup: bool,
}

/// Makes a child in the cgroup, or in that of this process if there is none or it cannot be used.
///
/// # Safety
///
/// `body` must be able to run in a child that shares this process's memory: it makes system calls only, changes no memory
/// but what `argument` points to, errno and its stack, and never returns. All signals must be blocked.
#[expect(unsafe_code, reason = "no library offers vfork with a parent-death signal")]
pub(super) unsafe fn clone(
    body: Body,
    argument: *mut c_void,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Cloned> {
    // SAFETY: as promised by the caller.
    let contained = cgroup.and_then(|cgroup| unsafe { into_cgroup(body, argument, cgroup) }.ok());
    let is_in_cgroup = contained.is_some();
    let (pid, pidfd) = match contained {
        Some(made) => made,
        // SAFETY: as promised by the caller.
        None => unsafe { plainly(body, argument) }?,
    };
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: the kernel has just opened it for us.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Cloned { pid, pidfd, is_in_cgroup })
}

/// Returns the number of the child and its pidfd.
#[expect(unsafe_code, reason = "only `clone` makes such a child")]
unsafe fn plainly(body: Body, argument: *mut c_void) -> io::Result<(c_int, c_int)> {
    let mut pidfd: c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the child has a stack of its own, and CLONE_VFORK suspends this thread while it uses it.
    let pid = STACK.with_borrow_mut(|stack| unsafe {
        let top = stack.as_mut_ptr().add(STACK_BYTES);
        let top = top.sub(top as usize % STACK_ALIGNMENT);
        libc::clone(body, top.cast(), flags, argument, &raw mut pidfd)
    });
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok((pid, pidfd)) }
}

/// The same, in another cgroup. Moving a child that exists already would take milliseconds: the kernel waits until no
/// process anywhere is just being started.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[expect(unsafe_code, reason = "no library offers clone3")]
unsafe fn into_cgroup(
    body: Body,
    argument: *mut c_void,
    cgroup: BorrowedFd<'_>,
) -> io::Result<(c_int, c_int)> {
    use std::os::fd::AsRawFd;
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let mut pidfd: c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;
    let pid = STACK.with_borrow_mut(|stack| {
        let bottom = stack.as_mut_ptr() as usize;
        let top = (bottom + STACK_BYTES) / STACK_ALIGNMENT * STACK_ALIGNMENT;
        let arguments = CloneArguments {
            flags: u64::from(flags.unsigned_abs()) | INTO_CGROUP,
            pidfd: (&raw mut pidfd) as u64,
            exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
            stack: bottom as u64,
            stack_size: (top - bottom) as u64,
            cgroup: u64::from(cgroup.as_raw_fd().unsigned_abs()),
            ..CloneArguments::default()
        };
        // SAFETY: the child has a stack of its own, and CLONE_VFORK suspends this thread while it uses it.
        unsafe { clone3(&arguments, body, argument) }
    });
    match c_int::try_from(pid) {
        Ok(pid) if pid > 0 => Ok((pid, pidfd)),
        Ok(error) => Err(io::Error::from_raw_os_error(-error)),
        Err(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[expect(unsafe_code, reason = "the same as on the other architectures")]
unsafe fn into_cgroup(_: Body, _: *mut c_void, _: BorrowedFd<'_>) -> io::Result<(c_int, c_int)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// `struct clone_args` of the kernel. Not every C library declares it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// The number of the system call, the same on all architectures.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const CLONE3: i64 = 435;

/// Returns the number of the child or a negative error, and only in the parent: the child starts on an empty stack, calls
/// `body` and never comes back.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the child cannot return from a function that was called on another stack")]
unsafe fn clone3(arguments: &CloneArguments, body: Body, argument: *mut c_void) -> i64 {
    let result: i64;
    // SAFETY: the arguments live until the call returns. The system call changes rax, rcx and r11 only.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") CLONE3 => result,
            in("rdi") arguments,
            in("rsi") size_of::<CloneArguments>(),
            in("r12") argument,
            in("r13") body,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// Returns the number of the child or a negative error, and only in the parent: the child starts on an empty stack, calls
/// `body` and never comes back.
#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code, reason = "the child cannot return from a function that was called on another stack")]
unsafe fn clone3(arguments: &CloneArguments, body: Body, argument: *mut c_void) -> i64 {
    let result: i64;
    // SAFETY: the arguments live until the call returns. The system call changes x0 only.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, #0",
            "mov x0, x9",
            "blr x10",
            "brk #1",
            "2:",
            in("x8") CLONE3,
            inlateout("x0") arguments => result,
            in("x1") size_of::<CloneArguments>(),
            in("x9") argument,
            in("x10") body,
        );
    }
    result
}
