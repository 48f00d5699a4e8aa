//! What lies in the project's `.raymond`: whether it is one's own, and whether git tracks any of it.

use super::Finding;
use crate::cli::find::{found_home, working_folder};
use crate::git::{Git, SHORT_PATIENCE};
use crate::store::{FolderStore, RunStore};

/// How many tracked files are named.
const NAMED: usize = 3;

pub(super) fn findings() -> Vec<Finding> {
    let Ok(dir) = working_folder().and_then(|cwd| found_home(&cwd)) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some((link, target)) = dir.stray_link() {
        let message = format!("{} is a link, to {}", link.display(), target.display());
        findings.push(Finding::warning("state", message, "nothing there is used; put a folder in its place"));
    }
    if let Some(why) = dir.own().trouble() {
        let advice = "no run can be started here without --state-dir until that is mended";
        findings.push(Finding::warning("state", why.to_string(), advice));
    }
    let foreign = FolderStore::new(dir.clone()).foreign().unwrap_or_default();
    if !foreign.is_empty() {
        let message = format!(
            "{} in {} ignored: made by an earlier version, in another folder or by another user",
            if foreign.len() == 1 { "1 run is".to_owned() } else { format!("{} runs are", foreign.len()) },
            dir.path().display()
        );
        findings.push(Finding::warning("state", message, "look at them with `raymond doctor --adopt`"));
    }
    findings.extend(wedged(&FolderStore::new(dir.clone())));
    findings.extend(dir.home().and_then(tracked));
    findings
}

/// Runs on other machines that were wedged when they were last seen.
fn wedged(store: &FolderStore) -> Vec<Finding> {
    let of = |id: String| {
        let mark = store.run(&id).ok()?.elsewhere()?;
        let message = format!("{id} is wedged on {}: {}", mark.engine, mark.why_wedged()?);
        Some(Finding::warning("runs", message, format!("`raymond resume {id}` says how to go on")))
    };
    store.elsewhere().unwrap_or_default().into_iter().filter_map(of).collect()
}

/// Files below `.raymond` that a commit would hand on, and a pull would replace.
fn tracked(home: &std::path::Path) -> Option<Finding> {
    if !home.is_dir() {
        return None;
    }
    let git = Git::in_folder(home).patience(SHORT_PATIENCE);
    let listed = match git.text(&["ls-files", "-z", "--", "."]) {
        Ok(listed) => listed,
        Err(error) if error.is_no_answer() => {
            let message = format!("it is not known whether git tracks files in {}: {error}", home.display());
            return Some(Finding::warning("state", message, "look at the repository: git status"));
        }
        Err(_) => return None,
    };
    let is_meant = |name: &&str| !["", "config.toml", ".gitignore"].contains(name);
    let names: Vec<&str> = listed.split('\0').filter(is_meant).collect();
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > NAMED { format!(" and {} more", names.len() - NAMED) } else { String::new() };
    (!names.is_empty()).then(|| {
        Finding::warning(
            "state",
            format!("git tracks files of Raymond's own in {}: {shown}{more}", home.display()),
            "take them out of the repository: git rm -r --cached .raymond, then add .raymond/config.toml alone",
        )
    })
}
