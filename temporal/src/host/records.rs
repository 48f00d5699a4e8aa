//! What this machine has begun and ended, on its disk.
//!
//! The server delivers an attempt again when it does not know what became of it. The records tell: an attempt that was
//! begun is never begun again, and one that has ended gives the same result.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::messages::Delivered;

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

    pub fn look(&self, token: &str) -> anyhow::Result<Known> {
        if let Some(bytes) = read(&self.ended(token))? {
            return Ok(Known::Ended(serde_json::from_slice(&bytes)?));
        }
        Ok(if self.begun(token).exists() { Known::Begun } else { Known::Nothing })
    }

    /// Must come before anything of the attempt is started.
    pub fn begin(&self, token: &str) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).open(self.begun(token))?.sync_all()?;
        self.sync()
    }

    /// Must come before the result is reported.
    pub fn end(&self, token: &str, result: &Delivered) -> anyhow::Result<()> {
        let aside = self.ended(token).with_extension("new");
        let mut file = File::create(&aside)?;
        file.write_all(&serde_json::to_vec(result)?)?;
        file.sync_all()?;
        fs::rename(&aside, self.ended(token))?;
        Ok(self.sync()?)
    }

    fn begun(&self, token: &str) -> PathBuf {
        self.0.join(format!("{token}.begun"))
    }

    fn ended(&self, token: &str) -> PathBuf {
        self.0.join(format!("{token}.ended"))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
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

    #[test]
    fn an_attempt_is_begun_once_and_keeps_its_result() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path().join("records")).unwrap();
        assert!(matches!(records.look("t").unwrap(), Known::Nothing));
        records.begin("t").unwrap();
        assert!(matches!(records.look("t").unwrap(), Known::Begun));
        assert!(records.begin("t").is_err());
        records.end("t", &Delivered::Lost { why: "gone".to_owned(), cost: None, leaving: false }).unwrap();
        let Known::Ended(Delivered::Lost { why, .. }) = records.look("t").unwrap() else { panic!("ended") };
        assert_eq!(why, "gone");
    }
}
