//! Payloads as files in `RUN.d/`, named by their hash.
//!
//! An event that names a payload is written after the payload is on disk, so a payload that the journal names is
//! there. The same text is stored once. Only the holder of the run's lock writes; any process may read.
//! Bound: [`MAX_PAYLOAD_BYTES`].

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use raymond_core::payload::Payload;

use super::disk::Disk;
use crate::store::error::StoreError;
use crate::store::home::Durability;
use crate::store::payload::{MAX_PAYLOAD_BYTES, PayloadSource, check_hash, hash_of, reference_to};

/// The payloads of one run.
#[derive(Clone, Debug)]
pub struct PayloadFolder {
    dir: PathBuf,
    durability: Durability,
    disk: Arc<dyn Disk>,
}

impl PayloadFolder {
    /// The folder is created with the first payload.
    pub fn new(dir: impl Into<PathBuf>, durability: Durability, disk: Arc<dyn Disk>) -> Self {
        Self { dir: dir.into(), durability, disk }
    }

    /// Stores a text, unless it is there; on disk when this returns.
    pub fn put(&mut self, text: &str) -> Result<Payload, StoreError> {
        let payload = reference_to(text)?;
        if let Payload::Stored { payload: hash, .. } = &payload {
            let path = self.dir.join(hash);
            self.put_at(&path, text).map_err(|error| StoreError::io(path.display(), "write", error))?;
        }
        Ok(payload)
    }

    fn put_at(&self, path: &Path, text: &str) -> io::Result<()> {
        if self.disk.length(path) != Some(text.len() as u64) {
            self.disk.create_dir(&self.dir)?;
            self.write(path, text)?;
        }
        // Also for a file that was there: the process that wrote it may have died before this point.
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

    /// Of a file that is longer than any payload only a part is read, which does not have its hash.
    fn read_bounded(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.disk.read(path, 0)?.take(MAX_PAYLOAD_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl PayloadSource for PayloadFolder {
    fn get(&self, hash: &str) -> Result<String, StoreError> {
        check_hash(hash)?;
        let path = self.dir.join(hash);
        let place = || path.display().to_string();
        let bytes = match self.read_bounded(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::PayloadMissing { place: place() });
            }
            Err(error) => return Err(StoreError::io(place(), "read", error)),
            Ok(bytes) => bytes,
        };
        if hash_of(&bytes) != hash {
            return Err(StoreError::PayloadDamaged { place: place() });
        }
        String::from_utf8(bytes).map_err(|_| StoreError::PayloadDamaged { place: place() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::SystemDisk;
    use super::*;
    use std::fs;
    use tempfile::{TempDir, tempdir};

    fn payloads(durability: Durability) -> (TempDir, PayloadFolder) {
        let dir = tempdir().unwrap();
        let payloads = PayloadFolder::new(dir.path().join("r.d"), durability, Arc::new(SystemDisk));
        (dir, payloads)
    }

    /// A stored file is read-only, so the tests put another in its place.
    fn replace(path: &Path, bytes: &[u8]) {
        fs::remove_file(path).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn put(payloads: &mut PayloadFolder, text: &str) -> String {
        match payloads.put(text).unwrap() {
            Payload::Stored { payload, bytes } if bytes == text.len() as u64 => payload,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_comes_back_under_its_hash() {
        for durability in [Durability::Power, Durability::Process] {
            let (_dir, mut payloads) = payloads(durability);
            let hash = put(&mut payloads, "abc");
            assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
            assert_eq!(payloads.get(&hash).unwrap(), "abc");
        }
    }

    #[test]
    fn the_same_text_is_written_once() {
        let (_dir, mut payloads) = payloads(Durability::Power);
        let hash = put(&mut payloads, "text");
        let path = payloads.dir.join(&hash);
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::open(&path).unwrap().set_modified(old).unwrap();
        assert_eq!(put(&mut payloads, "text"), hash);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), old);
        assert_eq!(fs::read_dir(&payloads.dir).unwrap().count(), 1);
    }

    #[test]
    fn a_short_file_and_a_leftover_are_written_anew() {
        let (_dir, mut payloads) = payloads(Durability::Power);
        let hash = put(&mut payloads, "text");
        replace(&payloads.dir.join(&hash), b"te");
        fs::write(payloads.dir.join(format!(".{}.tmp", hash)), "t").unwrap();
        payloads.put("text").unwrap();
        assert_eq!(payloads.get(&hash).unwrap(), "text");
        assert_eq!(fs::read_dir(&payloads.dir).unwrap().count(), 1);
    }

    #[test]
    fn changed_and_missing_payloads_are_reported() {
        let (_dir, mut payloads) = payloads(Durability::Power);
        let hash = put(&mut payloads, "text");
        replace(&payloads.dir.join(&hash), b"texT");
        assert!(matches!(payloads.get(&hash), Err(StoreError::PayloadDamaged { .. })));
        fs::remove_file(payloads.dir.join(&hash)).unwrap();
        assert!(matches!(payloads.get(&hash), Err(StoreError::PayloadMissing { .. })));
    }

    #[test]
    fn a_name_that_is_no_hash_is_no_path() {
        let (dir, payloads) = payloads(Durability::Power);
        fs::write(dir.path().join("secret"), "x").unwrap();
        for name in ["../secret", "", &"A".repeat(64), &"g".repeat(64)] {
            assert!(matches!(payloads.get(name), Err(StoreError::NotAHash)), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn payloads_are_read_only_and_for_the_owner() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (_dir, mut payloads) = payloads(Durability::Process);
        let hash = put(&mut payloads, "text");
        assert_eq!(mode(&payloads.dir), 0o700);
        assert_eq!(mode(&payloads.dir.join(hash)), 0o400);
    }
}
