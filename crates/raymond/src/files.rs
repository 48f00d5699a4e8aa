//! Files of other people, read without harm, and files of our own, for the owner only.
//!
//! A name that someone else gave may lead to a pipe that never ends, to a device, or to a file of any size. Everything
//! that Raymond reads or writes by such a name is opened here, without waiting for anyone.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// How long a config file or a manifest may be.
pub const MAX_SETTINGS_BYTES: u64 = 1024 * 1024;

/// How long a file may be that a person names and that is read as a whole, and one that Raymond keeps for itself.
pub const MAX_GIVEN_BYTES: u64 = 64 * 1024 * 1024;
pub const MAX_KEPT_BYTES: u64 = 1024 * 1024 * 1024;

/// Opens a plain file for reading, and refuses everything else without waiting for it.
pub fn open_plain(path: &Path) -> io::Result<File> {
    open_plain_as(OpenOptions::new().read(true), path)
}

/// Opens a plain file as these options say, and refuses everything else without waiting for it. All other opening of files
/// in a project, in `.raymond` or by a given name goes through here; `clippy.toml` says so too.
pub fn open_plain_as(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    plain(open_without_waiting(options, path, Links::Followed))
}

/// The same for a file that Raymond keeps for itself: a link in its place, which only somebody else can have made, is an
/// error.
pub fn open_own_as(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    plain(open_without_waiting(options, path, Links::Refused))
}

fn plain(opened: io::Result<File>) -> io::Result<File> {
    let file = opened.map_err(|error| match is_unread_pipe(&error) {
        true => not_plain(),
        false => error,
    })?;
    check_plain(&file)?;
    Ok(file)
}

/// Opens what a person named for output. That may be a pipe or a device, but nothing is waited for: a pipe that nobody
/// reads is an error.
pub fn open_output(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let opened = open_without_waiting(options, path, Links::Followed);
    let file = opened.map_err(|error| match is_unread_pipe(&error) {
        true => io::Error::new(io::ErrorKind::BrokenPipe, "it is a pipe that nobody reads"),
        false => error,
    })?;
    // From here on a slow reader is waited for, as for any other output.
    #[cfg(unix)]
    rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)? & !rustix::fs::OFlags::NONBLOCK)?;
    Ok(file)
}

/// Writes what a person named for output.
pub fn write_output(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    io::Write::write_all(&mut open_output(options.write(true).create(true).truncate(true), path)?, bytes)
}

/// What happens to a link in the place of a file. Windows follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Followed,
    Refused,
}

#[expect(clippy::disallowed_methods, reason = "this is where files are opened")]
fn open_without_waiting(options: &mut OpenOptions, path: &Path, links: Links) -> io::Result<File> {
    #[cfg(windows)]
    let _ = links;
    #[cfg(unix)]
    {
        // Opening a pipe would wait until its other end is opened, and a terminal must not become this process' own.
        let mut flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        if links == Links::Refused {
            flags |= rustix::fs::OFlags::NOFOLLOW;
        }
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    options.open(path)
}

/// Whether this is how the system refuses to open a pipe for writing that nobody reads.
fn is_unread_pipe(error: &io::Error) -> bool {
    #[cfg(unix)]
    let is_it = error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
    #[cfg(not(unix))]
    let is_it = false;
    is_it
}

/// Refuses an open pipe, device or folder.
pub fn check_plain(file: &File) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => Ok(()),
        false => Err(not_plain()),
    }
}

const NOT_PLAIN: &str = "it is a folder, a pipe or a device, not a plain file";

fn not_plain() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, NOT_PLAIN)
}

/// Whether a file was not opened because something else is in its place.
pub fn is_not_plain(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.to_string() == NOT_PLAIN)
}

/// Opens a folder, to sync or to lock it.
#[expect(clippy::disallowed_methods, reason = "this is where files are opened; a folder is not waited for")]
pub fn open_folder(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::DIRECTORY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    options.read(true).open(path)
}

/// All bytes of a plain file that may not be longer than `most`.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_open(open_plain(path)?, most)
}

/// All bytes of an open file that may not be longer than `most`.
pub fn read_open(file: File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_long(most));
    }
    // With room for all of it, a file takes one read instead of many small ones.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
    // The file may grow while it is read.
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(too_long(most)),
        false => Ok(bytes),
    }
}

/// The same as text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// Bytes as text, or the error that they are none.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8");
    String::from_utf8(bytes).map_err(not_text)
}

fn too_long(most: u64) -> io::Error {
    const MIB: u64 = 1024 * 1024;
    let most = if most < MIB { format!("{} KiB", most / 1024) } else { format!("{} MiB", most / MIB) };
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {most}"))
}

/// Creates a folder for the owner only, and missing folders above it. One that exists is left as it is.
pub fn create_private_folders(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Sets what the owner may do with a file or folder.
#[cfg_attr(
    not(unix),
    expect(unused_variables, clippy::unnecessary_wraps, reason = "modes exist on Unix only")
)]
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    Ok(())
}

/// Removes a folder with all that is in it, also where folders in it cannot be written.
pub fn remove_tree(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(folder)?;
            std::fs::remove_dir_all(folder)
        }
        other => other,
    }
}

