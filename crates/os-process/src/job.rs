//! A job object: a set of processes that can be ended together and that no member can leave.
//!
//! Why no crate is used for this: `win32job` 2.0 can neither name a job, nor open one by its name, nor terminate it, nor
//! resume a suspended program, and its list of members fails for more than 1,024. `process-wrap` 10.0 has no names either,
//! reports the end of a program only when all members of its job have ended, and cannot let them outlive the job. Raymond
//! needs all of that: the name to find what a killed Raymond left behind, the rest for programs in the background.

#![expect(unsafe_code, reason = "no safe function offers this")]

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

/// The exit code of processes that are ended with their job.
const EXIT_CODE_OF_ENDED: u32 = 1;

/// The flags a program must be created with before [`Job::assign_and_resume`]: it is suspended, does not get Ctrl-C from
/// the terminal, and opens no window.
pub fn creation_flags() -> u32 {
    // SAFETY: takes no arguments and returns a number.
    let has_console = unsafe { GetConsoleCP() } != 0;
    let window = if has_console { 0 } else { CREATE_NO_WINDOW };
    CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | window
}

/// A handle to a job object. When the last handle to a job is closed, its processes are ended, unless
/// [`Job::outlive_handles`] was called.
#[derive(Debug)]
pub struct Job {
    handle: OwnedHandle,
}

impl Job {
    /// Creates a job. One with a name can be opened by other processes while there is a handle to it.
    pub fn create(name: Option<&str>) -> io::Result<Self> {
        let name = name.map(wide);
        let name = name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        // SAFETY: the name is null or a string that ends with a zero and lives during the call.
        let job = Job::own(unsafe { CreateJobObjectW(ptr::null(), name) })?;
        job.limit(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)?;
        Ok(job)
    }

    /// Opens a job of another process by its name; `None` if there is no such job.
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

    /// These handles are not inherited by children.
    fn own(handle: HANDLE) -> io::Result<Self> {
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call that returned the handle succeeded and made us its owner.
        Ok(Job { handle: unsafe { OwnedHandle::from_raw_handle(handle) } })
    }

    /// Puts a program that was created with [`creation_flags`] into the job, and then lets it run.
    pub fn assign_and_resume(&self, program: &Child) -> io::Result<Member> {
        let (Some(handle), Some(pid)) = (program.raw_handle(), program.id()) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the program has already ended"));
        };
        // SAFETY: tokio keeps the handle open while `program` is borrowed.
        let handle = unsafe { BorrowedHandle::borrow_raw(handle) }.try_clone_to_owned()?;
        // SAFETY: both handles are open.
        check(unsafe { AssignProcessToJobObject(self.raw(), handle.as_raw_handle()) })?;
        resume(pid)?;
        Ok(Member { pid, _handle: handle })
    }

    /// From now on the processes are not ended when the last handle is closed.
    pub fn outlive_handles(&self) -> io::Result<()> {
        self.limit(0)
    }

    fn limit(&self, flags: u32) -> io::Result<()> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = flags;
        let length = length_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>();
        // SAFETY: the pointer and the length are those of a structure of the named kind.
        check(unsafe {
            SetInformationJobObject(
                self.raw(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                length,
            )
        })
    }

    /// The process id of one living member, if there is any.
    pub fn any_member(&self) -> io::Result<Option<u32>> {
        let mut list = JOBOBJECT_BASIC_PROCESS_ID_LIST::default();
        let length = length_of::<JOBOBJECT_BASIC_PROCESS_ID_LIST>();
        // SAFETY: the pointer and the length are those of a structure of the named kind.
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
            // The list has room for one member; it is no failure if there are more.
            Err(error) if error.raw_os_error() != Some(ERROR_MORE_DATA.cast_signed()) => Err(error),
            _ if list.NumberOfProcessIdsInList == 0 => Ok(None),
            _ => Ok(u32::try_from(list.ProcessIdList[0]).ok()),
        }
    }

    /// Ends all processes of the job.
    pub fn terminate(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        check(unsafe { TerminateJobObject(self.raw(), EXIT_CODE_OF_ENDED) })
    }

    fn raw(&self) -> HANDLE {
        self.handle.as_raw_handle()
    }
}

/// A program that was put into a job. While this exists, no other process gets its process id.
#[derive(Debug)]
pub struct Member {
    pid: u32,
    _handle: OwnedHandle,
}

impl Member {
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// Sends Ctrl-Break to a program that was created with [`creation_flags`] and to what it has started. Fails if there is no
/// console.
pub fn send_ctrl_break(pid: u32) -> io::Result<()> {
    // SAFETY: takes two numbers. The second is not zero, which would mean all processes of the console.
    check(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, pid.max(1)) })
}

/// Lets a suspended program run. The standard library closes the handle of its thread, so the thread is looked up.
fn resume(pid: u32) -> io::Result<()> {
    // SAFETY: takes two numbers and returns a handle.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call that returned the handle succeeded and made us its owner.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let length = length_of::<THREADENTRY32>();
    let mut entry = THREADENTRY32 { dwSize: length, ..THREADENTRY32::default() };
    let mut resumed = Err(io::Error::new(io::ErrorKind::NotFound, "the program has no thread"));
    // SAFETY: the handle is open, and `entry` holds its own length.
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
    // SAFETY: takes numbers and returns a handle.
    let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, id) };
    if thread.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call that returned the handle succeeded and made us its owner.
    let thread = unsafe { OwnedHandle::from_raw_handle(thread) };
    // SAFETY: the handle is open and has the right to do this.
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
    u32::try_from(size_of::<T>()).expect("a structure's size fits into 32 bits")
}
