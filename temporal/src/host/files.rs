//! The files that steps need on this machine: workflows, and a folder for each agent.
//!
//! ```text
//! WORK/bundles/HASH/…        workflows, below the paths they have where the run was started
//! WORK/repositories/COMMIT   a repository, shared by the folders of all agents
//! WORK/runs/RUN/AGENT/…      the folders of an agent, below the same paths, and its task folder
//! WORK/runs/RUN/.uses/…      what the run uses of the first two
//! WORK/runs/RUN/.unkept/…    agents that have left something which the store of blobs does not have
//! WORK/runs/RUN/.old/…       agents of which this machine may have conversations that have gone on elsewhere
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use std::{fs, io};

use anyhow::Context;
use raymond::agent::DEFAULT_BACKEND;
use raymond::git::Git;
use raymond::run::hosted::{Branch, Conversation, Done, HostedRun, Roots, StepOrder, worktrees_of};
use raymond_core::run::Session;
use tokio::sync::Mutex;

use super::loose::{self, Loose};
use super::names;
use super::trash::{Trash, remove_all};
use crate::blobs::Blobs;
use crate::bundle::{hash_of, unpack};
use crate::messages::{FilesOfRun, Left, Repository};

/// The ref of the commit that carries an agent's files. Its parent is the commit that the agent was at.
const FILES_REF: &str = "refs/raymond-moved/files";
/// The ref of the commit that the agent was at on another machine. It is there when its files were brought from there.
pub(super) const HEAD_REF: &str = "refs/raymond-moved/head";
/// Both of them.
const MOVED_REFS: &str = "refs/raymond-moved/*";
/// The most that an agent may leave for other machines, in the repository and outside it.
pub(super) const MOST_LEFT_BYTES: u64 = 256 * 1024 * 1024;
/// How long git may take for all files of a repository.
const LONGEST_GIT: Duration = Duration::from_secs(10 * 60);

/// The folders below `--work`, and those of a run.
pub(super) const BUNDLES: &str = "bundles";
pub(super) const REPOSITORIES: &str = "repositories";
pub(super) const RUNS: &str = "runs";
pub(super) const USES: &str = ".uses";
pub(super) const UNKEPT: &str = ".unkept";
pub(super) const OLD: &str = ".old";

/// Puts files in place.
pub struct Files {
    work: PathBuf,
    trash: Trash,
    pub(super) blobs: Blobs,
    /// Held while something is put in place, so that it is done once.
    making: RefCell<BTreeMap<PathBuf, Rc<Mutex<()>>>>,
}

/// What was kept of a step.
#[derive(Debug)]
pub struct Kept {
    pub left: Left,
    pub branch: Option<Branch>,
    /// What could not be kept, for people.
    pub left_out: Option<String>,
}

/// Where a step finds its files.
#[derive(Debug)]
pub struct Ready {
    pub roots: Roots,
    /// What the agent must do without, for people.
    pub warning: Option<String>,
}

impl Files {
    pub fn new(work: PathBuf, blobs: Blobs) -> Self {
        Self { trash: Trash::below(&work), work, blobs, making: RefCell::default() }
    }

    /// The folder for everything of a run.
    pub fn run_folder(&self, run: &str) -> PathBuf {
        self.work.join(RUNS).join(run)
    }

    /// The place of something that runs share. What a run uses is noted, so that it stays as long as the run does.
    fn shared(&self, run: &str, kind: &str, name: &str) -> io::Result<PathBuf> {
        fs::create_dir_all(self.run_folder(run).join(USES).join(kind).join(name))?;
        Ok(self.work.join(kind).join(name))
    }

    /// Notes whether the store of blobs lacks something that the agent has left here. What cannot be noted does no harm before
    /// the run is not used for long.
    pub fn note_unkept(&self, order: &StepOrder, is_unkept: bool) {
        let note = self.run_folder(&order.id).join(UNKEPT).join(names::of_agent(&order.agent.id));
        let _ = if is_unkept { fs::create_dir_all(note) } else { fs::remove_dir(note) };
    }

