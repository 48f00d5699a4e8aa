//! What an agent leaves outside the repository: its task folder, and everything if there is no repository.
//!
//! All of it is kept, also links, which are never followed, and empty folders. The limit is [`MOST_LEFT_BYTES`]. If that is
//! exceeded, folders called `node_modules` are left out, because they can be made again. What has no content, as a socket, is
//! left out too. The run is told what is left out.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use raymond::run::hosted::{Roots, StepOrder};

use super::files::MOST_LEFT_BYTES;
use crate::bundle::Pack;
use crate::messages::Repository;

/// A folder that can be made again.
const CAN_BE_MADE_AGAIN: &str = "node_modules";
/// How many names a warning shows.
const MOST_NAMES: usize = 3;

/// The packed files of an agent.
#[derive(Debug, Default)]
pub struct Loose {
    /// Nothing if there are none.
    pub bytes: Option<Vec<u8>>,
    /// What is not in it, for people.
    pub left_out: Option<String>,
}

/// Packs an agent's files outside the repository.
pub fn pack(order: &StepOrder, roots: &Roots, repository: Option<&Repository>) -> anyhow::Result<Loose> {
    pack_within(order, roots, repository, MOST_LEFT_BYTES)
}

/// Packs files that may be so many bytes together.
pub(super) fn pack_within(
    order: &StepOrder,
    roots: &Roots,
    repository: Option<&Repository>,
    most: u64,
) -> anyhow::Result<Loose> {
    let mut walk = Walk {
        top: repository.map(|repository| roots.folder_of(&repository.top)),
        tasks: roots.tasks(),
        input: roots.input_file(&order.agent.id),
        made_anyway: [&order.run.cwd, &order.agent.cwd].map(|folder| roots.folder_of(folder)).into(),
        pack: Pack::default(),
        left_out: Vec::new(),
    };
    walk.add(&roots.folder, "")?;
    let Walk { mut pack, mut left_out, .. } = walk;
    if pack.bytes() > most {
        pack.retain(|name| !name.split('/').any(|part| part == CAN_BE_MADE_AGAIN));
        left_out.insert(0, CAN_BE_MADE_AGAIN.to_owned());
    }
    let bytes = pack.bytes();
    let which = if repository.is_some() { "its files outside the repository" } else { "its files" };
    anyhow::ensure!(
        bytes <= most,
        "{which} are {} MiB, and {} MiB are kept at most",
        bytes.div_ceil(1 << 20),
        most >> 20
    );
    let bytes = (!pack.is_empty()).then(|| pack.finish()).transpose()?;
    Ok(Loose { bytes, left_out: shown(&left_out) })
}

fn shown(names: &[String]) -> Option<String> {
    let (first, rest) = names.split_at(names.len().min(MOST_NAMES));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    (!first.is_empty()).then(|| format!("not kept for other machines: {}{more}", first.join(", ")))
}

struct Walk {
    /// The repository, whose files are kept in another way.
    top: Option<PathBuf>,
    tasks: PathBuf,
    /// What the step was handed. It is written anew before each step.
    input: PathBuf,
    /// Folders that are made for each step. They need not be kept if they are empty, and neither need task folders.
    made_anyway: BTreeSet<PathBuf>,
    pack: Pack,
    left_out: Vec<String>,
}

impl Walk {
    fn add(&mut self, path: &Path, name: &str) -> anyhow::Result<()> {
        if self.top.as_deref() == Some(path) || self.input == path {
            return Ok(());
        }
        let Some(found) = there(fs::symlink_metadata(path), path)? else { return Ok(()) };
        if found.is_dir() { self.add_folder(path, name) } else { self.add_file(path, name, &found) }
    }

    fn add_folder(&mut self, path: &Path, name: &str) -> anyhow::Result<()> {
        let Some(entries) = there(fs::read_dir(path), path)? else { return Ok(()) };
        let mut is_empty = true;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", path.display()))?;
            is_empty = false;
            match entry.file_name().to_str() {
                Some(inner) => self.add(&entry.path(), &format!("{name}/{inner}"))?,
                None => self.left_out.push(entry.path().to_string_lossy().into_owned()),
            }
        }
        let is_made_anyway = self.made_anyway.contains(path)
            || path == self.tasks
            || path.parent() == Some(&self.tasks)
            || name.is_empty();
        if is_empty && !is_made_anyway {
            self.pack.add_folder(name);
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path, name: &str, found: &Metadata) -> anyhow::Result<()> {
        if found.is_file() {
            self.pack.add_file(path, name, found.len());
            return Ok(());
        }
        if !found.is_symlink() {
            self.left_out.push(format!("{name} (no file or folder)"));
            return Ok(());
        }
        let Some(target) = there(fs::read_link(path), path)? else { return Ok(()) };
        match target.to_str() {
            Some(target) => self.pack.add_link(name, target),
            None => self.left_out.push(name.to_owned()),
        }
        Ok(())
    }
}

/// Something that may have been removed meanwhile: a program that the step has left may still run.
fn there<T>(found: io::Result<T>, path: &Path) -> anyhow::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_few_names_are_shown() {
        let names = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!(shown(&names(0)), None);
        assert_eq!(shown(&names(3)).unwrap(), "not kept for other machines: 0, 1, 2");
        assert_eq!(shown(&names(5)).unwrap(), "not kept for other machines: 0, 1, 2 and 2 more");
    }
}
