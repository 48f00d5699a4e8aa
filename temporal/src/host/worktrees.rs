//! Worktrees of workers. A worker has a clone of its own, and its worktree is made in that, as it is made locally. What
//! agents see of each other goes through the store of blobs: the commits that worktrees begin with, and the branches that
//! workers leave. A step whose input names a branch of the run, as the input after a join does, finds it in its clone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use raymond::git::Git;
use raymond::git::making::finish;
use raymond::run::hosted::{Done, Roots, StepOrder, worktrees_of};
use raymond_core::payload::Payload;
use raymond_core::worktree::{Worktree, branch, check_name};

use super::files::{Files, HEAD_REF, bundle_of, elsewhere, fetch, fetch_as, restore_files};
use crate::messages::Repository;

/// The name of the ref that carries the commit with which a worktree begins.
const BASE_REF: &str = "refs/raymond-moved/base";
/// The name of the ref that carries a branch of another worker.
const BROUGHT_REF: &str = "refs/raymond-moved/brought";
/// The name of the ref that says which commit of its branch was kept last.
const KEPT_REF: &str = "refs/raymond-moved/kept";

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
        if git.text(&["cat-file", "-e", &worktree.base]).is_err() {
            let (git, base) = (git.clone(), self.blob(&base_key(order, &worktree.base)).await?);
            elsewhere(move || fetch(&git, &base, &[BASE_REF])).await?;
        }
        if git.text(&["rev-parse", "--verify", "--quiet", HEAD_REF]).is_err() {
            return Ok(());
        }
        let kept = self.blobs.get(&branch_key(order, &worktree.name)).await?;
        let (worktree, folder) = (worktree.clone(), roots.folder_of(&worktree.path));
        elsewhere(move || restore(&git, &worktree, &folder, kept.as_deref())).await?;
        Ok(finish(&mark)?)
    }

    /// Brings the branches that the step's input names.
    pub(super) async fn bring_branches(
        &self,
        repository: &Repository,
        order: &StepOrder,
        roots: &Roots,
    ) -> anyhow::Result<()> {
        let own = order.agent.worktree.as_ref().map(|worktree| worktree.name.as_str());
        for name in names_in(input_of(order), &order.id).into_iter().filter(|name| Some(*name) != own) {
            if let Some(bundle) = self.blobs.get(&branch_key(order, name)).await? {
                let git = Git::in_folder(roots.folder_of(&repository.top));
                let name = full_name(&branch(&order.id, name));
                elsewhere(move || bring_branch(&git, &name, &bundle)).await?;
            }
        }
        Ok(())
    }

    /// Keeps the agent's branch for others, if it has new commits.
    pub(super) async fn keep_branch(
        &self,
        repository: &Repository,
        order: &StepOrder,
        roots: &Roots,
    ) -> anyhow::Result<()> {
        let Some(worktree) = &order.agent.worktree else { return Ok(()) };
        let git = Git::in_folder(roots.folder_of(&repository.top));
        let commit = |name: &str| git.text(&["rev-parse", "--verify", "--quiet", name]).ok();
        let (name, kept) = (full_name(&worktree.branch), commit(KEPT_REF));
        let Some(tip) = commit(&name) else { return Ok(()) };
        if tip == kept.unwrap_or_else(|| worktree.base.clone()) {
            return Ok(());
        }
        let (of_git, repository) = (git.clone(), repository.clone());
        let bundle = elsewhere(move || bundle_of(&of_git, &[&name], &repository)).await?;
        self.blobs.put(&branch_key(order, &worktree.name), bundle).await?;
        git.text(&["update-ref", KEPT_REF, &tip])?;
        Ok(())
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
            if git.text(&["merge-base", "--is-ancestor", base, &repository.commit]).is_ok() {
                continue;
            }
            git.text(&["update-ref", BASE_REF, base])?;
            let (of_git, repository) = (git.clone(), repository.clone());
            let bundle = elsewhere(move || bundle_of(&of_git, &[BASE_REF], &repository)).await?;
            self.blobs.put(&base_key(order, base), bundle).await?;
        }
        Ok(())
    }
}

/// Takes a branch of another worker from its bundle. One that is here already, and has commits of its own or is checked out,
/// stays as it is.
fn bring_branch(git: &Git, name: &str, bundle: &[u8]) -> anyhow::Result<()> {
    let is_there = git.text(&["rev-parse", "--verify", "--quiet", name]).is_ok();
    if !is_there {
        return fetch(git, bundle, &[name]);
    }
    let checked_out = git.text(&["worktree", "list", "--porcelain"])?;
    if checked_out.lines().any(|line| line.strip_prefix("branch ") == Some(name)) {
        return Ok(());
    }
    fetch_as(git, bundle, &[(name, BROUGHT_REF)])?;
    if git.text(&["merge-base", "--is-ancestor", name, BROUGHT_REF]).is_ok() {
        git.text(&["update-ref", name, BROUGHT_REF])?;
    }
    Ok(())
}

/// Makes a worktree as it was left on another machine. `kept` is its branch, which otherwise is as it began.
fn restore(git: &Git, worktree: &Worktree, folder: &Path, kept: Option<&[u8]>) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    git.text(&["worktree", "prune"])?;
    let name = full_name(&worktree.branch);
    match kept {
        Some(bundle) => fetch(git, bundle, &[&name])?,
        None => drop(git.text(&["update-ref", &name, &worktree.base])?),
    }
    git.text(&["worktree", "add", "--quiet", "--", &folder.to_string_lossy(), &worktree.branch])?;
    let here = Git::in_folder(folder);
    if here.text(&["rev-parse", "HEAD"])? != here.text(&["rev-parse", HEAD_REF])? {
        here.text(&["checkout", "--quiet", "--detach", HEAD_REF])?;
    }
    restore_files(&here)
}

/// The names of worktrees whose branches a text names. The text is a model's, so anything else may be in it.
fn names_in<'a>(text: &'a str, run: &str) -> BTreeSet<&'a str> {
    let start = branch(run, "");
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let names = text.match_indices(&start).map(|(at, _)| {
        let rest = &text[at + start.len()..];
        &rest[..rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len())]
    });
    names.filter(|name| check_name(name).is_ok()).collect()
}

/// What the step is handed.
fn input_of(order: &StepOrder) -> &str {
    match &order.agent.payload {
        Some(Payload::Inline(text)) => text,
        Some(Payload::Stored { payload, .. }) => order.payloads.get(payload).map_or("", String::as_str),
        None => "",
    }
}

fn full_name(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

fn branch_key(order: &StepOrder, name: &str) -> String {
    format!("runs/{}/branches/{name}.bundle", order.id)
}

fn base_key(order: &StepOrder, commit: &str) -> String {
    format!("runs/{}/commits/{commit}.bundle", order.id)
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
            run(&["init", "--quiet"]);
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
            bring_branch(&git, name, &bundle).unwrap();
            assert_eq!(run(&["log", "-1", "--format=%s", name]), expected, "{here}");
        }
    }

    #[test]
    fn branches_of_the_run_are_found_in_any_text() {
        let text = r#"[{"branch":"raymond-run/r/one"},{"branch":"raymond-run/r/two.2"}] raymond-run/s/other raymond-run/r/../up"#;
        assert_eq!(names_in(text, "r").into_iter().collect::<Vec<_>>(), ["one", "two.2"]);
        assert!(names_in("raymond-run/r/", "r").is_empty());
    }
}
