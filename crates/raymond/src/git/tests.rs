#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::adding::add_all;
use super::repository::Repository;
use super::snapshots::Snapshots;
use super::{Git, GitError};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn init(folder: &Path) -> Git {
    fs::create_dir_all(folder).unwrap();
    Git::in_no_repository(folder).text(&["init", "--quiet", "-b", "master"]).unwrap();
    Git::in_folder(folder)
}

fn commit(git: &Git, message: &str) {
    git.text(&["add", "--all"]).unwrap();
    let author = ["-c", "user.name=n", "-c", "user.email=e"];
    git.text(&[&author[..], &["commit", "--quiet", "-m", message]].concat()).unwrap();
}

/// The tree that is in an index of its own after this.
fn tree(git: &Git, index: &Path, add: impl FnOnce(&Git)) -> String {
    let git = git.clone().variable("GIT_INDEX_FILE", index);
    fs::copy(git.repository().unwrap().own.join("index"), index).unwrap();
    add(&git);
    git.text(&["write-tree"]).unwrap()
}

/// A change, with what it does to the folder `top`.
type Change = (&'static str, fn(&Folder));

const CHANGES: [Change; 10] = [
    ("nothing", |_| {}),
    ("content", |folder| folder.put("top/f", "two\n")),
    ("mode", |folder| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder.path("top/f"), fs::Permissions::from_mode(0o755)).unwrap();
    }),
    ("new files", |folder| {
        folder.put("top/new/a b\n\"c", "1\n");
        folder.put("top/ignored", "1\n");
    }),
    ("deleted", |folder| fs::remove_dir_all(folder.path("top/d")).unwrap()),
    ("file for a folder", |folder| {
        fs::remove_dir_all(folder.path("top/d")).unwrap();
        folder.put("top/d", "1\n");
    }),
    ("folder for a file", |folder| {
        fs::remove_file(folder.path("top/f")).unwrap();
        folder.put("top/f/g", "1\n");
    }),
    ("link for a folder", |folder| {
        fs::rename(folder.path("top/d"), folder.path("other")).unwrap();
        folder.put("other/x", "changed\n");
        std::os::unix::fs::symlink("../other", folder.path("top/d")).unwrap();
    }),
    ("pipe", |folder| {
        let made = std::process::Command::new("mkfifo").arg(folder.path("top/pipe")).status();
        assert!(made.unwrap().success());
    }),
    ("other repositories", |folder| {
        let git = init(&folder.path("top/inside"));
        init(&folder.path("top/empty"));
        folder.put("top/inside/h", "1\n");
        commit(&git, "one");
        folder.put("top/inside/h", "2\n");
    }),
];

#[test]
fn the_index_is_as_git_add_would_leave_it() {
    for (what, change) in CHANGES {
        let folder = Folder::new();
        let git = init(&folder.path("top"));
        folder.put("top/f", "one\n");
        folder.put("top/d/x", "one\n");
        folder.put("top/d/y/z", "one\n");
        folder.put("top/.gitignore", "/ignored\n");
        commit(&git, "one");
        change(&folder);
        let by_git = tree(&git, &folder.path("by-git"), |git| {
            let _ = git.text(&["add", "--all", "--ignore-errors", "--", ":/"]);
        });
        let mine = tree(&git, &folder.path("mine"), |git| {
            add_all(git, &folder.path("top"), None, true).unwrap();
            assert!(!add_all(git, &folder.path("top"), None, false).unwrap(), "{what}: it is up to date");
        });
        assert_eq!(mine, by_git, "{what}");
    }
}

/// What the machines of a fleet do with the repositories that they make.
#[test]
fn a_repository_that_is_made_from_a_bundle_can_be_worked_in() {
    let folder = Folder::new();
    let (top, shared) = (folder.path("top"), folder.path("shared"));
    let git = init(&top);
    folder.put("top/f", "one\n");
    commit(&git, "one");
    let bundle = folder.path("bundle").to_string_lossy().into_owned();
    git.text(&["bundle", "create", "--quiet", &bundle, "HEAD"]).unwrap();
    fs::create_dir_all(&shared).unwrap();
    Git::in_no_repository(&shared).text(&["init", "--quiet", "--bare"]).unwrap();
    let bare = Git::of_repository(&shared);
    bare.text(&["fetch", "--quiet", &bundle, "HEAD:refs/heads/started"]).unwrap();
    let clone = folder.path("clone");
    fs::create_dir_all(&clone).unwrap();
    let of_shared = ["clone", "--quiet", "--shared", "--no-checkout", &shared.to_string_lossy(), "."];
    Git::in_no_repository(&clone).text(&of_shared).unwrap();
    let git = Git::in_folder(&clone);
    git.text(&["checkout", "--quiet", "--detach", "refs/remotes/origin/started"]).unwrap();
    assert_eq!(fs::read_to_string(clone.join("f")).unwrap(), "one\n");
    let worktree = folder.path("worktree");
    git.text(&["worktree", "add", "--quiet", "-b", "new", &worktree.to_string_lossy()]).unwrap();
    assert_eq!(fs::read_to_string(worktree.join("f")).unwrap(), "one\n");
    let here = Repository::around(&worktree).unwrap();
    assert_eq!((&here.top, &here.common), (&worktree, &clone.join(".git")));
    let snapshots = Snapshots::new("r", folder.path("indexes"), folder.path("own"), None, &BTreeMap::new());
    fs::write(worktree.join("f"), "two\n").unwrap();
    let tree = snapshots.tree_of(&worktree).unwrap();
    assert_eq!(git.text(&["show", &format!("{tree}:f")]).unwrap(), "two");
}

#[test]
fn nothing_is_left_of_what_stands_in_for_a_repository() {
    let folder = Folder::new();
    let git = init(&folder.path("top"));
    let call = git.call(&["status"]).unwrap();
    let stand_in = call.variables.iter().find(|(name, _)| name == "GIT_COMMON_DIR");
    let stand_in = PathBuf::from(stand_in.unwrap().1.clone().unwrap());
    assert!(stand_in.join("config").is_file());
    drop(call);
    assert!(!stand_in.exists());
    assert!(folder.path("top/.git/objects").is_dir(), "what it led to is still there");
}

#[test]
fn a_folder_that_leads_nowhere_is_no_repository() {
    let folder = Folder::new();
    init(&folder.path("top"));
    folder.put("top/sub/.git", "gitdir: /nowhere\n");
    let found = Repository::around(&folder.path("top/sub"));
    assert!(matches!(found, Err(GitError::Failed { .. })), "{found:?}");
    let of_run = Repository::of_run(&folder.path("top/sub"), Some(&folder.path("top"))).unwrap();
    assert_eq!((of_run.repository.top, of_run.nested), (folder.path("top"), None));
}
