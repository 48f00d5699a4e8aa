//! The files that steps need on this machine: workflows, and a folder for each agent.
//!
//! ```text
//! WORK/bundles/HASH/…        workflows, below the paths they have where the run was started
//! WORK/repositories/COMMIT   a repository, shared by the folders of all agents
//! WORK/runs/RUN/AGENT/…      the folders of an agent, below the same paths, and its task folder
//! WORK/runs/RUN/.uses/…      what the run uses of the first two
//! WORK/runs/RUN/.unkept/…    agents that have left something which the store of blobs does not have
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use std::{fs, io};

use anyhow::Context;
use raymond::git::Git;
use raymond::run::hosted::{Branch, Done, HostedRun, Roots, StepOrder};
use raymond_core::snapshot::FilesSnapshot;
use tokio::sync::Mutex;

use super::names;
use crate::blobs::Blobs;
use crate::bundle::{Pack, hash_of, unpack};
use crate::messages::{FilesOfRun, Left, Repository};

/// The ref of the commit that carries an agent's files. Its parent is the commit that the agent was at.
const FILES_REF: &str = "refs/raymond-moved/files";
/// The ref of the commit that the agent was at on another machine. It is there when its files were brought from there.
pub(super) const HEAD_REF: &str = "refs/raymond-moved/head";
/// Both of them.
const MOVED_REFS: &str = "refs/raymond-moved/*";
/// How long git may take for all files of a repository.
const LONGEST_GIT: Duration = Duration::from_secs(10 * 60);

/// The folders below `--work`, and those of a run.
pub(super) const BUNDLES: &str = "bundles";
pub(super) const REPOSITORIES: &str = "repositories";
pub(super) const RUNS: &str = "runs";
pub(super) const USES: &str = ".uses";
pub(super) const UNKEPT: &str = ".unkept";

/// Puts files in place.
pub struct Files {
    work: PathBuf,
    pub(super) blobs: Blobs,
    /// Held while something is put in place, so that it is done once.
    making: RefCell<BTreeMap<PathBuf, Rc<Mutex<()>>>>,
}

/// What was kept of a step.
#[derive(Debug)]
pub struct Kept {
    pub left: Left,
    pub branch: Option<Branch>,
}

