//! The names of the blobs that agents leave.
//!
//! ```text
//! runs/RUN/files/AGENT/STEP-ATTEMPT-ID.bundle   its commit and files in the repository
//! runs/RUN/files/AGENT/STEP-ATTEMPT-ID.zip      its files outside the repository
//! runs/RUN/branches/NAME/STEP-ATTEMPT.bundle    the branch of its worktree
//! runs/RUN/commits/COMMIT.bundle                a commit with which a worktree begins
//! runs/RUN/sessions/SESSION                     a conversation
//! ```
//!
//! Each name is written once. A step that runs again has another attempt, so a machine that counts as lost can still write its
//! names without harm. The numbers have leading zeros, so that the last name in a folder is the newest. Attempts have sessions
//! of their own, unless the program cannot branch conversations: then the name is written after each turn. A commit is always the
//! same.

use raymond::run::hosted::StepOrder;
use raymond_core::name::AgentId;

use super::run_folder;
use crate::bundle::hash_of;

/// Longer names of agents are shortened for the disk.
const MOST_NAME_BYTES: usize = 100;
/// So many digits tell the contents of two blobs of an agent apart.
const ID_DIGITS: usize = 16;

pub fn of_agent(agent: &AgentId) -> String {
    let name = agent.as_str();
    if name.len() <= MOST_NAME_BYTES { name.to_owned() } else { hash_of(name.as_bytes()) }
}

pub fn files_folder(order: &StepOrder) -> String {
    format!("{}/files/{}", run_folder(&order.id), of_agent(&order.agent.id))
}

pub fn branch_folder(order: &StepOrder, worktree: &str) -> String {
    format!("{}/branches/{worktree}", run_folder(&order.id))
}

/// The name for content that the attempt has left. `before` is the name that the agent had for it; it stays if the content
/// is the same. `hash` is of the content.
pub fn of_content(order: &StepOrder, hash: &str, kind: &str, before: Option<&String>) -> String {
    let end = format!("-{}.{kind}", &hash[..hash.len().min(ID_DIGITS)]);
    match before.filter(|before| before.ends_with(&end)) {
        Some(before) => before.clone(),
        None => format!("{}/{}{end}", files_folder(order), attempt_of(order)),
    }
}

pub fn of_branch(order: &StepOrder, worktree: &str) -> String {
    format!("{}/{}.bundle", branch_folder(order, worktree), attempt_of(order))
}

pub fn of_commit(order: &StepOrder, commit: &str) -> String {
    format!("{}/commits/{commit}.bundle", run_folder(&order.id))
}

pub fn of_session(order: &StepOrder, session: &str) -> String {
    format!("{}/sessions/{session}", run_folder(&order.id))
}

/// The names that earlier versions used for all attempts: for files, for files outside the repository, and for a branch.
pub fn earlier_files(order: &StepOrder) -> String {
    format!("{}.bundle", files_folder(order))
}

pub fn earlier_loose(order: &StepOrder) -> String {
    format!("{}.zip", files_folder(order))
}

pub fn earlier_branch(order: &StepOrder, worktree: &str) -> String {
    format!("{}.bundle", branch_folder(order, worktree))
}

/// Whether a name in a folder is of an attempt before that of the order.
pub fn is_of_earlier_attempt(name: &str, order: &StepOrder) -> bool {
    let own = attempt_of(order);
    let is_of_attempt = |start: &str| start.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    name.get(..own.len()).is_some_and(|start| is_of_attempt(start) && start < own.as_str())
}

fn attempt_of(order: &StepOrder) -> String {
    format!("{:010}-{:06}", order.started.step, order.started.attempt)
}
