//! What this machine has begun and ended, on its disk.
//!
//! The server delivers an attempt again when it does not know what became of it. The records tell: an attempt that was
//! begun is never begun again, and one that has ended gives the same result.
//!
//! A record is a file. It is empty when the attempt has begun. Its first line comes when the attempt's programs have ended, and
//! its second when what they left is kept for other machines. Only the last line that is whole counts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use raymond::run::hosted::StepReport;
use serde::Serialize;

use crate::messages::Delivered;

/// The folder of the records, among those of a run.
pub(super) const RECORDS: &str = ".records";

/// If it takes longer to keep what an attempt left, its first line must be on disk.
const SYNC_AFTER: Duration = Duration::from_millis(300);

/// The records of a run's attempts.
#[derive(Clone, Debug)]
pub struct Records(PathBuf);

/// What is known of an attempt.
#[derive(Debug)]
pub enum Known {
    Nothing,
    Begun,
    /// It has ended, and what it left is not kept for other machines yet.
    Unkept(Box<StepReport>),
    Ended(Delivered),
}

impl Records {
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    pub fn look(&self, token: &str) -> io::Result<Known> {
        Ok(read(&self.file(token))?.map_or(Known::Nothing, |bytes| known_from(&bytes)))
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

    /// The attempt's programs have ended. This survives the end of the worker, and that of the machine once it is synced.
    pub async fn end_unkept(&self, token: &str, report: &StepReport) -> anyhow::Result<()> {
        let (file, line) = (self.file(token), line_of(report)?);
        Ok(on_disk(move || append(&file, &line).map(drop)).await?)
    }

    /// Waits for what is kept of an attempt. If that takes a while, the first line of the record is synced meanwhile.
    pub async fn while_kept<T>(&self, token: &str, keeping: impl Future<Output = T>) -> T {
        let file = self.file(token);
        let sync = async {
            tokio::time::sleep(SYNC_AFTER).await;
            if let Err(error) = on_disk(move || File::open(file)?.sync_all()).await {
                eprintln!("raymond: a result is not on disk: {error}");
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            kept = keeping => kept,
            () = sync => unreachable!("it waits for ever"),
        }
    }

    /// Must come before the result is reported.
    pub async fn end(&self, token: &str, result: &Delivered) -> anyhow::Result<()> {
        let (file, line) = (self.file(token), line_of(result)?);
        Ok(on_disk(move || append(&file, &line)?.sync_all()).await?)
    }

    fn file(&self, token: &str) -> PathBuf {
        self.0.join(token)
    }
}

/// Whether an attempt has ended, and what it left is kept.
pub fn has_ended(record: &Path) -> io::Result<bool> {
    Ok(matches!(read(record)?.as_deref().map(known_from), Some(Known::Ended(_))))
}

/// What a record says. A line that is not whole was never reported.
fn known_from(bytes: &[u8]) -> Known {
    let mut lines = bytes.split(|byte| *byte == b'\n').rev();
    let known = |line: &[u8]| match serde_json::from_slice(line) {
        Ok(result) => Some(Known::Ended(result)),
        Err(_) => serde_json::from_slice(line).ok().map(Known::Unkept),
    };
    lines.find_map(known).unwrap_or(Known::Begun)
}

fn line_of(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Adds a line. What was written only in part before, because the disk was full, has a line of its own.
fn append(file: &Path, line: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    if file.metadata()?.len() > 0 {
        file.write_all(b"\n")?;
    }
    file.write_all(line)?;
    Ok(file)
}

/// Waits for the disk elsewhere: this thread has other steps to carry out.
async fn on_disk(write: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(write).await?
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use raymond_core::header::Header;
    use raymond_core::input::Plan;

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

    fn lost() -> Delivered {
        Delivered::Lost { why: "gone".to_owned(), cost: None, leaving: false }
    }

    fn unkept() -> StepReport {
        StepReport::not_started(&Plan::Script(Header::default()), "why".to_owned())
    }

    #[tokio::test]
    async fn a_line_that_is_not_whole_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path().to_owned()).unwrap();
        records.begin("t").await.unwrap();
        records.end_unkept("t", &unkept()).await.unwrap();
        let first = fs::read(records.file("t")).unwrap();
        records.end("t", &lost()).await.unwrap();
        let whole = fs::read(records.file("t")).unwrap();
        assert!(matches!(records.look("t").unwrap(), Known::Ended(_)));
        for length in 0..whole.len() {
            fs::write(records.file("t"), &whole[..length]).unwrap();
            let known = records.look("t").unwrap();
            let is_right = match known {
                Known::Nothing => false,
                Known::Begun => length < first.len(),
                Known::Unkept(_) => length >= first.len() - 1 && length < whole.len() - 1,
                // Only the end of the line is missing.
                Known::Ended(_) => length == whole.len() - 1,
            };
            assert!(is_right, "{length} of {} and {}", first.len(), whole.len());
            // After that the disk has room again.
            records.end("t", &lost()).await.unwrap();
            assert!(matches!(records.look("t").unwrap(), Known::Ended(_)), "{length}");
        }
    }

    #[tokio::test]
    async fn a_record_of_an_earlier_version_is_understood() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path().to_owned()).unwrap();
        fs::write(records.file("t"), serde_json::to_vec(&lost()).unwrap()).unwrap();
        assert!(matches!(records.look("t").unwrap(), Known::Ended(_)));
        assert!(has_ended(&records.file("t")).unwrap());
    }
}
