//! Marks that only this user's Raymond on this machine can make.
//!
//! What lies below a project's `.raymond` may have come with a clone, an archive or a pull. So what Raymond itself keeps
//! there carries a mark: the HMAC-SHA256 of what is marked, of what it is used for and of the folder it is in, under a key
//! that is kept in the user's own data folder. Without the key no such mark can be made, and one that was copied elsewhere does
//! not fit there.
//!
//! The key is made when it is needed first. Commands that only look make none: without a key nothing is marked.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::config;
use crate::files;

/// The file of the key, in the user's data folder.
const KEY_FILE: &str = "marks.key";
const KEY_BYTES: usize = 32;
/// The block of SHA-256, to which HMAC fills up a key.
const BLOCK_BYTES: usize = 64;

/// A secret of this user on this machine.
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKey(String);

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Key {
    /// The user's key, if there is one that may be used for a project. It is not made.
    pub fn find(project: &Path) -> Result<Option<Self>, NoKey> {
        let folder = folder_for(project)?;
        read(&folder.join(KEY_FILE))
    }

    /// The user's key, made if there is none.
    pub fn find_or_make(project: &Path) -> Result<Self, NoKey> {
        let folder = folder_for(project)?;
        keep_in(&folder)
    }

    /// The mark of something: of what kind it is, and all that it stands for. No part can be taken for the end of another.
    pub fn mark(&self, kind: &str, parts: &[&[u8]]) -> String {
        let mut message = Vec::new();
        for part in [kind.as_bytes()].iter().chain(parts) {
            message.extend((part.len() as u64).to_be_bytes());
            message.extend(*part);
        }
        hmac(&self.0, &message).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether this is the mark of something. It takes as long for a wrong mark as for the right one.
    pub fn fits(&self, mark: &str, kind: &str, parts: &[&[u8]]) -> bool {
        let right = self.mark(kind, parts);
        let same = right.bytes().zip(mark.bytes()).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0;
        same && right.len() == mark.len()
    }
}

/// The folder of the key. A key that lies in the project itself may have come with it.
fn folder_for(project: &Path) -> Result<PathBuf, NoKey> {
    let folder = config::user_data_folder().filter(|folder| folder.is_absolute()).ok_or_else(|| {
        NoKey(
            "there is no folder of your own to keep a key in: neither XDG_DATA_HOME nor HOME is set"
                .to_owned(),
        )
    })?;
    let real = |path: &Path| {
        let existing = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
        existing.map_or_else(
            || path.to_owned(),
            |(above, real)| path.strip_prefix(above).map_or_else(|_| path.to_owned(), |rest| real.join(rest)),
        )
    };
    let project = real(project);
    // A person may work in the home folder, or set one within the project. In the root of a container all else lies, too.
    let has_home = std::env::home_dir().is_some_and(|home| real(&home).starts_with(&project));
    match real(&folder).starts_with(&project) && !has_home && project.parent().is_some() {
        true => Err(NoKey(format!(
            "the folder for your key, {}, lies in the project {}",
            folder.display(),
            project.display()
        ))),
        false => Ok(folder),
    }
}

/// The key in a folder, made if it is not there. Of several processes that make it at once, all get the same.
fn keep_in(folder: &Path) -> Result<Key, NoKey> {
    let path = folder.join(KEY_FILE);
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    let cannot = |error: io::Error| NoKey(format!("the key {} cannot be made: {error}", path.display()));
    files::create_private_folders(folder).map_err(cannot)?;
    make(folder, &path).map_err(cannot)?;
    read(&path)?.ok_or_else(|| NoKey(format!("the key {} was just removed", path.display())))
}

/// Writes a new key under another name and links it into place, so that it is whole and the first one stays.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let unfinished = folder.join(format!(".{}.tmp", uuid::Uuid::new_v4()));
    let opened = files::open_own_as(files::private_options().write(true).create_new(true), &unfinished);
    let written = opened.and_then(|mut file| {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
        file.write_all(&key)?;
        file.sync_all()
    });
    let linked = written.and_then(|()| files::name_first(&unfinished, path));
    let _ = fs::remove_file(&unfinished);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// The key in a file, unless others could have written it or know it.
fn read(path: &Path) -> Result<Option<Key>, NoKey> {
    let unusable = |why: &dyn fmt::Display| NoKey(format!("the key {} is not used: {why}", path.display()));
    let file = match files::open_plain(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        other => other.map_err(|error| unusable(&error))?,
    };
    #[cfg(unix)]
    {
        let data = file.metadata().map_err(|error| unusable(&error))?;
        let folder = path.parent().unwrap_or(path);
        let around = fs::metadata(folder).map_err(|error| unusable(&error))?;
        if let Some(why) = unix::trouble(&data, &around) {
            return Err(unusable(&why));
        }
    }
    let bytes = files::read_open(file, KEY_BYTES as u64).map_err(|error| unusable(&error))?;
    let key = bytes.try_into().map_err(|_| unusable(&"it is damaged; remove it to get a new one"))?;
    Ok(Some(Key(key)))
}

#[cfg(unix)]
mod unix {
    use std::fs::Metadata;
    use std::os::unix::fs::MetadataExt;

    use crate::trust::owner::is_own;

    /// Why a key in a folder may be known to others, or made by them.
    pub(super) fn trouble(key: &Metadata, folder: &Metadata) -> Option<&'static str> {
        const OTHERS: u32 = 0o077;
        const OTHERS_WRITE: u32 = 0o022;
        const STICKY: u32 = 0o1000;
        let is_open = |data: &Metadata, bits| data.mode() & bits != 0;
        if !is_own(key.uid()) || !is_own(folder.uid()) {
            return Some("it belongs to another user");
        }
        if is_open(key, OTHERS) {
            return Some(
                "other users may read or change it; set its mode to 600, or remove it to get a new one",
            );
        }
        (is_open(folder, OTHERS_WRITE) && !is_open(folder, STICKY))
            .then_some("other users can write to its folder; set the mode of that to 700")
    }
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let padded = |with: u8| {
        let mut block = [with; BLOCK_BYTES];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

/// A key in this folder, for the tests of other modules.
#[cfg(test)]
pub(crate) fn tests_key(folder: &Path) -> Key {
    keep_in(folder).expect("make a key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hmac_is_that_of_rfc_4231() {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            hex(hmac(&[0x0b; 20], b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            hex(hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_mark_is_of_its_kind_and_of_all_its_parts() {
        let key = Key([7; KEY_BYTES]);
        let mark = key.mark("run", &[b"ab", b"c"]);
        assert!(key.fits(&mark, "run", &[b"ab", b"c"]));
        let others: [(&str, &[&[u8]]); 4] = [
            ("run", &[b"a", b"bc"]),
            ("run", &[b"abc"]),
            ("token", &[b"ab", b"c"]),
            ("run", &[b"ab", b"c", b""]),
        ];
        for (kind, parts) in others {
            assert!(!key.fits(&mark, kind, parts), "{kind} {parts:?}");
        }
        assert!(!key.fits(&mark[1..], "run", &[b"ab", b"c"]) && !key.fits("", "run", &[b"ab", b"c"]));
        assert!(!Key([8; KEY_BYTES]).fits(&mark, "run", &[b"ab", b"c"]));
    }

    #[test]
    fn a_key_that_is_made_by_many_at_once_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("share/raymond");
        let keys: Vec<[u8; KEY_BYTES]> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..20).map(|_| scope.spawn(|| keep_in(&place).unwrap().0)).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1, "nothing is left beside it");
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_know_or_could_have_made_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("raymond");
        keep_in(&place).unwrap();
        let key = place.join(KEY_FILE);
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
        for mode in [0o644, 0o620, 0o602] {
            set(&key, mode);
            assert!(keep_in(&place).unwrap_err().to_string().contains("600"), "{mode:o}");
        }
        set(&key, 0o600);
        set(&place, 0o777);
        assert!(keep_in(&place).unwrap_err().to_string().contains("700"));
        set(&place, 0o755);
        keep_in(&place).unwrap();
        fs::write(&key, "short").unwrap();
        assert!(keep_in(&place).unwrap_err().to_string().contains("damaged"));
        fs::remove_file(&key).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&key).status().unwrap().success());
        assert!(keep_in(&place).is_err(), "a pipe is not waited for");
    }
}
