//! The files that steps need on this machine: workflows, and a folder for each agent.
//!
//! ```text
//! WORK/bundles/HASH/…        workflows, below the paths they have where the run was started
//! WORK/repositories/COMMIT   a repository, shared by the folders of all agents
//! WORK/runs/RUN/AGENT/…      the folders of an agent, below the same paths, and its task folder
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use std::{fs, io};

use anyhow::Context;
use raymond::git::Git;
use raymond::run::hosted::{Done, HostedRun, Roots, StepOrder};
use raymond_core::name::AgentId;
use raymond_core::snapshot::FilesSnapshot;
use tokio::sync::Mutex;

use crate::blobs::Blobs;
use crate::bundle::{Pack, hash_of, unpack};
use crate::messages::{FilesOfRun, Repository};

/// The name of the ref that carries an agent's files, and of the one that carries its commit.
const FILES_REF: &str = "refs/raymond-moved/files";
pub(super) const HEAD_REF: &str = "refs/raymond-moved/head";
/// How long git may take for all files of a repository.
const LONGEST_GIT: Duration = Duration::from_secs(10 * 60);
/// Longer names of agents are shortened for the disk.
const MOST_NAME_BYTES: usize = 100;

/// Puts files in place.
pub struct Files {
    work: PathBuf,
    pub(super) blobs: Blobs,
    /// Held while something is put in place, so that it is done once.
    making: RefCell<BTreeMap<PathBuf, Rc<Mutex<()>>>>,
}

impl Files {
    pub fn new(work: PathBuf, blobs: Blobs) -> Self {
        Self { work, blobs, making: RefCell::default() }
    }

    /// The folder for everything of a run.
    pub fn run_folder(&self, run: &str) -> PathBuf {
        self.work.join("runs").join(run)
    }