    /// Makes everything ready that a step needs. What the agent left on another machine is brought here. `is_old` says that
    /// the agent has gone on there since it was here.
    pub async fn ready(
        &self,
        files: &FilesOfRun,
        order: &StepOrder,
        run: &HostedRun,
        left: Option<&Left>,
        is_old: bool,
    ) -> anyhow::Result<Ready> {
        let name = names::of_agent(&order.agent.id);
        let folder = self.run_folder(&order.id).join(&name);
        // If anything fails, nothing old may look new the next time. So the old folder is removed first. Old conversations
        // belong to the agent program and stay, so there is a note until newer ones are here.
        let note = self.run_folder(&order.id).join(OLD).join(&name);
        let is_old = is_old || note.exists();
        if is_old {
            fs::create_dir_all(&note)?;
            self.discard(&folder)?;
        }
        let workflows = self.shared(&order.id, BUNDLES, &hash_of(files.bundle.as_bytes()))?;
        self.make(&workflows, async |new| {
            let (bytes, new) = (self.blob(&files.bundle).await?, new.to_owned());
            elsewhere(move || unpack(&bytes, &new)).await
        })
        .await?;
        self.make(&folder, async |new| self.make_folder(new, files, order, left).await).await?;
        let roots = Roots { workflows, folder };
        if let Some(repository) = &files.repository {
            self.bring_branches(repository, order, &roots).await?;
        }
        self.bring_worktree(files.repository.as_ref(), order, &roots).await?;
        let warning = self.bring_conversations(order, run, &roots, is_old).await?;
        if is_old {
            fs::remove_dir(&note)?;
        }
        Ok(Ready { roots, warning })
    }

    /// Where the files of a step are, whose attempt has begun here.
    pub fn roots(&self, files: &FilesOfRun, order: &StepOrder) -> Roots {
        let workflows = self.work.join(BUNDLES).join(hash_of(files.bundle.as_bytes()));
        let folder = self.run_folder(&order.id).join(names::of_agent(&order.agent.id));
        Roots { workflows, folder }
    }

    /// Makes a folder, all or nothing.
    async fn make(
        &self,
        folder: &Path,
        fill: impl AsyncFnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if folder.exists() {
            return Ok(());
        }
        let lock = Rc::clone(self.making.borrow_mut().entry(folder.to_owned()).or_default());
        let _making = lock.lock().await;
        if folder.exists() {
            return Ok(());
        }
        let mut new = folder.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        // It was not finished.
        self.discard(&new)?;
        fs::create_dir_all(&new).with_context(|| format!("cannot make {}", new.display()))?;
        fill(&new).await?;
        fs::rename(&new, folder).with_context(|| format!("cannot make {}", folder.display()))?;
        self.making.borrow_mut().remove(folder);
        Ok(())
    }

    /// Removes a folder, if it is there.
    fn discard(&self, folder: &Path) -> io::Result<()> {
        if let Some(old) = self.trash.take(folder)? {
            // No one waits for that. What stays is tried again when the trash is emptied.
            tokio::task::spawn_blocking(move || remove_all(&old));
        }
        Ok(())
    }

    async fn make_folder(
        &self,
        new: &Path,
        files: &FilesOfRun,
        order: &StepOrder,
        left: Option<&Left>,
    ) -> anyhow::Result<()> {
        let left = self.left_before(order, left).await?;
        if let Some(repository) = &files.repository {
            let shared = self.shared(&order.id, REPOSITORIES, &repository.commit)?;
            self.make(&shared, async |new| {
                let (bytes, new) = (self.blob(&repository.blob).await?, new.to_owned());
                elsewhere(move || make_repository(&new, &bytes)).await
            })
            .await?;
            let moved = self.blob_if_named(left.files.as_ref()).await?;
            let (top, commit) = (below(new, &repository.top), repository.commit.clone());
            // What an agent with a worktree left is in that, which is made later.
            let has_worktree = order.agent.worktree.is_some();
            elsewhere(move || check_out(&top, &shared, &commit, moved.as_deref(), has_worktree)).await?;
        }
        if let Some(bytes) = self.blob_if_named(left.loose.as_ref()).await? {
            let new = new.to_owned();
            elsewhere(move || unpack(&bytes, &new)).await?;
        }
        fs::create_dir_all(below(new, &order.run.cwd))?;
        fs::create_dir_all(below(new, &order.agent.cwd))?;
        Ok(())
    }

