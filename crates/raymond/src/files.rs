//! Files of other people, read without harm, and files of our own, for the owner only.
//!
//! A name that someone else gave may lead to a pipe that never ends, to a device, or to a file of any size. Everything
//! that Raymond reads by such a name is opened here.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// How long a config file or a manifest may be.
pub const MAX_SETTINGS_BYTES: u64 = 1024 * 1024;

/// Opens a plain file for reading, and refuses everything else without waiting for it.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        // Opening a pipe would wait until someone writes to it.
        let no_waiting = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, no_waiting);
    }
    let file = options.open(path)?;
    check_plain(&file)?;
    Ok(file)
}

/// Refuses an open pipe, device or folder.
pub fn check_plain(file: &File) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => Ok(()),
        false => {
            let error = "it is a folder, a pipe or a device, not a plain file";
            Err(io::Error::new(io::ErrorKind::InvalidInput, error))
        }
    }
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

/// Lets an open fail where the name leads to a link, and not wait where it leads to a pipe.
pub fn not_through_a_link(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOFOLLOW).bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags);
    }
    options
}

/// Writes a file for the owner only. A link in its place is not followed.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = private_options();
    let file = not_through_a_link(options.write(true).create(true).truncate(true)).open(path);
    io::Write::write_all(&mut file?, bytes)
}

/// Replaces a file by one for the owner only, as a whole: it is written under another name first. What is there, a link or
/// a pipe for example, is neither followed nor waited for.
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = path.with_file_name(format!(".{name}.{}.tmp", uuid::Uuid::new_v4().simple()));
    let mut options = private_options();
    let written = options.write(true).create_new(true).open(&unfinished);
    let written = written.and_then(|mut file| io::Write::write_all(&mut file, bytes));
    let replaced = written.and_then(|()| std::fs::rename(&unfinished, path));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    replaced
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

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
    }
}
