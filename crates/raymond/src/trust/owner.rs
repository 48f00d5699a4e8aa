//! Refuses a `.raymond` of another user, because its config file names programs to run.

use std::fs::Metadata;
use std::path::Path;

#[cfg(unix)]
use crate::config;
use crate::error::UserError;

/// Checks a `.raymond` that was found by walking up, and its config file. What is not there is fine. Windows protects
/// the folders above a user's own by itself.
#[cfg(windows)]
pub fn check_owner(_home: &Path) -> Result<(), UserError> {
    Ok(())
}

/// Checks the config file of such a `.raymond` after it was opened.
#[cfg(windows)]
pub fn check_open(_file: &Path, _data: &Metadata) -> Result<(), UserError> {
    Ok(())
}

/// Checks a `.raymond` that was found by walking up, its config file, and the folder of its journals, which name the
/// workflows that a resume runs. What is not there is fine.
#[cfg(unix)]
pub fn check_owner(home: &Path) -> Result<(), UserError> {
    let files = [home.to_owned(), home.join("config.toml"), home.join("state")];
    let found = files.iter().find_map(|file| unix::trouble_with(file).map(|trouble| (file, trouble)));
    found.map_or(Ok(()), |(file, trouble)| refuse_unless_safe(home, file, trouble))
}

/// Checks the config file of such a `.raymond` after it was opened: it may be another one than when its name was
/// checked.
#[cfg(unix)]
pub fn check_open(file: &Path, data: &Metadata) -> Result<(), UserError> {
    let home = file.parent().unwrap_or(file);
    unix::trouble_in(data).map_or(Ok(()), |trouble| refuse_unless_safe(home, file, trouble))
}

#[cfg(unix)]
fn refuse_unless_safe(
    home: &Path,
    file: &Path,
    (trouble, remedy): (String, &'static str),
) -> Result<(), UserError> {
    let project = home.parent().unwrap_or(home);
    if is_safe(project)? || unix::is_without_owners(home) {
        return Ok(());
    }
    let error = UserError::usage(format!("{} {trouble}, so it is not used", file.display()));
    let own = config::user_file().map(|file| file.display().to_string());
    let own = own.unwrap_or_else(|| "your own config file".to_owned());
    Err(error
        .hint(format!("if you trust it: in {own}, under [raymond], write safe_folders = [{:?}]", project))
        .hint(format!("or {remedy}")))
}

/// Whether the user's own config file lists a folder, or one around it.
#[cfg(unix)]
fn is_safe(project: &Path) -> Result<bool, UserError> {
    let Some(file) = config::user_file() else { return Ok(false) };
    let safe_folders = config::load(&file)?.raymond.safe_folders;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let project = real(project);
    let is_around = |folder: &String| {
        let folder = crate::paths::without_tilde(folder);
        folder.is_absolute() && project.starts_with(real(&folder))
    };
    Ok(safe_folders.iter().any(is_around))
}

#[cfg(unix)]
mod unix {
    use std::fs::{self, Metadata};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use super::is_windows_drive;

    const WORLD_WRITABLE: u32 = 0o002;
    const STICKY: u32 = 0o1000;

    /// Why a file must not be trusted, and how to change that. Of a link, both it and what it leads to count.
    pub(super) fn trouble_with(file: &Path) -> Option<(String, &'static str)> {
        let link = fs::symlink_metadata(file).ok()?;
        let target = fs::metadata(file).ok();
        let owned = [Some(&link), target.as_ref()].into_iter().flatten().find_map(belongs_to_another);
        // What is neither a file nor a folder is not read, and the error about that says more.
        let read = target.as_ref().filter(|data| data.is_file() || data.is_dir());
        owned.or_else(|| read.and_then(is_open_to_all))
    }

    /// The same for an open file.
    pub(super) fn trouble_in(data: &Metadata) -> Option<(String, &'static str)> {
        belongs_to_another(data).or_else(|| is_open_to_all(data))
    }

    fn belongs_to_another(data: &Metadata) -> Option<(String, &'static str)> {
        let own = rustix::process::geteuid().as_raw();
        // The user who called sudo.
        let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
        let is_trusted = data.uid() == 0 || data.uid() == own || Some(data.uid()) == caller;
        let trouble = format!("belongs to another user (uid {}, you are {own})", data.uid());
        (!is_trusted).then_some((trouble, "make it yours, with chown"))
    }

    fn is_open_to_all(data: &Metadata) -> Option<(String, &'static str)> {
        // The sticky bit protects what is in a folder. For a file it means nothing.
        let is_protected = data.is_dir() && data.mode() & STICKY != 0;
        let is_open = data.mode() & WORLD_WRITABLE != 0 && !is_protected;
        // Devices such as /dev/null are open to all; they are refused where they are read.
        let is_open = is_open && (data.is_file() || data.is_dir());
        is_open.then(|| {
            ("can be changed by every user".to_owned(), "make it writable for its owner only, with chmod o-w")
        })
    }

    /// Whether a folder is on a Windows drive under WSL. Every file there looks as if anyone could change it, and the
    /// real permissions are those of Windows.
    pub(super) fn is_without_owners(folder: &Path) -> bool {
        let release =
            crate::files::read_text(Path::new("/proc/sys/kernel/osrelease"), crate::files::MAX_GIVEN_BYTES)
                .unwrap_or_default();
        let mounts = crate::files::read_text(Path::new("/proc/self/mounts"), crate::files::MAX_GIVEN_BYTES)
            .unwrap_or_default();
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        is_windows_drive(&release, &mounts, &folder)
    }
}

/// Whether the mount point of a folder is a Windows drive: of the type `drvfs` in the first version of WSL, `9p` in the
/// second.
#[cfg(unix)]
fn is_windows_drive(release: &str, mounts: &str, folder: &Path) -> bool {
    if !release.to_lowercase().contains("microsoft") {
        return false;
    }
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        // Spaces in names are written as `\040`.
        let point = words.next()?.replace("\\040", " ");
        folder.starts_with(&point).then(|| (point.len(), words.next().unwrap_or_default()))
    });
    // Of mounts at the same place, the last is on top.
    mounts.max_by_key(|(length, _)| *length).is_some_and(|(_, kind)| ["9p", "drvfs"].contains(&kind))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn windows_drives_are_known_by_system_and_mount() {
        const MOUNTS: &str = "/dev/sdc / ext4 rw 0 0\n\
                              C:\\134 /mnt/c 9p rw,noatime,aname=drvfs 0 0\n\
                              D: /mnt/my\\040disk drvfs rw 0 0\n\
                              /dev/sdd /mnt/c/linux ext4 rw 0 0\n";
        const WSL: &str = "5.15.153.1-microsoft-standard-WSL2\n";
        let cases = [
            (WSL, "/mnt/c/work/.raymond", true),
            (WSL, "/mnt/my disk/.raymond", true),
            (WSL, "/mnt/c/linux/.raymond", false),
            (WSL, "/home/me/.raymond", false),
            ("6.8.0-generic", "/mnt/c/work/.raymond", false),
        ];
        for (release, folder, expected) in cases {
            assert_eq!(is_windows_drive(release, MOUNTS, Path::new(folder)), expected, "{release} {folder}");
        }
    }
}
