//! Texts too long for the journal, in files named by what they hold.
//!
//! An event that names a payload is written after the payload is on disk, so a name in the journal
//! can be relied upon. The same text is stored once. One process writes, the holder of the run's
//! lock; any may read. Bound: [`MAX_PAYLOAD_BYTES`].

use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::Durability;
use super::disk::{Disk, SystemDisk};

/// The longest payload; more than all tags of one step may hold together.
pub const MAX_PAYLOAD_BYTES: u64 = 64 * 1024 * 1024;

/// What an event needs to say to find a payload again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// SHA-256 in lower-case hexadecimal digits.
    pub hash: String,
    pub bytes: u64,
}

/// The payloads of one run.
#[derive(Clone, Debug)]
pub struct Payloads {
    dir: PathBuf,
    durability: Durability,
    disk: Arc<dyn Disk>,
}

impl Payloads {
    /// The folder is created with the first payload.
    pub fn new(dir: impl Into<PathBuf>, durability: Durability) -> Self {
        Self { dir: dir.into(), durability, disk: Arc::new(SystemDisk) }
    }

    /// The same payloads on another disk.
    pub fn on(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk, ..self }
    }

    /// Stores a text, unless it is there; on disk when this returns.
    pub fn put(&mut self, text: &str) -> Result<Stored, PayloadError> {
        let hash = hash_of(text.as_bytes());
        let bytes = text.len() as u64;
        if bytes > MAX_PAYLOAD_BYTES {
            return Err(PayloadError::TooLong { bytes });
        }
        let path = self.dir.join(&hash);
        self.put_at(&path, text).map_err(|source| PayloadError::Io { path, source })?;
        Ok(Stored { hash, bytes })
    }

    fn put_at(&self, path: &Path, text: &str) -> io::Result<()> {
        if self.disk.length(path) != Some(text.len() as u64) {
            self.disk.create_dir(&self.dir)?;
            self.write(path, text)?;
        }
        // Also for a file that was there: who wrote it may have died before this point.
        match self.durability {
            Durability::Power => self.disk.sync_dir(&self.dir),
            Durability::Process => Ok(()),
        }
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().display();
        let unfinished = self.dir.join(format!(".{name}.tmp"));
        self.disk.remove(&unfinished)?;
        let mut file = self.disk.create(&unfinished, true)?;
        file.write_all(text.as_bytes())?;
        if self.durability == Durability::Power {
            file.sync_all()?;
        }
        self.disk.rename(&unfinished, path)
    }

    /// A payload's text, wherever it is.
    pub fn text_of(&self, payload: &raymond_core::payload::Payload) -> Result<String, String> {
        match payload {
            raymond_core::payload::Payload::Inline(text) => Ok(text.clone()),
            raymond_core::payload::Payload::Stored { payload, .. } => {
                self.get(payload).map_err(|error| error.to_string())
            }
        }
    }

    /// The text that was stored under a hash, checked to be that text.
    pub fn get(&self, hash: &str) -> Result<String, PayloadError> {
        let well_formed =
            hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !well_formed {
            return Err(PayloadError::NotAHash);
        }
        let path = self.dir.join(hash);
        let bytes = match self.read_bounded(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(PayloadError::Missing { path });
            }
            Err(source) => return Err(PayloadError::Io { path, source }),
            Ok(bytes) => bytes,
        };
        if hash_of(&bytes) != hash {
            return Err(PayloadError::Damaged { path });
        }
        String::from_utf8(bytes).map_err(|_| PayloadError::Damaged { path })
    }

    /// A file that is longer than any payload is cut, and so does not have its hash.
    fn read_bounded(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.disk.read(path, 0)?.take(MAX_PAYLOAD_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why a payload was not stored or read.
#[derive(Debug)]
pub enum PayloadError {
    NotAHash,
    TooLong { bytes: u64 },
    Missing { path: PathBuf },
    Damaged { path: PathBuf },
    Io { path: PathBuf, source: io::Error },
}

impl fmt::Display for PayloadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAHash => write!(out, "the journal names a payload by something that is no hash"),
            Self::TooLong { bytes } => write!(out, "a payload of {bytes} bytes is too long"),
            Self::Missing { path } => {
                write!(
                    out,
                    "{} is missing, though the journal names it; restore it from a copy",
                    path.display()
                )
            }
            Self::Damaged { path } => {
                write!(out, "{} is not what was written; restore it from a copy", path.display())
            }
            Self::Io { path, source } => write!(out, "cannot store or read {}: {source}", path.display()),
        }
    }
}

impl Error for PayloadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::{TempDir, tempdir};

    fn payloads(durability: Durability) -> (TempDir, Payloads) {
        let dir = tempdir().unwrap();
        let payloads = Payloads::new(dir.path().join("r.d"), durability);
        (dir, payloads)
    }

    /// A file that was stored cannot be written, so damage comes by putting another in its place.
    fn replace(path: &Path, bytes: &[u8]) {
        fs::remove_file(path).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_text_comes_back_under_its_hash() {
        for durability in [Durability::Power, Durability::Process] {
            let (_dir, mut payloads) = payloads(durability);
            let stored = payloads.put("abc").unwrap();
            assert_eq!(stored.hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
            assert_eq!(stored.bytes, 3);
            assert_eq!(payloads.get(&stored.hash).unwrap(), "abc");
        }
    }

    #[test]
    fn the_same_text_is_written_once() {
        let (_dir, mut payloads) = payloads(Durability::Power);
        let stored = payloads.put("text").unwrap();
        let path = payloads.dir.join(&stored.hash);
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::open(&path).unwrap().set_modified(old).unwrap();
        assert_eq!(payloads.put("text").unwrap(), stored);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), old);
        assert_eq!(fs::read_dir(&payloads.dir).unwrap().count(), 1);
    }

    #[test]
    fn a_short_file_and_a_leftover_are_written_anew() {
        let (_dir, mut payloads) = payloads(Durability::Power);
        let stored = payloads.put("text").unwrap();
        replace(&payloads.dir.join(&stored.hash), b"te");
        fs::write(payloads.dir.join(format!(".{}.tmp", stored.hash)), "t").unwrap();
        payloads.put("text").unwrap();
        assert_eq!(payloads.get(&stored.hash).unwrap(), "text");
        assert_eq!(fs::read_dir(&payloads.dir).unwrap().count(), 1);
    }

    #[test]
    fn changed_and_missing_payloads_are_reported() {
        let (_dir, mut payloads) = payloads(Durability::Power);
        let hash = payloads.put("text").unwrap().hash;
        replace(&payloads.dir.join(&hash), b"texT");
        assert!(matches!(payloads.get(&hash), Err(PayloadError::Damaged { .. })));
        fs::remove_file(payloads.dir.join(&hash)).unwrap();
        assert!(matches!(payloads.get(&hash), Err(PayloadError::Missing { .. })));
    }

    #[test]
    fn a_name_that_is_no_hash_is_no_path() {
        let (dir, payloads) = payloads(Durability::Power);
        fs::write(dir.path().join("secret"), "x").unwrap();
        for name in ["../secret", "", &"A".repeat(64), &"g".repeat(64)] {
            assert!(matches!(payloads.get(name), Err(PayloadError::NotAHash)), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn payloads_are_read_only_and_for_the_owner() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (_dir, mut payloads) = payloads(Durability::Process);
        let hash = payloads.put("text").unwrap().hash;
        assert_eq!(mode(&payloads.dir), 0o700);
        assert_eq!(mode(&payloads.dir.join(hash)), 0o400);
    }
}
