//! The content of a workflow as one hash: of all files that a start of it may use.
//!
//! These are the files of its folder, archive or file, data among them, the same of every workflow that it extends or names,
//! the config files of the projects that it lies in, which can say which programs are run, the files with MCP servers that its
//! prompts name, and what agent programs [obey](super::obeyed) where its agents may work. `.git` and `.raymond` are left out: they
//! change with every commit and every run. Bounds: [`MAX_FILES`] and [`MAX_BYTES`] in all, and [`MAX_DEPTH`].

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use raymond_core::workflow::Platform;
use sha2::{Digest, Sha256};

use super::obeyed::{folders, obeyed};
use crate::error::UserError;
use crate::files;
use crate::paths::{normalise, shown};
use crate::workflow::named::Reached;
use crate::workflow::scope::{MAX_BYTES, MAX_FILES, Scope, host_of};
use crate::workflow::scopes::canonical;

/// How deep folders may lie in each other.
const MAX_DEPTH: usize = 64;
/// Folders that are left out, wherever they are.
const LEFT_OUT: [&str; 2] = [".git", ".raymond"];

/// The hash of the content of the workflow at a path, as it is now.
pub fn content_of(path: &Path) -> Result<String, UserError> {
    content(&Reached::from(path, Platform::current())?)
}

/// The same of workflows that were opened.
pub fn content(reached: &Reached) -> Result<String, UserError> {
    let mut sum = Sum { digest: Sha256::new(), files: 0, bytes: 0 };
    let mut scopes: Vec<&Scope> = reached.scopes.iter().collect();
    scopes.sort_by_key(|scope| canonical(scope.path()));
    for scope in scopes {
        sum.add_scope(scope)?;
    }
    for (path, name) in &reached.missing {
        sum.add("missing", canonical(path).as_os_str().as_encoded_bytes(), name.as_bytes());
    }
    for file in mcp_files(reached)? {
        sum.add("mcp", file.as_os_str().as_encoded_bytes(), b"");
        sum.add_file(&file, b"")?;
    }
    for path in obeyed(reached)? {
        sum.add_entry(&path, path.as_os_str().as_encoded_bytes(), &mut Vec::new())?;
    }
    for file in reached.scopes.first().map(configs_around).unwrap_or_default() {
        sum.add("config", file.as_os_str().as_encoded_bytes(), b"");
        sum.add_file(&file, b"config.toml")?;
    }
    Ok(sum.hexadecimal())
}

/// The config files of the projects that a workflow lies in. From where it is started decides which one counts.
pub fn configs_around(scope: &Scope) -> Vec<PathBuf> {
    let home = canonical(scope.home());
    let files = home.ancestors().map(|folder| folder.join(".raymond/config.toml"));
    files.filter(|file| file.exists()).collect()
}

/// A text with the default values of named inputs, as in a start by itself. No other value chooses a file with
/// MCP servers.
fn with_defaults(text: &str, reached: &Reached) -> String {
    let inputs = reached.scopes.iter().flat_map(|scope| &scope.manifest().inputs);
    let defaults =
        inputs.filter_map(|input| Some((format!("{{{{{}}}}}", input.name), input.default.as_ref()?)));
    defaults.fold(text.to_owned(), |text, (place, value)| text.replace(&place, value))
}

/// The files with MCP servers that prompts name. They are relative to the folder of the agent, which is known when it runs: it may
/// be any that the workflow names.
fn mcp_files(reached: &Reached) -> Result<BTreeSet<PathBuf>, UserError> {
    let folders = folders(reached)?;
    let named = reached.mcp_configs.iter().flat_map(|name| {
        let name = with_defaults(name, reached);
        folders.iter().map(|folder| normalise(folder, Path::new(&name))).collect::<Vec<_>>()
    });
    Ok(named.filter(|file| file.is_file()).collect())
}

