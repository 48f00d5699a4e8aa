//! A git repository and the folders with its files, in memory.
//!
//! A file has a number as its content, and each that somebody has written has another one. Nothing here is a point: the
//! caller says where somebody can be killed.

use std::collections::{BTreeMap, BTreeSet};

/// The content of a file.
pub type Piece = u32;
pub type Files = BTreeMap<&'static str, Piece>;
/// The number of a commit.
pub type Commit = usize;

/// Files that the first commit has. Git was told not to look at the last one.
pub const TRACKED: [&str; 2] = ["tracked", HIDDEN];
pub const HIDDEN: &str = "hidden";
/// A file that it does not have.
pub const NEW: &str = "new";
/// A file that git ignores while the file `.gitignore` says so.
pub const IGNORED: &str = "ignored";
pub const RULES: &str = ".gitignore";
/// The contents of that file.
pub const IGNORES: Piece = 1;
pub const IGNORES_NOTHING: Piece = 2;
/// What the first commit has in its files.
const FIRST: Piece = 3;
/// From this content on, it is somebody's work.
pub const FIRST_WORK: Piece = 10;

/// The folder of the project, which has no single owner.
pub const PROJECT: &str = "/p";
/// The folder in which git keeps the repository.
pub const REPOSITORY: &str = "/p/.git";
/// The names of the locks that git takes for a commit.
pub const LOCKS: [&str; 3] = ["index.lock", "HEAD.lock", "MERGE_MSG.lock"];

#[derive(Clone, Debug)]
pub struct Stored {
    pub parent: Option<Commit>,
    pub files: Files,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    Branch(String),
    Detached(Commit),
}

/// A worktree, or the folder of the project.
#[derive(Clone, Debug)]
pub struct Folder {
    pub head: Head,
    pub files: Files,
    /// For which event of which run it is being made.
    pub made_for: Option<(String, u64)>,
    /// The run that it was made for, as Raymond has noted it.
    pub noted: Option<String>,
    /// What a killed git has left.
    pub lock: Option<&'static str>,
    /// The run that it belongs to. Only the monitor reads this.
    pub owner: Option<String>,
}

/// A point in the past of a ref: the time, and the commit it was at from then on.
type Past = Vec<(i64, Commit)>;

#[derive(Clone, Debug)]
pub struct Ground {
    pub commits: Vec<Stored>,
    pub refs: BTreeMap<String, Commit>,
    pub pasts: BTreeMap<String, Past>,
    pub folders: BTreeMap<String, Folder>,
    /// The folders of worktrees that are whole, as their marks say.
    pub marks: BTreeSet<String>,
    /// What agents keep outside of the repository, by run.
    pub task_folders: BTreeMap<String, Piece>,
    /// Files beside the runs that Raymond has not made.
    pub foreign: BTreeSet<Piece>,
}

impl Ground {
    pub fn new() -> Self {
        let mut files: Files = TRACKED.into_iter().map(|name| (name, FIRST)).collect();
        files.insert(RULES, IGNORES);
        let project = Folder {
            head: Head::Branch("main".to_owned()),
            files: files.clone(),
            made_for: None,
            noted: None,
            lock: None,
            owner: None,
        };
        let mut ground = Self {
            commits: vec![Stored { parent: None, files }],
            refs: BTreeMap::new(),
            pasts: BTreeMap::new(),
            folders: BTreeMap::from([(PROJECT.to_owned(), project)]),
            marks: BTreeSet::new(),
            task_folders: BTreeMap::new(),
            foreign: BTreeSet::new(),
        };
        ground.set_ref(&head_ref("main"), 0, 0);
        ground
    }

    pub fn set_ref(&mut self, name: &str, commit: Commit, time: i64) {
        self.refs.insert(name.to_owned(), commit);
        self.pasts.entry(name.to_owned()).or_default().push((time, commit));
    }