    /// What the agent had left before the step. An earlier version did not tell, but used the same names for all steps.
    async fn left_before(&self, order: &StepOrder, told: Option<&Left>) -> anyhow::Result<Left> {
        if let Some(left) = told {
            return Ok(left.clone());
        }
        let (files, loose) = (names::earlier_files(order), names::earlier_loose(order));
        Ok(Left {
            files: self.blobs.has(&files).await?.then_some(files),
            loose: self.blobs.has(&loose).await?.then_some(loose),
        })
    }

    /// Brings the conversation that the step may go on with. If the agent comes from another machine, the warning says which of
    /// its conversations are not here.
    async fn bring_conversations(
        &self,
        order: &StepOrder,
        run: &HostedRun,
        roots: &Roots,
        is_old: bool,
    ) -> anyhow::Result<Option<String>> {
        if let Some(session) = order.agent.conversation() {
            self.bring_conversation(order, run, roots, session, is_old).await?;
        }
        if !is_old {
            return Ok(None);
        }
        let returns = || order.agent.stack.iter().filter_map(|frame| frame.session.as_ref());
        // What is here of them may be older, and looks like the newest once the agent has taken a step here.
        for session in returns() {
            self.bring_conversation(order, run, roots, session, is_old).await?;
        }
        let mut missing = BTreeSet::new();
        for session in order.agent.conversation().into_iter().chain(returns()) {
            let conversation = run.conversation(session, &order.agent.cwd, roots);
            if conversation.is_some_and(|conversation| conversation.is_missing()) {
                missing.insert(session.backend.as_deref().unwrap_or(DEFAULT_BACKEND));
            }
        }
        Ok((!missing.is_empty()).then(|| left_behind(&missing)))
    }

    async fn bring_conversation(
        &self,
        order: &StepOrder,
        run: &HostedRun,
        roots: &Roots,
        session: &Session,
        is_old: bool,
    ) -> anyhow::Result<()> {
        let conversation = run.conversation(session, &order.agent.cwd, roots);
        let Some(conversation) = conversation.filter(|conversation| is_old || conversation.is_wanted())
        else {
            return Ok(());
        };
        if let Some(bytes) = self.blobs.get(&names::of_session(order, &session.id)).await? {
            elsewhere(move || Ok(conversation.import(&bytes)?)).await?;
        }
        Ok(())
    }

    /// Keeps what the agent would need on another machine: all of it, or the agent has what it had before. That is so for a
    /// step that failed, too: its next attempt goes on with what it left, wherever that is. `before` is what the agent's last
    /// step left.
    pub async fn keep(
        &self,
        files: &FilesOfRun,
        order: &StepOrder,
        run: &HostedRun,
        roots: &Roots,
        done: &Done,
        before: Option<&Left>,
    ) -> anyhow::Result<Kept> {
        if let Some(session) = done.report.session()
            && let Some(conversation) = run.conversation(session, &order.agent.cwd, roots)
        {
            self.keep_conversation(&names::of_session(order, &session.id), conversation).await?;
        }
        let mut kept = Kept { left: Left::default(), branch: None, left_out: None };
        if let Some(repository) = &files.repository {
            kept.left.files = self.keep_files(repository, order, run, roots, before).await?;
            kept.branch = self.keep_branch(repository, order, roots).await?;
            self.keep_bases(repository, order, roots, done).await?;
        }
        (kept.left.loose, kept.left_out) =
            self.keep_loose(files.repository.as_ref(), order, roots, before).await?;
        Ok(kept)
    }