impl Files {
    pub fn new(work: PathBuf, blobs: Blobs) -> Self {
        Self { work, blobs, making: RefCell::default() }
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
    ) -> anyhow::Result<Roots> {
        let folder = self.run_folder(&order.id).join(names::of_agent(&order.agent.id));
        // This comes first: if anything else fails, nothing old may be left that looks new the next time.
        if is_old {
            let old = folder.clone();
            elsewhere(move || remove(&old)).await?;
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
        self.bring_conversation(order, run, &roots, is_old).await?;
        Ok(roots)
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
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(&new).with_context(|| format!("cannot make {}", new.display()))?;
        fill(&new).await?;
        fs::rename(&new, folder).with_context(|| format!("cannot make {}", folder.display()))?;
        self.making.borrow_mut().remove(folder);
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
        fs::create_dir_all(below(new, &order.run.cwd))?;
        if let Some(bytes) = self.blob_if_named(left.loose.as_ref()).await? {
            let new = new.to_owned();
            elsewhere(move || unpack(&bytes, &new)).await?;
        }
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

    async fn bring_conversation(
        &self,
        order: &StepOrder,
        run: &HostedRun,
        roots: &Roots,
        is_old: bool,
    ) -> anyhow::Result<()> {
        let Some(session) = order.agent.conversation() else { return Ok(()) };
        let cwd = &order.agent.cwd;
        // A program whose conversations cannot be copied says `None`; one that is not here cannot be read.
        if !is_old && run.conversation(session, cwd, roots).is_ok() {
            return Ok(());
        }
        if let Some(bytes) = self.blobs.get(&names::of_session(order, &session.id)).await? {
            run.bring_conversation(session, cwd, roots, &bytes)?;
        }
        Ok(())
    }

    /// Keeps what the agent would need on another machine: all of it, or the agent has what it had before. `before` is what
    /// its last step left.
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
            && let Ok(Some(bytes)) = run.conversation(session, &order.agent.cwd, roots)
        {
            self.blobs.put(&names::of_session(order, &session.id), bytes).await?;
        }
        let mut kept = Kept { left: Left::default(), branch: None };
        if let Some(repository) = &files.repository {
            kept.left.files = match &done.files {
                Some(snapshot) => self.keep_files(repository, order, roots, snapshot, before).await?,
                None => self.left_before(order, before).await?.files,
            };
            kept.branch = self.keep_branch(repository, order, roots).await?;
            self.keep_bases(repository, order, roots, done).await?;
        }
        kept.left.loose = self.keep_loose(files.repository.as_ref(), order, roots, before).await?;
        Ok(kept)
    }

    async fn keep_files(
        &self,
        repository: &Repository,
        order: &StepOrder,
        roots: &Roots,
        snapshot: &FilesSnapshot,
        before: Option<&Left>,
    ) -> anyhow::Result<Option<String>> {
        let worktree = order.agent.worktree.as_ref();
        let top = roots.folder_of(worktree.map_or(&repository.top, |worktree| &worktree.path));
        // A worktree is not made anew on another machine when its agent has worked in it.
        let begun_at = worktree.is_none().then(|| repository.commit.clone());
        let (git, snapshot) = (Git::in_folder(top), snapshot.clone());
        let of_git = git.clone();
        let Some(commit) = elsewhere(move || carrier(&of_git, &snapshot, begun_at.as_deref())).await? else {
            return Ok(None);
        };
        let before = before.and_then(|left| left.files.as_ref());
        let name = names::of_content(order, &commit, "bundle", before);
        if before != Some(&name) {
            let repository = repository.clone();
            let bytes = elsewhere(move || {
                git.text(&["update-ref", FILES_REF, &commit])?;
                bundle_of(&git, FILES_REF, &repository)
            });
            self.blobs.put(&name, bytes.await?).await?;
        }
        Ok(Some(name))
    }

    async fn keep_loose(
        &self,
        repository: Option<&Repository>,
        order: &StepOrder,
        roots: &Roots,
        before: Option<&Left>,
    ) -> anyhow::Result<Option<String>> {
        let (roots, repository) = (roots.clone(), repository.cloned());
        let packed = elsewhere(move || {
            let loose = loose_files(&roots, repository.as_ref())?;
            if loose.is_empty() {
                return Ok(None);
            }
            let bytes = loose.finish()?;
            Ok(Some((hash_of(&bytes), bytes)))
        });
        let Some((hash, bytes)) = packed.await? else { return Ok(None) };
        let before = before.and_then(|left| left.loose.as_ref());
        let name = names::of_content(order, &hash, "zip", before);
        if before != Some(&name) {
            self.blobs.put(&name, bytes).await?;
        }
        Ok(Some(name))
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

/// Removes a file or a folder, if it is there.
fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Makes the repository that the folders of all agents share.
fn make_repository(new: &Path, bundle: &[u8]) -> anyhow::Result<()> {
    let file = new.join("from.bundle");
    fs::write(&file, bundle)?;
    let git = Git::in_folder(new).patience(LONGEST_GIT);
    git.text(&["init", "--quiet", "--bare"])?;
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
    let git = Git::in_folder(top).patience(LONGEST_GIT);
    git.text(&["clone", "--quiet", "--shared", "--no-checkout", &text(shared), "."])?;
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
fn carrier(git: &Git, snapshot: &FilesSnapshot, begun_at: Option<&str>) -> anyhow::Result<Option<String>> {
    let head = git.text(&["rev-parse", "HEAD"])?;
    let tree_of = |commit: &str| git.text(&["rev-parse", &format!("{commit}^{{tree}}")]);
    let tree = tree_of(&snapshot.commit)?;
    if begun_at == Some(head.as_str()) && tree == tree_of(&head)? {
        return Ok(None);
    }
    let git = ["AUTHOR", "COMMITTER"].iter().fold(git.clone(), |git, who| {
        git.variable(&format!("GIT_{who}_NAME"), "Raymond")
            .variable(&format!("GIT_{who}_EMAIL"), "raymond@localhost")
            .variable(&format!("GIT_{who}_DATE"), "@0 +0000")
    });
    Ok(Some(git.text(&["commit-tree", "-m", "files of an agent", "-p", &head, &tree])?))
}

/// A ref with its commits, but for those that every machine has. There must be others.
pub(super) fn bundle_of(git: &Git, name: &str, repository: &Repository) -> anyhow::Result<Vec<u8>> {
    let without = format!("^{}", repository.commit);
    Ok(git.bytes(&["bundle", "create", "--quiet", "-", name, &without], &[])?)
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

/// The agent's files outside the repository: its task folder, and everything if there is no repository.
fn loose_files(roots: &Roots, repository: Option<&Repository>) -> anyhow::Result<Pack> {
    let mut pack = Pack::default();
    let top = repository.map(|repository| roots.folder_of(&repository.top));
    add_loose(&mut pack, &roots.folder, "", top.as_deref())?;
    Ok(pack)
}

fn add_loose(pack: &mut Pack, folder: &Path, name: &str, top: Option<&Path>) -> anyhow::Result<()> {
    if top.is_none_or(|top| !top.starts_with(folder)) {
        return pack.add(folder, name);
    }
    if top == Some(folder) {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A link could lead anywhere.
        if entry.file_type()?.is_symlink() {
            continue;
        }
        let path = entry.path();
        let inner = format!("{name}/{}", entry.file_name().to_string_lossy());
        add_loose(pack, &path, &inner, top)?;
    }
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