    /// Makes everything ready that a step needs. What the agent left on another machine is brought here. `is_old` says that
    /// the agent has gone on there since it was here.
    pub async fn ready(
        &self,
        files: &FilesOfRun,
        order: &StepOrder,
        run: &HostedRun,
        is_old: bool,
    ) -> anyhow::Result<Roots> {
        let folder = self.run_folder(&order.id).join(name_of(&order.agent.id));
        // This comes first: if anything else fails, nothing old may be left that looks new the next time.
        if is_old {
            let old = [folder.clone(), self.loose_mark(order)];
            elsewhere(move || old.iter().try_for_each(|path| remove(path))).await?;
        }
        let workflows = self.work.join("bundles").join(hash_of(files.bundle.as_bytes()));
        self.make(&workflows, async |new| {
            let (bytes, new) = (self.blob(&files.bundle).await?, new.to_owned());
            elsewhere(move || unpack(&bytes, &new)).await
        })
        .await?;
        self.make(&folder, async |new| self.make_folder(new, files, order).await).await?;
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

    async fn make_folder(&self, new: &Path, files: &FilesOfRun, order: &StepOrder) -> anyhow::Result<()> {
        if let Some(repository) = &files.repository {
            let shared = self.work.join("repositories").join(&repository.commit);
            self.make(&shared, async |new| {
                let (bytes, new) = (self.blob(&repository.blob).await?, new.to_owned());
                elsewhere(move || make_repository(&new, &bytes)).await
            })
            .await?;
            let moved = self.blobs.get(&files_key(order)).await?;
            let (top, commit) = (below(new, &repository.top), repository.commit.clone());
            // What an agent with a worktree left is in that, which is made later.
            let has_worktree = order.agent.worktree.is_some();
            elsewhere(move || check_out(&top, &shared, &commit, moved.as_deref(), has_worktree)).await?;
        }
        fs::create_dir_all(below(new, &order.run.cwd))?;
        if let Some(bytes) = self.blobs.get(&loose_key(order)).await? {
            let new = new.to_owned();
            elsewhere(move || unpack(&bytes, &new)).await?;
            self.mark_loose(order)?;
        }
        fs::create_dir_all(below(new, &order.agent.cwd))?;
        Ok(())
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
        if let Some(bytes) = self.blobs.get(&session_key(order, &session.id)).await? {
            run.bring_conversation(session, cwd, roots, &bytes)?;
        }
        Ok(())
    }

    /// Keeps what the agent would need on another machine.
    pub async fn keep(
        &self,
        files: &FilesOfRun,
        order: &StepOrder,
        run: &HostedRun,
        roots: &Roots,
        done: &Done,
    ) -> anyhow::Result<()> {
        if let Some(session) = done.report.session()
            && let Ok(Some(bytes)) = run.conversation(session, &order.agent.cwd, roots)
        {
            self.blobs.put(&session_key(order, &session.id), bytes).await?;
        }
        if let (Some(repository), Some(snapshot)) = (&files.repository, &done.files) {
            let top = order.agent.worktree.as_ref().map_or(&repository.top, |worktree| &worktree.path);
            let (top, repository, snapshot) = (roots.folder_of(top), repository.clone(), snapshot.clone());
            if let Some(bytes) = elsewhere(move || moving(&top, &repository, &snapshot)).await? {
                self.blobs.put(&files_key(order), bytes).await?;
            }
        }
        if let Some(repository) = &files.repository {
            self.keep_branch(repository, order, roots).await?;
            self.keep_bases(repository, order, roots, done).await?;
        }
        let (roots, repository) = (roots.clone(), files.repository.clone());
        let replaces = self.loose_mark(order).exists();
        let loose = elsewhere(move || {
            let loose = loose_files(&roots, repository.as_ref())?;
            if loose.is_empty() && !replaces { Ok(None) } else { loose.finish().map(Some) }
        });
        if let Some(bytes) = loose.await? {
            self.blobs.put(&loose_key(order), bytes).await?;
            self.mark_loose(order)?;
        }
        Ok(())
    }

    /// Says that the store has files of the agent, which then have to be replaced even if none are left.
    fn mark_loose(&self, order: &StepOrder) -> std::io::Result<()> {
        let mark = self.loose_mark(order);
        fs::create_dir_all(mark.parent().unwrap_or(&mark))?;
        fs::write(mark, "")
    }

    fn loose_mark(&self, order: &StepOrder) -> PathBuf {
        self.run_folder(&order.id).join(".loose").join(name_of(&order.agent.id))
    }

    pub(super) async fn blob(&self, key: &str) -> anyhow::Result<Vec<u8>> {
        let found = self.blobs.get(key).await?;
        found.with_context(|| {
            format!("{key} is not in the blob store of this machine; all machines need the same `--blobs`")
        })
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
        fetch(&git, bytes, &[HEAD_REF, FILES_REF])?;
    }
    if moved.is_none() || has_worktree {
        git.text(&["checkout", "--quiet", "--detach", commit])?;
        return Ok(());
    }
    git.text(&["checkout", "--quiet", "--detach", HEAD_REF])?;
    restore_files(&git)
}

/// The agent's commit and files, unless they are those that the run began with and the store has no others.
fn moving(top: &Path, repository: &Repository, snapshot: &FilesSnapshot) -> anyhow::Result<Option<Vec<u8>>> {
    let git = Git::in_folder(top);
    let head = git.text(&["rev-parse", "HEAD"])?;
    let tree = |commit: &str| git.text(&["rev-parse", &format!("{commit}^{{tree}}")]);
    let is_as_begun = head == repository.commit && tree(&snapshot.commit)? == tree(&head)?;
    if is_as_begun && git.text(&["rev-parse", "--verify", "--quiet", HEAD_REF]).is_err() {
        return Ok(None);
    }
    git.text(&["update-ref", HEAD_REF, &head])?;
    git.text(&["update-ref", FILES_REF, &snapshot.commit])?;
    Ok(Some(bundle_of(&git, &[HEAD_REF, FILES_REF], repository)?))
}

/// Refs with their commits, but for those that every machine has.
pub(super) fn bundle_of(git: &Git, refs: &[&str], repository: &Repository) -> anyhow::Result<Vec<u8>> {
    let without = format!("^{}", repository.commit);
    let is_everywhere =
        |name: &&str| git.text(&["merge-base", "--is-ancestor", name, &repository.commit]).is_ok();
    let mut arguments = vec!["bundle", "create", "--quiet", "-"];
    arguments.extend(refs);
    // A bundle cannot name a commit that it leaves out.
    if !refs.iter().any(is_everywhere) {
        arguments.push(&without);
    }
    Ok(git.bytes(&arguments, &[])?)
}

/// Takes refs from a bundle.
pub(super) fn fetch(git: &Git, bundle: &[u8], refs: &[&str]) -> anyhow::Result<()> {
    fetch_as(git, bundle, &refs.iter().map(|name| (*name, *name)).collect::<Vec<_>>())
}

/// Takes refs from a bundle, under other names.
pub(super) fn fetch_as(git: &Git, bundle: &[u8], refs: &[(&str, &str)]) -> anyhow::Result<()> {
    let file = Path::new(&git.text(&["rev-parse", "--absolute-git-dir"])?).join("moved.bundle");
    fs::write(&file, bundle)?;
    let mut arguments = vec!["fetch".to_owned(), "--quiet".to_owned(), text(&file)];
    arguments.extend(refs.iter().map(|(from, to)| format!("+{from}:{to}")));
    git.text(&arguments)?;
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

fn name_of(agent: &AgentId) -> String {
    let name = agent.as_str();
    if name.len() <= MOST_NAME_BYTES { name.to_owned() } else { hash_of(name.as_bytes()) }
}

fn session_key(order: &StepOrder, session: &str) -> String {
    format!("runs/{}/sessions/{session}", order.id)
}

fn files_key(order: &StepOrder) -> String {
    format!("runs/{}/files/{}.bundle", order.id, name_of(&order.agent.id))
}

fn loose_key(order: &StepOrder) -> String {
    format!("runs/{}/files/{}.zip", order.id, name_of(&order.agent.id))
}