/// A hash that is being made. What is added is told apart by kind and length, so that no two contents are the same.
struct Sum {
    digest: Sha256,
    files: usize,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, kind: &str, name: &[u8], content: &[u8]) {
        for part in [kind.as_bytes(), name, content] {
            self.digest.update((part.len() as u64).to_le_bytes());
            self.digest.update(part);
        }
    }

    fn hexadecimal(self) -> String {
        self.digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn add_scope(&mut self, scope: &Scope) -> Result<(), UserError> {
        let path = scope.path();
        self.add("workflow", canonical(path).as_os_str().as_encoded_bytes(), b"");
        if path.is_dir() {
            return self.add_folder(path, &mut vec![canonical(path)]);
        }
        let file = if path.exists() { path } else { host_of(path).unwrap_or(path) };
        self.add_file(file, b"")
    }

    /// `around` are the folders that it lies in, with links followed, and itself: a link may lead back to one of them.
    fn add_folder(&mut self, folder: &Path, around: &mut Vec<PathBuf>) -> Result<(), UserError> {
        let cannot = |error: io::Error| cannot_read(folder, &error);
        if around.len() > MAX_DEPTH {
            return Err(UserError::usage(format!("{} is too deep", shown(folder).display())));
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).map_err(cannot)? {
            self.count(folder)?;
            entries.push(entry.map_err(cannot)?.file_name());
        }
        entries.sort();
        for name in entries.into_iter().filter(|name| !LEFT_OUT.iter().any(|left| name == left)) {
            let path = folder.join(&name);
            self.add_entry(&path, name.as_encoded_bytes(), around)?;
        }
        self.add("end", b"", b"");
        Ok(())
    }

    fn add_entry(&mut self, path: &Path, name: &[u8], around: &mut Vec<PathBuf>) -> Result<(), UserError> {
        if let Ok(target) = fs::read_link(path) {
            self.add("link", name, target.as_os_str().as_encoded_bytes());
        }
        match fs::metadata(path) {
            Ok(data) if data.is_file() => self.add_file(path, name),
            Ok(data) if data.is_dir() => {
                let real = canonical(path);
                self.add("folder", name, b"");
                if around.contains(&real) {
                    return Ok(());
                }
                around.push(real);
                self.add_folder(path, around)?;
                around.pop();
                Ok(())
            }
            // A pipe, a device, a broken link: there is nothing in it that could be compared.
            Ok(Metadata { .. }) | Err(_) => {
                self.add("other", name, b"");
                Ok(())
            }
        }
    }

    fn add_file(&mut self, path: &Path, name: &[u8]) -> Result<(), UserError> {
        let bytes = files::read(path, MAX_BYTES).map_err(|error| cannot_read(path, &error))?;
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(too_much(path, &format!("{} MiB", MAX_BYTES / (1024 * 1024))));
        }
        self.add("file", name, &bytes);
        Ok(())
    }

    fn count(&mut self, folder: &Path) -> Result<(), UserError> {
        self.files += 1;
        match self.files > MAX_FILES {
            true => Err(too_much(folder, &format!("{MAX_FILES} files"))),
            false => Ok(()),
        }
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> UserError {
    UserError::usage(format!("cannot read {}: {error}", shown(path).display()))
}

fn too_much(path: &Path, bound: &str) -> UserError {
    UserError::usage(format!(
        "the workflow and those that it reaches have more than {bound}, at {}",
        shown(path).display()
    ))
    .hint("put its states into a folder of their own, without what they work on")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        write(&root, ".git/HEAD", "x");
        write(&root, "wf/START.sh", "echo '<reset-workflow>../next</reset-workflow>'");
        write(&root, "wf/workflow.yaml", "extends: ../base\n");
        write(&root, "wf/data/deep/x.txt", "data");
        write(&root, "next/START.sh", "echo '<reset-workflow>../gone</reset-workflow>'");
        write(&root, "base/OTHER.sh", "echo");
        (folder, root)
    }

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn every_file_that_a_start_may_use_counts() {
        let (_folder, root) = project();
        let content = || content_of(&root.join("wf")).unwrap();
        let mut last = content();
        assert_eq!(last, content());
        let changes = [
            ("wf/START.sh", "echo '<reset-workflow>../next</reset-workflow>' #"),
            ("wf/workflow.yaml", "extends: ../base\nmodel: x\n"),
            ("wf/data/deep/x.txt", "other"),
            ("wf/data/new.txt", ""),
            ("wf/NEW.md", "new"),
            ("next/START.sh", "echo '<reset-workflow>../gone</reset-workflow>' #"),
            ("next/lib.sh", "x"),
            ("base/OTHER.sh", "echo 2"),
            ("gone/START.sh", "echo"),
            ("next/ASK.md", "---\nmcp_config: [ servers.json, \"{{input}}\" ]\n---\nAsk."),
            ("servers.json", "{}"),
            ("servers.json", "{ }"),
            ("next/workflow.yaml", "inputs: { servers: { default: other.json } }\n"),
            ("next/ASK.md", "---\nmcp_config: [ \"{{servers}}\" ]\n---\nAsk."),
            ("other.json", "{}"),
            ("other.json", "{ }"),
            ("next/GO.sh", "echo '<reset cd=\"sub\">ASK</reset>'"),
            ("wf/ON.sh", "echo '<goto>X</goto>'; echo '<fork next=\"X\" cd=\"deeper\">ASK</fork>'"),
            ("sub/other.json", "{}"),
            ("sub/deeper/other.json", "{}"),
            ("sub/deeper/other.json", "{ }"),
            (".claude/settings.json", "{}"),
            (".claude/settings.json", "{ }"),
            ("sub/.claude/settings.local.json", "{}"),
            ("sub/.claude/hooks/a/check.sh", "x"),
            ("sub/.claude/hooks/a/check.sh", "y"),
            ("sub/deeper/.mcp.json", "{}"),
            ("wf/.codex/config.toml", "a = 1"),
            (".raymond/config.toml", "[raymond]\nverbose = true\n"),
            (".raymond/config.toml", "[raymond]\nverbose = false\n"),
            ("wf/.raymond/config.toml", "[raymond]\nverbose = true\n"),
            (".raymond/config.toml", "[raymond]\nnotify = \"x\"\n"),
        ];
        for (name, text) in changes {
            write(&root, name, text);
            assert_ne!(last, content(), "{name}");
            last = content();
        }
        for (name, text) in [
            (".git/HEAD", "y"),
            ("wf/.raymond/state/r.jsonl", "y"),
            (".raymond/state/r.jsonl", "y"),
            ("beside.txt", "y"),
            ("elsewhere/.claude/settings.json", "{}"),
            (".claude/history.jsonl", "{}"),
        ] {
            write(&root, name, text);
            assert_eq!(last, content(), "{name}");
        }
    }

    #[test]
    fn names_and_contents_cannot_be_confused() {
        let hash = |files: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            // The same path each time.
            let root = folder.path().join("wf");
            for (name, text) in files {
                write(&root, name, text);
            }
            let mut sum = Sum { digest: Sha256::new(), files: 0, bytes: 0 };
            sum.add_folder(&root, &mut vec![root.clone()]).unwrap();
            sum.hexadecimal()
        };
        assert_ne!(hash(&[("a", "b"), ("c", "d")]), hash(&[("a", "bfile"), ("c", "d")]));
        assert_ne!(hash(&[("a/b", ""), ("c", "")]), hash(&[("a/b", ""), ("a/c", "")]));
        assert_ne!(hash(&[("a", "")]), hash(&[("a/b", "")]));
    }

    #[cfg(unix)]
    #[test]
    fn links_count_with_what_they_lead_to_and_nothing_is_waited_for() {
        let (_folder, root) = project();
        write(&root, "outside/lib.sh", "one");
        std::os::unix::fs::symlink("../outside", root.join("wf/lib")).unwrap();
        std::os::unix::fs::symlink("..", root.join("wf/data/around")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("wf/broken")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(root.join("wf/pipe")).status().unwrap().success());
        let content = || content_of(&root.join("wf")).unwrap();
        let before = content();
        assert_eq!(before, content());
        write(&root, "outside/lib.sh", "two");
        let linked = content();
        assert_ne!(before, linked);
        fs::remove_file(root.join("wf/broken")).unwrap();
        std::os::unix::fs::symlink("elsewhere", root.join("wf/broken")).unwrap();
        assert_ne!(linked, content());
    }

    #[test]
    fn more_than_can_be_compared_is_refused() {
        let (_folder, root) = project();
        fs::File::create(root.join("wf/large")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let error = content_of(&root.join("wf")).unwrap_err();
        assert!(error.message.contains("larger than 64 MiB"), "{}", error.message);
    }
}
