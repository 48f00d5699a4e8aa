//! Rules that can be broken, one at a time. The monitor must notice each.

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A run that is taken back past its fork works in the worktrees of its origin.
    TakesOriginsWorktree,
    /// A run that is taken back past its fork works in the folder of its origin, and not in the one that was made for it.
    ForgetsItsFolder,
    /// The run that keeps what was dropped works in the worktrees that the other one still has.
    DroppedSharesWorktree,
    /// A branch works in the folder that was made for its origin.
    BranchSharesFolder,
    /// The branch of git stays behind when its worktree is handed over.
    LeavesBranchBehind,
    /// A worktree is not made again after its folder was removed, because its branch has commits.
    RefusesOwnBranch,
    /// A worktree is handed over before its mark is set, so that it counts as half made.
    MarksTooLate,
    /// Nothing finishes a rewind that was killed.
    LeavesRewindUnfinished,
    /// What is dropped gets the name of a run that was removed and has left work.
    UsesNameAgain,
    /// A folder that a killed command has made is removed although its run uses it.
    TrustsNoLock,
    /// What git was told not to look at counts as unchanged.
    OverlooksHidden,
    /// Files that git ignores are overwritten without being kept.
    OverwritesIgnored,
    /// What is replaced is not kept.
    KeepsNothing,
    /// A snapshot counts as saved although no ref has it any more.
    TrustsLostSnapshot,
    /// What was kept before is overwritten by what is kept now.
    KeepsOnlyTheLast,
    /// Commits that no branch has count as saved.
    OverlooksDetached,
    /// A rewind takes back the options that a person has given since.
    TakesOptionsBack,
    /// What was dropped still asks people.
    DroppedAsks,
    /// Old runs are removed although a question of theirs is open.
    RemovesAsking,
    /// Old files are removed that no run has made.
    RemovesForeign,
    /// A run is removed that branches need.
    RemovesNeeded,
    /// Only some of the locks are removed that a killed git leaves.
    LeavesLocks,
    /// A branch shares the task folder of its origin.
    SharesTaskFolder,
    /// Files are restored without the task folder, which is emptied.
    LosesTaskFolder,
    /// A folder that a killed command has made for a run stays locked when the run goes on, or is removed.
    LeavesFolderLocked,
}

impl Defect {
    pub const ALL: [Self; 25] = [
        Self::TakesOriginsWorktree,
        Self::ForgetsItsFolder,
        Self::DroppedSharesWorktree,
        Self::BranchSharesFolder,
        Self::LeavesBranchBehind,
        Self::RefusesOwnBranch,
        Self::MarksTooLate,
        Self::LeavesRewindUnfinished,
        Self::UsesNameAgain,
        Self::TrustsNoLock,
        Self::OverlooksHidden,
        Self::OverwritesIgnored,
        Self::KeepsNothing,
        Self::TrustsLostSnapshot,
        Self::KeepsOnlyTheLast,
        Self::OverlooksDetached,
        Self::TakesOptionsBack,
        Self::DroppedAsks,
        Self::RemovesAsking,
        Self::RemovesForeign,
        Self::RemovesNeeded,
        Self::LeavesLocks,
        Self::SharesTaskFolder,
        Self::LosesTaskFolder,
        Self::LeavesFolderLocked,
    ];
}