/// Links are not followed.
fn make_writable(folder: &Path) -> io::Result<()> {
    set_mode(folder, 0o700)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

/// Options that make a new file one for the owner only.
pub fn private_options() -> OpenOptions {
    options_with_mode(0o600)
}

/// Options that give a new file a mode.
#[cfg_attr(not(unix), expect(unused_variables, unused_mut, reason = "modes exist on Unix only"))]
pub fn options_with_mode(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    options
}

/// Copies a plain file to one for the owner only.
pub fn copy(from: &Path, to: &Path) -> io::Result<File> {
    // First, so that a file which is not there leaves no empty copy.
    let mut original = open_plain(from)?;
    let mut options = private_options();
    let mut copy = open_own_as(options.write(true).create(true).truncate(true), to)?;
    io::copy(&mut original, &mut copy)?;
    Ok(copy)
}

/// Writes a file for the owner only. A link in its place is not followed.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = private_options();
    let mut file = open_own_as(options.write(true).create(true).truncate(true), path)?;
    io::Write::write_all(&mut file, bytes)
}

/// Replaces a file by one for the owner only, as a whole: it is written under another name first. What is there, a link or
/// a pipe for example, is neither followed nor waited for.
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = path.with_file_name(format!(".{name}.{}.tmp", uuid::Uuid::new_v4().simple()));
    let mut options = private_options();
    let written = open_own_as(options.write(true).create_new(true), &unfinished);
    let written = written.and_then(|mut file| io::Write::write_all(&mut file, bytes));
    let replaced = written.and_then(|()| std::fs::rename(&unfinished, path));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    replaced
}

/// Gives a whole file its name, unless another one has it: of several at the same time, the first stays, and the others get the
/// error `AlreadyExists`. The unfinished name may be gone then.
pub fn name_first(unfinished: &Path, path: &Path) -> io::Result<()> {
    name_first_by(|from, to| std::fs::hard_link(from, to), unfinished, path)
}

/// Unlike a rename, a link never replaces what is there. Not every file system has links; where it has none, a lock does the
/// same among those who name files like this.
fn name_first_by(
    link: impl FnOnce(&Path, &Path) -> io::Result<()>,
    unfinished: &Path,
    path: &Path,
) -> io::Result<()> {
    match link(unfinished, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {}
        named => return named,
    }
    let lock =
        open_own_as(private_options().write(true).create(true).truncate(false), &path.with_file_name(LOCK))?;
    lock.lock()?;
    match std::fs::symlink_metadata(path) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::rename(unfinished, path),
        Err(error) => Err(error),
    }
}

/// What is locked while a file gets its name, where there are no links.
const LOCK: &str = ".naming";

/// Whether the machine lacks what a call needed: space, or open files. The same call may work on another machine.
pub fn is_shortage(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    #[cfg(unix)]
    let lacks_descriptors = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .iter()
        .any(|shortage| error.raw_os_error() == Some(shortage.raw_os_error()));
    #[cfg(not(unix))]
    let lacks_descriptors = false;
    lacks_descriptors || matches!(error.kind(), StorageFull | ReadOnlyFilesystem | QuotaExceeded)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn without_links_the_first_file_keeps_its_name_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("named");
        let no_links = |_: &Path, _: &Path| Err(io::ErrorKind::PermissionDenied.into());
        let name = |number: u32| {
            let unfinished = folder.path().join(format!("{number}.tmp"));
            std::fs::write(&unfinished, number.to_string()).unwrap();
            name_first_by(no_links, &unfinished, &path).map(|()| number).map_err(|error| error.kind())
        };
        let named: Vec<Result<u32, io::ErrorKind>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|number| scope.spawn(move || name(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let first: Vec<u32> = named.iter().filter_map(|named| named.ok()).collect();
        assert_eq!(first.len(), 1, "{named:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), first[0].to_string());
        assert!(named.iter().all(|named| named.is_ok() || *named == Err(io::ErrorKind::AlreadyExists)));
    }

    #[test]
    fn only_plain_files_of_a_bounded_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("plain"), "12345678").unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        File::create(at("sparse")).unwrap().set_len(10 << 30).unwrap();
        assert_eq!(read(&at("plain"), 8).unwrap(), b"12345678");
        let refusals = [
            ("plain", 7, "it is larger than 0 KiB"),
            ("sparse", MAX_SETTINGS_BYTES, "it is larger than 1 MiB"),
            ("zero", 8, "it is a folder, a pipe or a device, not a plain file"),
            ("pipe", 8, "it is a folder, a pipe or a device, not a plain file"),
            (".", 8, "it is a folder, a pipe or a device, not a plain file"),
        ];
        for (name, most, refusal) in refusals {
            assert_eq!(read(&at(name), most).unwrap_err().to_string(), refusal, "{name}");
        }
        assert_eq!(read(&at("none"), 8).unwrap_err().kind(), io::ErrorKind::NotFound);
        for name in ["zero", "pipe", "."] {
            assert!(write_private(&at(name), b"x").is_err(), "{name}");
        }
    }

    #[test]
    fn output_goes_into_a_pipe_that_someone_reads_and_is_not_held_up_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(write_output(&pipe, b"x").unwrap_err().to_string(), "it is a pipe that nobody reads");
        let mut reader = open_without_waiting(OpenOptions::new().read(true), &pipe, Links::Followed).unwrap();
        write_output(&pipe, b"read").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "read");
        write_output(Path::new("/dev/null"), b"x").unwrap();
    }
}
