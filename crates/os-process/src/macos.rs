//! What distinguishes processes with the same number on macOS.

use std::ffi::c_int;
use std::mem;
use std::ptr;

/// When a process started, in microseconds; `None` if there is none with this id, or only a zombie.
pub fn start_time(pid: i32) -> Option<u64> {
    let info = info(pid)?;
    Some(info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec)
}

/// The parent of a process.
pub fn parent(pid: i32) -> Option<i32> {
    i32::try_from(info(pid)?.pbi_ppid).ok()
}

#[expect(unsafe_code, reason = "no safe function tells about another process")]
fn info(pid: i32) -> Option<libc::proc_bsdinfo> {
    let size = c_int::try_from(mem::size_of::<libc::proc_bsdinfo>()).ok()?;
    // SAFETY: `proc_bsdinfo` is plain data for which all zeros is a valid value, and the call writes no more than its
    // size to it.
    unsafe {
        let mut info: libc::proc_bsdinfo = mem::zeroed();
        let written = libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, (&raw mut info).cast(), size);
        (written == size).then_some(info)
    }
}

/// A text that is different after every start of the machine.
#[expect(unsafe_code, reason = "no safe function reads a system setting")]
pub fn boot_session() -> Option<String> {
    let mut text = [0_u8; 64];
    let mut length = text.len();
    // SAFETY: the name ends with a zero byte, and the call writes no more than `length` bytes.
    let result = unsafe {
        libc::sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            text.as_mut_ptr().cast(),
            &raw mut length,
            ptr::null_mut(),
            0,
        )
    };
    let text = text.get(..length).filter(|_| result == 0)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned()).filter(|text| !text.is_empty() && !text.contains(' '))
}