    /// If it cannot be read, or is too long, the store must not have an older version of it. The machine to which the agent
    /// moves then says that its conversation is missing.
    async fn keep_conversation(&self, name: &str, conversation: Conversation) -> anyhow::Result<()> {
        match elsewhere(move || Ok(conversation.export())).await? {
            Ok(Some(bytes)) => self.blobs.put(name, bytes).await,
            Ok(None) => Ok(()),
            Err(_) => self.blobs.remove(name).await,
        }
    }

    async fn keep_files(
        &self,
        repository: &Repository,
        order: &StepOrder,
        run: &HostedRun,
        roots: &Roots,
        before: Option<&Left>,
    ) -> anyhow::Result<Option<String>> {
        let worktree = order.agent.worktree.as_ref();
        // A step that failed before its worktree was made has left nothing in it.
        if worktree.is_some_and(|worktree| !worktrees_of(order, roots).mark(&worktree.name).exists()) {
            return Ok(self.left_before(order, before).await?.files);
        }
        let top = roots.folder_of(worktree.map_or(&repository.top, |worktree| &worktree.path));
        // A worktree is not made anew on another machine when its agent has worked in it.
        let begun_at = worktree.is_none().then(|| repository.commit.clone());
        let (git, snapshots) = (Git::in_folder(&top), run.snapshots());
        let of_git = git.clone();
        let commit = elsewhere(move || {
            let tree = snapshots.tree_of(&top).map_err(anyhow::Error::msg)?;
            carrier(&of_git, &tree, begun_at.as_deref())
        });
        let Some(commit) = commit.await? else { return Ok(None) };
        let before = before.and_then(|left| left.files.as_ref());
        let name = names::of_content(order, &commit, "bundle", before);
        if before != Some(&name) {
            let repository = repository.clone();
            let bytes = elsewhere(move || {
                git.text(&["update-ref", FILES_REF, &commit])?;
                let bytes = bundle_of(&git, FILES_REF, &repository)?;
                // A thread that was given up, because it took too long for an earlier step, may still work here.
                let bundled = git.text(&["rev-parse", FILES_REF])?;
                anyhow::ensure!(bundled == commit, "its files are still read for an earlier step");
                Ok(bytes)
            });
            self.blobs.put(&name, bytes.await?).await?;
        }
        Ok(Some(name))
    }

    /// Returns the name of the blob, and what is not in it.
    async fn keep_loose(
        &self,
        repository: Option<&Repository>,
        order: &StepOrder,
        roots: &Roots,
        before: Option<&Left>,
    ) -> anyhow::Result<(Option<String>, Option<String>)> {
        let (of_order, roots, repository) = (order.clone(), roots.clone(), repository.cloned());
        let packed = elsewhere(move || loose::pack(&of_order, &roots, repository.as_ref()));
        let Loose { bytes, left_out } = packed.await?;
        let Some(bytes) = bytes else { return Ok((None, left_out)) };
        let before = before.and_then(|left| left.loose.as_ref());
        let name = names::of_content(order, &hash_of(&bytes), "zip", before);
        if before != Some(&name) {
            self.blobs.put(&name, bytes).await?;
        }
        Ok((Some(name), left_out))
    }

    pub(super) async fn blob(&self, key: &str) -> anyhow::Result<Vec<u8>> {
        let found = self.blobs.get(key).await?;
        found.with_context(|| {
            format!("{key} is not in the blob store of this machine; all machines need the same `--blobs`")
        })
    }

