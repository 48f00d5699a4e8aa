//! A job object: a set of processes that can be ended together, and whose members cannot leave it.
//!
//! The only place with raw system calls on Windows.

#![expect(unsafe_code, reason = "nothing safe offers job objects and suspended processes")]

use std::io;
use std::mem::size_of;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use tokio::process::Child;
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_MORE_DATA, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent, GetConsoleCP};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_PROCESS_ID_LIST, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicProcessIdList,
    JobObjectExtendedLimitInformation, OpenJobObjectW, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::SystemServices::{JOB_OBJECT_QUERY, JOB_OBJECT_TERMINATE};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, CREATE_SUSPENDED, OpenThread, ResumeThread,
    THREAD_SUSPEND_RESUME,
};

/// What the processes of a job that is ended exit with.
const ENDED: u32 = 1;

/// How a program must be created to be put into a job by [`Job::take_in`]: it does not run yet, does not get Ctrl-C
/// from the terminal, and gets no window of its own.
pub fn creation_flags() -> u32 {
    // SAFETY: takes nothing and gives a number.
    let has_console = unsafe { GetConsoleCP() } != 0;
    let window = if has_console { 0 } else { CREATE_NO_WINDOW };
    CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | window
}

/// A job object. When the last handle to one that was created here is closed, its processes are ended, unless
/// [`Job::outlive_handles`] was called.
#[derive(Debug)]
pub struct Job {
    handle: OwnedHandle,
}

impl Job {
    /// Creates a job; with a name, others can find it while somebody holds it.
    pub fn create(name: Option<&str>) -> io::Result<Self> {
        let name = name.map(wide);
        let name = name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        // SAFETY: the name is null or ends with a zero, and lives during the call.
        let job = Job::own(unsafe { CreateJobObjectW(ptr::null(), name) })?;
        job.limit(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)?;
        Ok(job)
    }

    /// A job that somebody else holds; none if there is none of this name.
    pub fn open(name: &str) -> io::Result<Option<Self>> {
        let name = wide(name);
        // SAFETY: the name ends with a zero and lives during the call.
        let handle = unsafe { OpenJobObjectW(JOB_OBJECT_QUERY | JOB_OBJECT_TERMINATE, 0, name.as_ptr()) };
        match Job::own(handle) {
            Ok(job) => Ok(Some(job)),
            Err(error) if error.raw_os_error() == Some(ERROR_FILE_NOT_FOUND.cast_signed()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Handles that these calls give are not inherited by children.
    fn own(handle: HANDLE) -> io::Result<Self> {
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call that gave the handle succeeded and left it to us.
        Ok(Job { handle: unsafe { OwnedHandle::from_raw_handle(handle) } })
    }

    /// Takes in a program that was created with [`creation_flags`], and lets it run.
    pub fn take_in(&self, program: &Child) -> io::Result<Member> {
        let (Some(handle), Some(pid)) = (program.raw_handle(), program.id()) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the program is gone already"));
        };
        // SAFETY: the runtime holds the handle open for as long as we borrow `program`.
        let handle = unsafe { BorrowedHandle::borrow_raw(handle) }.try_clone_to_owned()?;
        // SAFETY: both handles are open.
        check(unsafe { AssignProcessToJobObject(self.raw(), handle.as_raw_handle()) })?;
        resume(pid)?;
        Ok(Member { pid, _handle: handle })
    }

    /// From now on the processes live on when nobody holds the job.
    pub fn outlive_handles(&self) -> io::Result<()> {
        self.limit(0)
    }

    fn limit(&self, flags: u32) -> io::Result<()> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = flags;
        let length = length_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>();
        // SAFETY: the pointer and the length are those of a structure of the kind that is named.
        check(unsafe {
            SetInformationJobObject(
                self.raw(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                length,
            )
        })
    }

    /// The number of one process of the job that lives, if any does.
    pub fn any_member(&self) -> io::Result<Option<u32>> {
        let mut list = JOBOBJECT_BASIC_PROCESS_ID_LIST::default();
        let length = length_of::<JOBOBJECT_BASIC_PROCESS_ID_LIST>();
        // SAFETY: the pointer and the length are those of a structure of the kind that is named.
        let listed = check(unsafe {
            QueryInformationJobObject(
                self.raw(),
                JobObjectBasicProcessIdList,
                (&raw mut list).cast(),
                length,
                ptr::null_mut(),
            )
        });
        match listed {
            // The list has room for one, and that there are more is no failure.
            Err(error) if error.raw_os_error() != Some(ERROR_MORE_DATA.cast_signed()) => Err(error),
            _ if list.NumberOfProcessIdsInList == 0 => Ok(None),
            _ => Ok(u32::try_from(list.ProcessIdList[0]).ok()),
        }
    }

    /// Ends all processes of the job.
    pub fn terminate(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        check(unsafe { TerminateJobObject(self.raw(), ENDED) })
    }

    fn raw(&self) -> HANDLE {
        self.handle.as_raw_handle()
    }
}

/// A program that was put into a job. While this is held, no other process gets its number.
#[derive(Debug)]
pub struct Member {
    pid: u32,
    _handle: OwnedHandle,
}

impl Member {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

/// Asks a program that was created with [`creation_flags`], and those it started, to end, as Ctrl-Break in a terminal
/// does. Fails where there is no terminal.
pub(super) fn ask_to_end(pid: u32) -> io::Result<()> {
    // SAFETY: takes two numbers. The second is not nought, which would mean everybody.
    check(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, pid.max(1)) })
}

/// Lets a program run that was created suspended. The runtime closes the handle of its thread, so that is looked up.
fn resume(pid: u32) -> io::Result<()> {
    // SAFETY: takes two numbers and gives a handle.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call that gave the handle succeeded and left it to us.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let length = length_of::<THREADENTRY32>();
    let mut entry = THREADENTRY32 { dwSize: length, ..THREADENTRY32::default() };
    let mut resumed = Err(io::Error::new(io::ErrorKind::NotFound, "the program has no thread"));
    // SAFETY: the handle is open, and `entry` is a structure that says its own length.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut entry) } != 0;
    while more {
        if entry.th32OwnerProcessID == pid {
            resumed = resume_thread(entry.th32ThreadID);
        }
        entry.dwSize = length;
        // SAFETY: as above.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut entry) } != 0;
    }
    resumed
}

fn resume_thread(id: u32) -> io::Result<()> {
    // SAFETY: takes numbers and gives a handle.
    let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, id) };
    if thread.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call that gave the handle succeeded and left it to us.
    let thread = unsafe { OwnedHandle::from_raw_handle(thread) };
    // SAFETY: the handle is open and permits this.
    match unsafe { ResumeThread(thread.as_raw_handle()) } {
        u32::MAX => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn check(succeeded: i32) -> io::Result<()> {
    if succeeded == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn length_of<T>() -> u32 {
    u32::try_from(size_of::<T>()).expect("structures of the system are small")
}
