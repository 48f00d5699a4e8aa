//! `version!()`: the version of the package with the commit that it is built from, as `raymond --version` tells it.
//!
//! A macro, because a build script would have everything in its package built again at every commit. Used in `main.rs`, this
//! builds only that file again: what it expands to includes git's log of commits, by which the compiler knows when it is out of date.

use std::env;
use std::path::Path;
use std::process::Command;

use proc_macro::TokenStream;

/// `"0.1.0 (4f2a9c1 2026-03-01)"`, or only the version where there is no history, as in a published package.
#[proc_macro]
pub fn version(_: TokenStream) -> TokenStream {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let expanded = match env::var("CARGO_MANIFEST_DIR").ok().and_then(|folder| commit(Path::new(&folder))) {
        None => format!("{version:?}"),
        Some(Commit { name, log }) => {
            let version = format!("{version} ({name})");
            let tracked =
                log.map(|log| format!("const _: &[u8] = include_bytes!({log:?});")).unwrap_or_default();
            format!("{{ {tracked} {version:?} }}")
        }
    };
    expanded.parse().unwrap_or_default()
}

struct Commit {
    /// Its short hash and its day.
    name: String,
    /// A file that changes with every commit and every change of branch.
    log: Option<String>,
}

fn commit(folder: &Path) -> Option<Commit> {
    // A copy inside of another project is not of that project's commit.
    git(folder, &["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let name = git(folder, &["log", "-1", "--format=%h %cs"])?;
    let log = git(folder, &["rev-parse", "--git-path", "logs/HEAD"]).map(|path| folder.join(path));
    let log = log.filter(|path| path.is_file()).and_then(|path| path.to_str().map(str::to_owned));
    Some(Commit { name, log })
}

fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).current_dir(folder).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