    async fn blob_if_named(&self, key: Option<&String>) -> anyhow::Result<Option<Vec<u8>>> {
        match key {
            Some(key) => self.blob(key).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Does what may take long on another thread. On this one it would keep the heartbeats of all steps waiting.
pub(super) async fn elsewhere<T: Send + 'static>(
    act: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(act).await?
}

/// What an agent is told that comes from another machine without its conversations with these backends.
fn left_behind(backends: &BTreeSet<&str>) -> String {
    let names: Vec<String> = backends.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "the agent comes from another machine, and its conversation with {} is not in the store of blobs; a turn that continues it \
         fails unless the program finds it here",
        names.join(", ")
    )
}

/// Makes the repository that the folders of all agents share.
fn make_repository(new: &Path, bundle: &[u8]) -> anyhow::Result<()> {
    let file = new.join("from.bundle");
    fs::write(&file, bundle)?;
    Git::in_no_repository(new).text(&["init", "--quiet", "--bare"])?;
    let git = Git::of_repository(new).patience(LONGEST_GIT);
    git.text(&["fetch", "--quiet", &text(&file), "HEAD:refs/heads/started"])?;
    Ok(fs::remove_file(file)?)
}

/// Makes the working folder of an agent: as it was left on the last machine, or at the commit that the run began with.
fn check_out(
    top: &Path,
    shared: &Path,
    commit: &str,
    moved: Option<&[u8]>,
    has_worktree: bool,
) -> anyhow::Result<()> {
    fs::create_dir_all(top)?;
    let clone = ["clone", "--quiet", "--shared", "--no-checkout", &text(shared), "."];
    Git::in_no_repository(top).patience(LONGEST_GIT).text(&clone)?;
    let git = Git::in_folder(top).patience(LONGEST_GIT);
    if let Some(bytes) = moved {
        fetch(&git, bytes, MOVED_REFS, MOVED_REFS)?;
        // Earlier versions have it in the bundle.
        if git.text(&["rev-parse", "--verify", "--quiet", HEAD_REF]).is_err() {
            git.text(&["update-ref", HEAD_REF, &format!("{FILES_REF}^")])?;
        }
    }
    if moved.is_none() || has_worktree {
        git.text(&["checkout", "--quiet", "--detach", commit])?;
        return Ok(());
    }
    git.text(&["checkout", "--quiet", "--detach", HEAD_REF])?;
    restore_files(&git)
}

/// The commit that carries the agent's files, unless they are those that it began with. It is the same for the same commit
/// and files.
fn carrier(git: &Git, tree: &str, begun_at: Option<&str>) -> anyhow::Result<Option<String>> {
    let head = git.text(&["rev-parse", "HEAD"])?;
    if begun_at == Some(head.as_str()) && tree == git.text(&["rev-parse", "HEAD^{tree}"])? {
        return Ok(None);
    }
    let git = ["AUTHOR", "COMMITTER"].iter().fold(git.clone(), |git, who| {
        git.variable(&format!("GIT_{who}_NAME"), "Raymond")
            .variable(&format!("GIT_{who}_EMAIL"), "raymond@localhost")
            .variable(&format!("GIT_{who}_DATE"), "@0 +0000")
    });
    Ok(Some(git.text(&["commit-tree", "-m", "files of an agent", "-p", &head, tree])?))
}

/// A ref with its commits, but for those that every machine has. There must be others.
pub(super) fn bundle_of(git: &Git, name: &str, repository: &Repository) -> anyhow::Result<Vec<u8>> {
    let without = format!("^{}", repository.commit);
    // In a file, because what git says is limited.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bundle");
    let git = git.clone().patience(LONGEST_GIT);
    git.text(&["bundle", "create", "--quiet", &text(&file), name, &without])?;
    let bytes = fs::metadata(&file)?.len();
    anyhow::ensure!(
        bytes <= MOST_LEFT_BYTES,
        "its commits and files in the repository are {} MiB, and {} MiB are kept at most",
        bytes.div_ceil(1 << 20),
        MOST_LEFT_BYTES >> 20
    );
    Ok(fs::read(file)?)
}

/// Takes refs from a bundle, under other names.
pub(super) fn fetch(git: &Git, bundle: &[u8], from: &str, to: &str) -> anyhow::Result<()> {
    let file = Path::new(&git.text(&["rev-parse", "--absolute-git-dir"])?).join("moved.bundle");
    fs::write(&file, bundle)?;
    git.text(&["fetch", "--quiet", &text(&file), &format!("+{from}:{to}")])?;
    Ok(fs::remove_file(file)?)
}

/// Writes the files that an agent left on another machine.
pub(super) fn restore_files(git: &Git) -> anyhow::Result<()> {
    git.text(&["restore", &format!("--source={FILES_REF}"), "--worktree", "--", ":/"])?;
    Ok(())
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
