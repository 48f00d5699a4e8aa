//! Worktrees of workers. A worker has a clone of its own, and its worktree is made in that, as it is made locally. What
//! agents see of each other goes through the store of blobs: the commits that worktrees begin with, and the branches that
//! workers leave. A step whose input names a branch of the run, as the input after a join does, finds it in its clone.

use std::collections::BTreeSet;
use std::path::Path;

use raymond::git::Git;
use raymond::git::making::finish;
use raymond::run::hosted::{Branch, Done, Roots, StepOrder, worktrees_of};
use raymond_core::worktree::{Worktree, branch};

use super::files::{Files, HEAD_REF, bundle_of, elsewhere, fetch, restore_files};
use super::names;
use super::trash::remove_all;
use crate::messages::Repository;
use crate::places::{input_of, names_in};

/// The name of the ref that carries the commit with which a worktree begins.
const BASE_REF: &str = "refs/raymond-moved/base";
/// The name of the ref that carries a branch.
const BROUGHT_REF: &str = "refs/raymond-moved/brought";

impl Files {
    /// Brings what the agent's worktree needs: the commit with which it begins, or everything that the agent left in it on
    /// another machine.
    pub(super) async fn bring_worktree(
        &self,
        repository: Option<&Repository>,
        order: &StepOrder,
        roots: &Roots,
    ) -> anyhow::Result<()> {
        let Some(worktree) = &order.agent.worktree else { return Ok(()) };
        let mark = worktrees_of(order, roots).mark(&worktree.name);
        if mark.exists() {
            return Ok(());
        }
        let is_of = |repository: &&Repository| {
            Path::new(&repository.top).join(".git") == Path::new(&worktree.repository)
        };
        let Some(repository) = repository.filter(is_of) else {
            anyhow::bail!(
                "the worktree `{}` is of {}, and only the repository in which the run was started is on all machines",
                worktree.name,
                worktree.repository
            );
        };
        let git = Git::in_folder(roots.folder_of(&repository.top));
        self.bring_commit(order, &git, &worktree.base).await?;
        if git.text(&["rev-parse", "--verify", "--quiet", HEAD_REF]).is_err() {
            return Ok(());
        }
        if !self.has_brought(order, &git, &worktree.name).await? {
            git.text(&["update-ref", BROUGHT_REF, &worktree.base])?;
        }
        let (moved, folder) = (worktree.clone(), roots.folder_of(&worktree.path));
        elsewhere(move || restore(&git, &moved, &folder)).await?;
        Ok(finish(&mark, &worktree.branch)?)
    }

    /// Brings the branches that the step's input names.
    pub(super) async fn bring_branches(
        &self,
        repository: &Repository,
        order: &StepOrder,
        roots: &Roots,
    ) -> anyhow::Result<()> {
        let own = order.agent.worktree.as_ref().map(|worktree| worktree.name.as_str());
        let input = input_of(order).unwrap_or_default();
        for name in names_in(input, &order.id).into_iter().filter(|name| Some(*name) != own) {
            let git = Git::in_folder(roots.folder_of(&repository.top));
            if self.has_brought(order, &git, name).await? {
                let name = full_name(&branch(&order.id, name));
                elsewhere(move || take_branch(&git, &name)).await?;
            }
        }
        Ok(())
    }

    /// Brings the branch of a worktree to [`BROUGHT_REF`], if there is one.
    async fn has_brought(&self, order: &StepOrder, git: &Git, worktree: &str) -> anyhow::Result<bool> {
        let bundle = match order.branches.get(worktree) {
            Some(Branch { blob: Some(blob), .. }) => Some(self.branch_bundle(blob).await?),
            Some(Branch { commit, blob: None }) => {
                self.bring_commit(order, git, commit).await?;
                git.text(&["update-ref", BROUGHT_REF, commit])?;
                return Ok(true);
            }
            None => self.blobs.get(&names::earlier_branch(order, worktree)).await?,
        };
        let Some(bundle) = bundle else { return Ok(false) };
        let (git, name) = (git.clone(), full_name(&branch(&order.id, worktree)));
        elsewhere(move || fetch(&git, &bundle, &name, BROUGHT_REF)).await?;
        Ok(true)
    }

