//! Finding a program on the search path.
//!
//! The system looks for `.exe` files only. Many programs come as a small script instead (`npm` makes a `claude.cmd`),
//! which a terminal finds by `PATHEXT`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::Launch;

/// What a program's name may end with, in this order, where `PATHEXT` says so or says nothing. Other kinds in it are
/// documents that need a program of their own.
const KINDS: [&str; 4] = ["com", "exe", "bat", "cmd"];

/// Where the program of a launch lies; none for one that is given by its path, or that is not found.
pub(super) fn find(launch: &Launch) -> Option<PathBuf> {
    let changed = |(name, value): &(OsString, Option<OsString>)| {
        name.eq_ignore_ascii_case("PATH").then(|| value.clone())
    };
    let path = launch.env.iter().rev().find_map(changed).unwrap_or_else(|| env::var_os("PATH"));
    find_in(&launch.program, &path?, env::var_os("PATHEXT").as_deref())
}

/// Where a program lies that is known by its name.
pub fn find_program(name: &str) -> Option<PathBuf> {
    find_in(OsStr::new(name), &env::var_os("PATH")?, env::var_os("PATHEXT").as_deref())
}

fn find_in(name: &OsStr, path: &OsStr, kinds: Option<&OsStr>) -> Option<PathBuf> {
    let is_plain = Path::new(name).components().count() == 1 && Path::new(name).file_name() == Some(name);
    if !is_plain {
        return None;
    }
    let kinds = kinds_of(kinds);
    // An empty entry would be the working directory, where nobody expects programs to be found.
    let folders = env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.flat_map(|folder| candidates(&folder, name, &kinds)).find(|file| file.is_file())
}

fn kinds_of(list: Option<&OsStr>) -> Vec<String> {
    let Some(list) = list.and_then(OsStr::to_str) else { return KINDS.map(str::to_owned).to_vec() };
    let listed = list.split(';').map(|kind| kind.trim().trim_start_matches('.').to_ascii_lowercase());
    listed.filter(|kind| KINDS.contains(&kind.as_str())).collect()
}

/// A name that has one of the endings is also tried as it is.
fn candidates(folder: &Path, name: &OsStr, kinds: &[String]) -> Vec<PathBuf> {
    let whole = folder.join(name);
    let ending = whole.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    let is_complete = ending.is_some_and(|ending| KINDS.contains(&ending.as_str()));
    let with_endings = kinds.iter().map(|kind| {
        let mut file = name.to_owned();
        file.push(".");
        file.push(kind);
        folder.join(file)
    });
    is_complete.then(|| whole.clone()).into_iter().chain(with_endings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_are_found_by_the_endings_that_a_terminal_tries() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (root.path().join("first"), root.path().join("second"));
        for (folder, names) in
            [(&first, vec!["claude", "claude.cmd", "a.js"]), (&second, vec!["claude.exe", "b.bat"])]
        {
            fs::create_dir(folder).unwrap();
            names.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        }
        let path = env::join_paths([&first, &second]).unwrap();
        let found = |name: &str, kinds: Option<&str>| find_in(OsStr::new(name), &path, kinds.map(OsStr::new));
        let usual = Some(".COM;.EXE;.BAT;.CMD;.VBS;.JS");
        assert_eq!(found("claude", usual), Some(first.join("claude.cmd")), "the first folder wins");
        assert_eq!(found("claude", Some(".EXE")), Some(second.join("claude.exe")));
        assert_eq!(found("claude.exe", usual), Some(second.join("claude.exe")));
        assert_eq!(found("b", None), Some(second.join("b.bat")));
        assert_eq!(found("a", usual), None, "a document is no program");
        assert_eq!(found("c", usual), None);
        assert_eq!(found(r"first\claude", usual), None, "a path is used as it is");
    }
}
