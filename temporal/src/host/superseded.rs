//! Removes blobs that nothing names any more.
//!
//! The order for a step names what the agent left last. All other blobs of its earlier attempts are superseded: either their
//! reports were taken and later ones too, or no one waits for their reports any more. They never get another name, so this
//! is right even if the order is old.

use std::time::Duration;

use raymond::run::hosted::StepOrder;

use super::names;
use crate::blobs::Blobs;
use crate::messages::Left;

/// How long the removal for one step may take. What is left then is removed by the next step.
const LONGEST_REMOVAL: Duration = Duration::from_secs(60);

/// Removes what is superseded while the step runs. Whether that works does not matter to the step.
pub fn remove_meanwhile(blobs: &Blobs, order: &StepOrder, left: &Left) {
    let removal = remove(blobs.clone(), order.clone(), left.clone());
    tokio::task::spawn_local(tokio::time::timeout(LONGEST_REMOVAL, removal));
}

pub(super) async fn remove(blobs: Blobs, order: StepOrder, left: Left) -> anyhow::Result<()> {
    let worktree = order.agent.worktree.as_ref().map(|worktree| worktree.name.as_str());
    let branch = worktree.and_then(|name| order.branches.get(name)?.blob.as_ref());
    let named: Vec<&String> =
        [left.files.as_ref(), left.loose.as_ref(), branch].into_iter().flatten().collect();
    let folders = worktree.map(|name| names::branch_folder(&order, name)).into_iter();
    for folder in folders.chain([names::files_folder(&order)]) {
        for name in blobs.list(&folder).await? {
            let blob = format!("{folder}/{name}");
            if names::is_of_earlier_attempt(&name, &order) && !named.contains(&&blob) {
                blobs.remove(&blob).await?;
            }
        }
    }
    Ok(())
}