    /// The bundle of a branch. Its worker may have gone on since the order was made, and then only a newer one may be left.
    async fn branch_bundle(&self, blob: &str) -> anyhow::Result<Vec<u8>> {
        if let Some(bundle) = self.blobs.get(blob).await? {
            return Ok(bundle);
        }
        let folder = blob.rsplit_once('/').map_or("", |(folder, _)| folder);
        match self.blobs.list(folder).await?.pop() {
            Some(newest) => self.blob(&format!("{folder}/{newest}")).await,
            None => self.blob(blob).await,
        }
    }

    /// Brings a commit with which a worktree begins, if it is not here.
    async fn bring_commit(&self, order: &StepOrder, git: &Git, commit: &str) -> anyhow::Result<()> {
        if git.text(&["cat-file", "-e", commit]).is_ok() {
            return Ok(());
        }
        let (git, bundle) = (git.clone(), self.blob(&names::of_commit(order, commit)).await?);
        elsewhere(move || fetch(&git, &bundle, BASE_REF, BASE_REF)).await
    }

    /// Keeps the agent's branch for others.
    pub(super) async fn keep_branch(
        &self,
        repository: &Repository,
        order: &StepOrder,
        roots: &Roots,
    ) -> anyhow::Result<Option<Branch>> {
        let Some(worktree) = &order.agent.worktree else { return Ok(None) };
        let git = Git::in_folder(roots.folder_of(&repository.top));
        let name = full_name(&worktree.branch);
        let Ok(commit) = git.text(&["rev-parse", "--verify", "--quiet", &name]) else { return Ok(None) };
        if let Some(before) = order.branches.get(&worktree.name)
            && before.commit == commit
        {
            return Ok(Some(before.clone()));
        }
        if commit == worktree.base || is_everywhere(&git, &commit, repository) {
            return Ok(Some(Branch { commit, blob: None }));
        }
        let (blob, repository) = (names::of_branch(order, &worktree.name), repository.clone());
        let bundle = elsewhere(move || bundle_of(&git, &name, &repository)).await?;
        self.blobs.put(&blob, bundle).await?;
        Ok(Some(Branch { commit, blob: Some(blob) }))
    }

    /// Keeps the commits with which worktrees begin that the agent has asked for.
    pub(super) async fn keep_bases(
        &self,
        repository: &Repository,
        order: &StepOrder,
        roots: &Roots,
        done: &Done,
    ) -> anyhow::Result<()> {
        let new = done.report.lookups.worktrees.values().flatten();
        let bases: BTreeSet<&String> = new.map(|new| &new.worktree.base).collect();
        let git = Git::in_folder(roots.folder_of(&repository.top));
        for base in bases {
            if is_everywhere(&git, base, repository) {
                continue;
            }
            git.text(&["update-ref", BASE_REF, base])?;
            let (of_git, repository) = (git.clone(), repository.clone());
            let bundle = elsewhere(move || bundle_of(&of_git, BASE_REF, &repository)).await?;
            self.blobs.put(&names::of_commit(order, base), bundle).await?;
        }
        Ok(())
    }
}

/// Whether a commit is one of those that the run began with, which every machine has.
fn is_everywhere(git: &Git, commit: &str, repository: &Repository) -> bool {
    git.text(&["merge-base", "--is-ancestor", commit, &repository.commit]).is_ok()
}