    pub fn delete_ref(&mut self, name: &str) {
        self.refs.remove(name);
        self.pasts.remove(name);
    }

    pub fn rename_branch(&mut self, from: &str, to: &str) {
        let (old, new) = (head_ref(from), head_ref(to));
        if let Some(commit) = self.refs.remove(&old) {
            self.refs.insert(new.clone(), commit);
        }
        if let Some(past) = self.pasts.remove(&old) {
            self.pasts.insert(new, past);
        }
        for folder in self.folders.values_mut().filter(|folder| folder.head == Head::Branch(from.to_owned()))
        {
            folder.head = Head::Branch(to.to_owned());
        }
    }

    pub fn branch(&self, name: &str) -> Option<Commit> {
        self.refs.get(&head_ref(name)).copied()
    }

    pub fn head_of(&self, folder: &Folder) -> Commit {
        match &folder.head {
            Head::Detached(commit) => *commit,
            Head::Branch(name) => self.branch(name).unwrap_or(0),
        }
    }

    pub fn commit(&mut self, parent: Option<Commit>, files: Files) -> Commit {
        self.commits.push(Stored { parent, files });
        self.commits.len() - 1
    }

    /// Whether git ignores a file of a folder: an ignored file that was committed is like any other.
    pub fn ignores(&self, folder: &Folder, name: &str) -> bool {
        let is_tracked = self.commits[self.head_of(folder)].files.contains_key(name);
        name == IGNORED && folder.files.get(RULES) == Some(&IGNORES) && !is_tracked
    }

    /// The files of a folder that git does not ignore. With `sees_hidden`, also those that it was told not to look at.
    pub fn files_of(&self, path: &str, sees_hidden: bool) -> Files {
        let Some(folder) = self.folders.get(path) else { return Files::new() };
        let is_seen = |name: &&&'static str| !self.ignores(folder, name);
        let mut files: Files =
            folder.files.keys().filter(is_seen).map(|name| (*name, folder.files[name])).collect();
        if !sees_hidden {
            let committed = self.commits[self.head_of(folder)].files.get(HIDDEN).copied();
            match committed {
                Some(committed) => files.insert(HIDDEN, committed),
                None => files.remove(HIDDEN),
            };
        }
        files
    }

    /// Whether one of the refs whose names begin like this has a commit.
    pub fn is_on_ref(&self, commit: Commit, below: &str) -> bool {
        let tips = self.refs.iter().filter(|(name, _)| name.starts_with(below));
        tips.into_iter().any(|(_, tip)| self.chain(*tip).any(|other| other == commit))
    }

    /// A commit and those before it.
    pub fn chain(&self, tip: Commit) -> impl Iterator<Item = Commit> {
        std::iter::successors(Some(tip), |commit| self.commits[*commit].parent)
    }

    /// All contents that are somewhere.
    pub fn present(&self) -> BTreeSet<Piece> {
        let mut seen = vec![false; self.commits.len()];
        let heads = self.folders.values().map(|folder| self.head_of(folder));
        for tip in self.refs.values().copied().chain(heads) {
            for commit in self.chain(tip) {
                if std::mem::replace(&mut seen[commit], true) {
                    break;
                }
            }
        }
        let commits = self.commits.iter().zip(&seen).filter(|(_, seen)| **seen);
        let mut present: BTreeSet<Piece> = self.foreign.clone();
        present.extend(commits.flat_map(|(commit, _)| commit.files.values()));
        present.extend(self.folders.values().flat_map(|folder| folder.files.values()));
        present.extend(self.task_folders.values());
        present
    }
}

impl Default for Ground {
    fn default() -> Self {
        Self::new()
    }
}

pub fn head_ref(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// The name of a commit as the journal has it.
pub fn name_of(commit: Commit) -> String {
    format!("{commit:040x}")
}

pub fn number_of(name: &str) -> Commit {
    usize::from_str_radix(name, 16).unwrap_or(0)
}
