//! What steps leave for people to look at: their debug files go to the store of blobs, from where they are copied to
//! the machines that show the run.

use std::time::Duration;

use anyhow::Context;
use raymond::run::hosted::StepOrder;
use raymond::view::debug::LeftFiles;

use super::files::elsewhere;
use crate::blobs::Blobs;

/// How long the store may take. A step waits for it, and does not need it.
const LONGEST_UPLOAD: Duration = Duration::from_secs(10);

/// The blob with the debug files of an attempt.
pub fn debug_key(run: &str, step: u64, attempt: u32) -> String {
    format!("runs/{run}/debug/{step}-{attempt}.zip")
}

/// Keeps the debug files of an attempt that has ended, and removes them from this machine. If they cannot be kept, they
/// stay.
pub async fn keep(blobs: &Blobs, order: &StepOrder, left: Option<LeftFiles>) -> anyhow::Result<()> {
    let Some(left) = left else { return Ok(()) };
    let key = debug_key(&order.id, order.started.step, order.started.attempt);
    let (left, archive) = elsewhere(move || {
        let archive = left.pack()?;
        Ok((left, archive))
    })
    .await?;
    let late = || format!("the store did not answer within {} s", LONGEST_UPLOAD.as_secs());
    tokio::time::timeout(LONGEST_UPLOAD, blobs.put(&key, archive)).await.with_context(late)??;
    elsewhere(move || {
        left.remove();
        Ok(())
    })
    .await
}
