//! Looking up a program on PATH.
//!
//! The system looks for `.exe` files only. Many programs are installed as a small script (`npm` creates a `claude.cmd`),
//! which a shell finds by `PATHEXT`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::ProgramSpec;

/// The extensions of programs, in this order if `PATHEXT` is not set. Other extensions in `PATHEXT` are documents that
/// need another program to open them.
const EXTENSIONS: [&str; 4] = ["com", "exe", "bat", "cmd"];

/// The path of the program; `None` if it was given as a path, or is not found.
pub(super) fn find(spec: &ProgramSpec) -> Option<PathBuf> {
    let changed = |(name, value): &(OsString, Option<OsString>)| {
        name.eq_ignore_ascii_case("PATH").then(|| value.clone())
    };
    let path = spec.env.iter().rev().find_map(changed).unwrap_or_else(|| env::var_os("PATH"));
    find_in(&spec.program, &path?, env::var_os("PATHEXT").as_deref())
}

/// The path of the program with this name.
pub fn find_program(name: &str) -> Option<PathBuf> {
    find_in(OsStr::new(name), &env::var_os("PATH")?, env::var_os("PATHEXT").as_deref())
}

fn find_in(name: &OsStr, path: &OsStr, extensions: Option<&OsStr>) -> Option<PathBuf> {
    let is_plain = Path::new(name).components().count() == 1 && Path::new(name).file_name() == Some(name);
    if !is_plain {
        return None;
    }
    let extensions = extensions_in(extensions);
    // An empty entry would mean the working directory. Programs are not searched there.
    let folders = env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.flat_map(|folder| candidates(&folder, name, &extensions)).find(|file| file.is_file())
}

fn extensions_in(list: Option<&OsStr>) -> Vec<String> {
    let Some(list) = list.and_then(OsStr::to_str) else { return EXTENSIONS.map(str::to_owned).to_vec() };
    let listed =
        list.split(';').map(|extension| extension.trim().trim_start_matches('.').to_ascii_lowercase());
    listed.filter(|extension| EXTENSIONS.contains(&extension.as_str())).collect()
}

/// A name that already has one of the extensions is also tried unchanged.
fn candidates(folder: &Path, name: &OsStr, extensions: &[String]) -> Vec<PathBuf> {
    let whole = folder.join(name);
    let ending = whole.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    let is_complete = ending.is_some_and(|ending| EXTENSIONS.contains(&ending.as_str()));
    let with_endings = extensions.iter().map(|extension| {
        let mut file = name.to_owned();
        file.push(".");
        file.push(extension);
        folder.join(file)
    });
    is_complete.then(|| whole.clone()).into_iter().chain(with_endings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_are_found_by_the_extensions_that_a_shell_tries() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (root.path().join("first"), root.path().join("second"));
        for (folder, names) in
            [(&first, vec!["claude", "claude.cmd", "a.js"]), (&second, vec!["claude.exe", "b.bat"])]
        {
            fs::create_dir(folder).unwrap();
            names.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        }
        let path = env::join_paths([&first, &second]).unwrap();
        let found = |name: &str, extensions: Option<&str>| {
            find_in(OsStr::new(name), &path, extensions.map(OsStr::new))
        };
        let usual = Some(".COM;.EXE;.BAT;.CMD;.VBS;.JS");
        assert_eq!(found("claude", usual), Some(first.join("claude.cmd")), "the first folder wins");
        assert_eq!(found("claude", Some(".EXE")), Some(second.join("claude.exe")));
        assert_eq!(found("claude.exe", usual), Some(second.join("claude.exe")));
        assert_eq!(found("b", None), Some(second.join("b.bat")));
        assert_eq!(found("a", usual), None, "a document is not a program");
        assert_eq!(found("c", usual), None);
        assert_eq!(found(r"first\claude", usual), None, "a path is used as it is");
    }
}