/// Takes the branch of another worker that was brought. One that is here already, and has commits of its own or is checked
/// out, stays as it is.
fn take_branch(git: &Git, name: &str) -> anyhow::Result<()> {
    let is_there = git.text(&["rev-parse", "--verify", "--quiet", name]).is_ok();
    let checked_out = git.text(&["worktree", "list", "--porcelain"])?;
    let is_checked_out = checked_out.lines().any(|line| line.strip_prefix("branch ") == Some(name));
    let goes_on = || git.text(&["merge-base", "--is-ancestor", name, BROUGHT_REF]).is_ok();
    if !is_there || (!is_checked_out && goes_on()) {
        git.text(&["update-ref", name, BROUGHT_REF])?;
    }
    Ok(())
}

/// Makes a worktree as it was left on another machine. Its branch was brought.
fn restore(git: &Git, worktree: &Worktree, folder: &Path) -> anyhow::Result<()> {
    remove_all(folder)?;
    git.text(&["worktree", "prune"])?;
    git.text(&["update-ref", &full_name(&worktree.branch), BROUGHT_REF])?;
    git.text(&["worktree", "add", "--quiet", "--", &folder.to_string_lossy(), &worktree.branch])?;
    let here = Git::in_folder(folder);
    if here.text(&["rev-parse", "HEAD"])? != here.text(&["rev-parse", HEAD_REF])? {
        here.text(&["checkout", "--quiet", "--detach", HEAD_REF])?;
    }
    restore_files(&here)
}

fn full_name(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A branch of another worker may be missing here, be older, be checked out, or have commits of its own.
    #[test]
    fn a_branch_of_another_worker_takes_nothing_away() {
        let name = "refs/heads/raymond-run/r/w";
        for (here, expected) in
            [("missing", "theirs"), ("older", "theirs"), ("checked out", "first"), ("other", "mine")]
        {
            let folder = tempfile::tempdir().unwrap();
            let git = Git::in_folder(folder.path());
            let run = |arguments: &[&str]| git.text(arguments).unwrap();
            let commit = |message: &str| {
                let author =
                    ["-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--allow-empty", "-m"];
                run(&[&author[..], &[message]].concat());
            };
            Git::in_no_repository(folder.path()).text(&["init", "--quiet"]).unwrap();
            commit("first");
            run(&["branch", "first"]);
            run(&["checkout", "--quiet", "-b", "raymond-run/r/w"]);
            commit("theirs");
            let bundle = git.bytes(&["bundle", "create", "--quiet", "-", name], &[]).unwrap();
            run(&["checkout", "--quiet", "--detach", "first"]);
            run(&["update-ref", "-d", name]);
            match here {
                "older" => drop(run(&["update-ref", name, "first"])),
                "checked out" => drop(run(&["checkout", "--quiet", "-b", "raymond-run/r/w"])),
                "other" => {
                    commit("mine");
                    run(&["update-ref", name, "HEAD"]);
                }
                _ => {}
            }
            fetch(&git, &bundle, name, BROUGHT_REF).unwrap();
            take_branch(&git, name).unwrap();
            assert_eq!(run(&["log", "-1", "--format=%s", name]), expected, "{here}");
        }
    }

    #[tokio::test]
    async fn a_branch_whose_worker_has_gone_on_is_found_as_it_is_now() {
        let blobs = crate::blobs::Blobs::open(Some("memory:///")).unwrap();
        let files = Files::new(std::path::PathBuf::new(), blobs.clone());
        assert!(files.branch_bundle("runs/r/branches/w/1.bundle").await.is_err());
        for (name, content) in [("1.bundle", "old"), ("2.bundle", "newer"), ("3.bundle", "newest")] {
            blobs.put(&format!("runs/r/branches/w/{name}"), content.into()).await.unwrap();
        }
        let found = async || files.branch_bundle("runs/r/branches/w/1.bundle").await.unwrap();
        assert_eq!(found().await, b"old");
        blobs.remove("runs/r/branches/w/1.bundle").await.unwrap();
        assert_eq!(found().await, b"newest");
    }
}
