//! What this machine has begun and ended, on its disk.
//!
//! The server delivers an attempt again when it does not know what became of it. The records tell: an attempt that was
//! begun is never begun again, and one that has ended gives the same result.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::messages::Delivered;

/// The folder of the records, among those of a run.
pub(super) const RECORDS: &str = ".records";

/// The records of a run's attempts.
#[derive(Clone, Debug)]
pub struct Records(PathBuf);

/// What is known of an attempt.
#[derive(Debug)]
pub enum Known {
    Nothing,
    Begun,
    Ended(Delivered),
}

impl Records {
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    pub fn look(&self, token: &str) -> io::Result<Known> {
        let Some(bytes) = read(&self.file(token))? else { return Ok(Known::Nothing) };
        // A result that is not whole was never reported.
        Ok(serde_json::from_slice(&bytes).map_or(Known::Begun, Known::Ended))
    }

    /// Must come before anything of the attempt is started.
    pub async fn begin(&self, token: &str) -> io::Result<()> {
        let (folder, file) = (self.0.clone(), self.file(token));
        on_disk(move || {
            OpenOptions::new().write(true).create_new(true).open(file)?;
            // The file is empty, so all of it is its name.
            File::open(folder)?.sync_all()
        })
        .await
    }

    /// The attempt was not begun after all.
    pub fn forget(&self, token: &str) -> io::Result<()> {
        fs::remove_file(self.file(token))
    }

    /// Must come before the result is reported.
    pub async fn end(&self, token: &str, result: &Delivered) -> anyhow::Result<()> {
        let (file, bytes) = (self.file(token), serde_json::to_vec(result)?);
        let written = on_disk(move || {
            let mut file = File::create(file)?;
            file.write_all(&bytes)?;
            file.sync_all()
        });
        Ok(written.await?)
    }

    /// It is there when the attempt has begun, and has the result when it has ended.
    fn file(&self, token: &str) -> PathBuf {
        self.0.join(token)
    }
}

/// Waits for the disk elsewhere: this thread has other steps to carry out.
async fn on_disk(write: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(write).await?
}

fn read(path: &std::path::Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_attempt_is_begun_once_and_keeps_its_result() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path().join("records")).unwrap();
        assert!(matches!(records.look("t").unwrap(), Known::Nothing));
        records.begin("t").await.unwrap();
        assert!(matches!(records.look("t").unwrap(), Known::Begun));
        assert!(records.begin("t").await.is_err());
        records.forget("t").unwrap();
        assert!(matches!(records.look("t").unwrap(), Known::Nothing));
        records.begin("t").await.unwrap();
        let result = Delivered::Lost { why: "gone".to_owned(), cost: None, leaving: false };
        records.end("t", &result).await.unwrap();
        let Known::Ended(Delivered::Lost { why, .. }) = records.look("t").unwrap() else { panic!("ended") };
        assert_eq!(why, "gone");
    }

    #[tokio::test]
    async fn a_result_that_is_not_whole_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path().to_owned()).unwrap();
        records.begin("t").await.unwrap();
        let result = Delivered::Lost { why: "gone".to_owned(), cost: None, leaving: false };
        records.end("t", &result).await.unwrap();
        let whole = fs::read(records.file("t")).unwrap();
        for length in 0..whole.len() {
            fs::write(records.file("t"), &whole[..length]).unwrap();
            assert!(matches!(records.look("t").unwrap(), Known::Begun), "{length}");
        }
        records.end("t", &result).await.unwrap();
        assert!(matches!(records.look("t").unwrap(), Known::Ended(_)));
    }
}
