//! Files on their way to other machines: the workflows of a run, the repository it was started in, and folders.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use raymond::git::Git;
use raymond::workflow::scope::{Scope, host_of};
use raymond_core::workflow::Platform;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::blobs::Blobs;
use crate::messages::Repository;

/// The most that the files of a run's workflows may be together.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// How long git may take to pack a repository.
const LONGEST_BUNDLE: Duration = Duration::from_secs(10 * 60);
/// Folders that are no part of a workflow.
const LEFT_OUT: [&str; 3] = [".git", ".raymond", "node_modules"];

/// Stores the workflows at these paths, with those that they extend. Returns the key of the blob.
pub async fn keep_workflows(blobs: &Blobs, workflows: &[PathBuf]) -> anyhow::Result<String> {
    let mut paths = Vec::new();
    for path in workflows {
        let scope = Scope::open(path, Platform::current()).map_err(|error| anyhow::anyhow!(error.message))?;
        paths.extend(scope.bases().map(|base| base.path().to_owned()));
        paths.push(scope.path().to_owned());
    }
    let mut pack = Pack::default();
    for path in &paths {
        // One that is inside an archive or a file comes with that.
        let path = host_of(path).unwrap_or(path);
        pack.add(path, &path.to_string_lossy())?;
    }
    if pack.bytes() > MOST_BYTES {
        bail!("the files of the workflows are more than {} MiB", MOST_BYTES >> 20);
    }
    let bytes = pack.finish()?;
    let key = format!("bundles/{}.zip", hash_of(&bytes));
    if !blobs.has(&key).await? {
        blobs.put(&key, bytes).await?;
    }
    Ok(key)
}

/// Stores the commit that a folder is at, if it is in a repository that has one.
pub async fn keep_repository(blobs: &Blobs, folder: &Path) -> anyhow::Result<Option<Repository>> {
    let git = Git::in_folder(folder);
    let Ok(top) = git.text(&["rev-parse", "--show-toplevel"]) else { return Ok(None) };
    // In a folder below the top, git would write the bundle to a file called `-`.
    let git = Git::in_folder(Path::new(&top));
    let Ok(commit) = git.text(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]) else {
        return Ok(None);
    };
    if git.text(&["rev-parse", "--is-shallow-repository"])? == "true" {
        bail!(
            "{top} is a shallow clone, and other machines need its whole history; `git fetch --unshallow` gets it"
        );
    }
    let blob = format!("repositories/{commit}.bundle");
    if !blobs.has(&blob).await? {
        // In a file, because what git says is limited.
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("repository");
        let git = git.patience(LONGEST_BUNDLE);
        git.text(&["bundle", "create", "--quiet", &file.to_string_lossy(), "HEAD"])?;
        blobs.put(&blob, fs::read(file)?).await?;
    }
    Ok(Some(Repository { top, commit, blob }))
}

/// The SHA-256 in hexadecimal digits.
pub fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Files that are packed together, by their names in the archive.
#[derive(Default)]
pub struct Pack(BTreeMap<String, Entry>);

enum Entry {
    File { path: PathBuf, bytes: u64 },
    Link { target: String },
    Folder,
}

impl Pack {
    /// Adds a file of a workflow, or all files below a folder, under this name. A workflow may lie in the folder of another
    /// one, so the same file may be added twice.
    pub fn add(&mut self, path: &Path, name: &str) -> anyhow::Result<()> {
        let about = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if about.is_file() {
            self.add_file(path, name, about.len());
        } else if about.is_dir() {
            for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
                let entry = entry?;
                let file_name = entry.file_name().to_string_lossy().into_owned();
                // A link could lead anywhere.
                if !LEFT_OUT.contains(&file_name.as_str()) && !entry.file_type()?.is_symlink() {
                    self.add(&entry.path(), &format!("{name}/{file_name}"))?;
                }
            }
        }
        Ok(())
    }

    pub fn add_file(&mut self, path: &Path, name: &str, bytes: u64) {
        self.insert(name, Entry::File { path: path.to_owned(), bytes });
    }

    pub fn add_link(&mut self, name: &str, target: &str) {
        self.insert(name, Entry::Link { target: target.to_owned() });
    }

    /// Adds a folder that is empty.
    pub fn add_folder(&mut self, name: &str) {
        self.insert(name, Entry::Folder);
    }

    fn insert(&mut self, name: &str, entry: Entry) {
        self.0.insert(name.trim_start_matches('/').to_owned(), entry);
    }

    /// Leaves out what has other names than these.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long the files are together.
    pub fn bytes(&self) -> u64 {
        let lengths = self.0.values().map(|entry| match entry {
            Entry::File { bytes, .. } => *bytes,
            Entry::Link { .. } | Entry::Folder => 0,
        });
        lengths.sum()
    }

    /// Files that were removed meanwhile are not in it.
    pub fn finish(self) -> anyhow::Result<Vec<u8>> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, entry) in &self.0 {
            match entry {
                Entry::File { path, .. } => {
                    add_to(&mut zip, name, path).with_context(|| format!("cannot read {}", path.display()))?
                }
                Entry::Link { target } => zip.add_symlink(name, target, SimpleFileOptions::default())?,
                Entry::Folder => zip.add_directory(name.as_str(), SimpleFileOptions::default())?,
            }
        }
        Ok(zip.finish()?.into_inner())
    }
}

fn add_to(zip: &mut ZipWriter<Cursor<Vec<u8>>>, name: &str, path: &Path) -> anyhow::Result<()> {
    let mut file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let options = SimpleFileOptions::default().unix_permissions(mode_of(&file.metadata()?));
    zip.start_file(name, options)?;
    Ok(zip.write_all(&content)?)
}

/// Unpacks files below a folder. Names that lead out of it are refused, also those that would do so through a link.
pub fn unpack(bytes: &[u8], folder: &Path) -> anyhow::Result<()> {
    let mut zip = ZipArchive::new(Cursor::new(bytes))?;
    let mut links = Vec::new();
    for at in 0..zip.len() {
        let mut file = zip.by_index(at)?;
        let written = file.name()?.into_owned();
        let name = Path::new(&written);
        // Only this platform's rules count: here a name may have a backslash or a colon.
        anyhow::ensure!(
            name.components().all(|part| matches!(part, Component::Normal(_))),
            "a name in the archive leads out of its folder"
        );
        refuse_link(folder, name)?;
        let path = folder.join(name);
        if written.ends_with('/') {
            fs::create_dir_all(&path)?;
            continue;
        }
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        if file.is_symlink() {
            links.push((path, String::from_utf8(content)?));
            continue;
        }
        fs::write(&path, content)?;
        if let Some(mode) = file.unix_mode() {
            set_mode(&path, mode)?;
        }
    }
    // They come last, so that nothing is written through them. If there is something below a link, its folder is there.
    for (path, target) in links {
        make_link(&target, &path).with_context(|| format!("cannot make the link {}", path.display()))?;
    }
    Ok(())
}

/// Refuses a name if it, or a folder that it is in, is a link.
fn refuse_link(folder: &Path, name: &Path) -> anyhow::Result<()> {
    let is_link = |name: &&Path| folder.join(name).symlink_metadata().is_ok_and(|found| found.is_symlink());
    match name.ancestors().filter(|name| !name.as_os_str().is_empty()).find(is_link) {
        Some(link) => {
            bail!("{} in the archive would lead through the link {}", name.display(), link.display())
        }
        None => Ok(()),
    }
}

#[cfg(unix)]
fn make_link(target: &str, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn make_link(_: &str, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(unix)]
fn mode_of(about: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    about.permissions().mode() & 0o777
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o777))
}

#[cfg(not(unix))]
fn mode_of(_: &fs::Metadata) -> u32 {
    0o644
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_comes_back_without_what_is_left_out() {
        let from = tempfile::tempdir().unwrap();
        fs::create_dir_all(from.path().join("a/.git")).unwrap();
        fs::write(from.path().join("a/START.sh"), "echo").unwrap();
        fs::write(from.path().join("a/.git/HEAD"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.path().join("a/link")).unwrap();
        set_mode(&from.path().join("a/START.sh"), 0o750).unwrap();
        let mut pack = Pack::default();
        pack.add(&from.path().join("a"), "/home/me/a").unwrap();
        let bytes = pack.finish().unwrap();
        let to = tempfile::tempdir().unwrap();
        unpack(&bytes, to.path()).unwrap();
        let folder = to.path().join("home/me/a");
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["START.sh"]);
        assert_eq!(mode_of(&fs::metadata(folder.join("START.sh")).unwrap()), 0o750);
    }

    /// The key is made of the content, so that what has not changed is not stored again.
    #[tokio::test]
    async fn workflows_are_stored_once_and_with_those_inside_them() {
        let from = tempfile::tempdir().unwrap();
        let (outer, inner) = (from.path().join("wf"), from.path().join("wf/inner"));
        fs::create_dir_all(&inner).unwrap();
        fs::write(outer.join("START.sh"), "echo").unwrap();
        fs::write(inner.join("START.sh"), "echo inner").unwrap();
        let store = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(Some(&format!("file://{}", store.path().display()))).unwrap();
        let both = [outer.clone(), inner];
        let key = keep_workflows(&blobs, &both).await.unwrap();
        let stored = || fs::metadata(store.path().join(&key)).unwrap().modified().unwrap();
        let first = stored();
        assert_eq!(keep_workflows(&blobs, &both).await.unwrap(), key);
        assert_eq!(stored(), first);
        fs::write(outer.join("START.sh"), "echo again").unwrap();
        assert_ne!(keep_workflows(&blobs, &both).await.unwrap(), key);
    }

    #[tokio::test]
    async fn a_workflow_inside_a_file_is_stored_with_that_file() {
        let from = tempfile::tempdir().unwrap();
        let file = from.path().join("packed.zip");
        let mut zip = ZipWriter::new(fs::File::create(&file).unwrap());
        for (name, text) in [
            ("workflow.yaml", "extends: ../base\n"),
            ("START.sh", "echo"),
            ("_bundle/home", "wf"),
            ("_bundle/base/START.sh", "echo base"),
        ] {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        let blobs = Blobs::open(Some("memory:///")).unwrap();
        let key = keep_workflows(&blobs, std::slice::from_ref(&file)).await.unwrap();
        let to = tempfile::tempdir().unwrap();
        unpack(&blobs.get(&key).await.unwrap().unwrap(), to.path()).unwrap();
        let copy = to.path().join(file.strip_prefix("/").unwrap());
        assert_eq!(fs::read(copy).unwrap(), fs::read(file).unwrap());
    }

    #[test]
    fn links_and_empty_folders_come_back() {
        let from = tempfile::tempdir().unwrap();
        fs::write(from.path().join("f"), "content").unwrap();
        let mut pack = Pack::default();
        pack.add_file(&from.path().join("f"), "/a/f", 7);
        pack.add_link("/a/b", "f");
        pack.add_link("/a/c", "/no/such/file");
        pack.add_folder("/a/empty");
        pack.add_file(&from.path().join("removed meanwhile"), "/a/g", 1);
        let strange = ["c:x", "C:\\tmp\\y", "a\\x2db", "end\\", "new\nline"];
        strange.iter().for_each(|name| pack.add_file(&from.path().join("f"), &format!("/a/{name}"), 7));
        let bytes = pack.finish().unwrap();
        let to = tempfile::tempdir().unwrap();
        unpack(&bytes, to.path()).unwrap();
        assert_eq!(fs::read_to_string(to.path().join("a/b")).unwrap(), "content");
        assert_eq!(fs::read_link(to.path().join("a/c")).unwrap(), Path::new("/no/such/file"));
        assert!(to.path().join("a/empty").is_dir());
        assert!(!to.path().join("a/g").exists());
        for name in strange {
            assert_eq!(fs::read_to_string(to.path().join("a").join(name)).unwrap(), "content", "{name:?}");
        }
        // Everything is there already.
        assert!(unpack(&bytes, to.path()).is_err());
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let (from, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(from.path().join("f"), "content").unwrap();
        let target = outside.path().to_str().unwrap();
        let mut pack = Pack::default();
        pack.add_link("a", target);
        pack.add_file(&from.path().join("f"), "a/f", 7);
        let to = tempfile::tempdir().unwrap();
        assert!(unpack(&pack.finish().unwrap(), to.path()).is_err());

        for name in ["b/f", "b"] {
            let mut pack = Pack::default();
            pack.add_file(&from.path().join("f"), name, 7);
            let to = tempfile::tempdir().unwrap();
            make_link(target, &to.path().join("b")).unwrap();
            let error = unpack(&pack.finish().unwrap(), to.path()).unwrap_err();
            assert_eq!(error.to_string(), format!("{name} in the archive would lead through the link b"));
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_that_leads_out_is_refused() {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("../out", SimpleFileOptions::default()).unwrap();
        let bytes = zip.finish().unwrap().into_inner();
        let to = tempfile::tempdir().unwrap();
        assert!(unpack(&bytes, &to.path().join("inner")).is_err());
        assert!(!to.path().join("out").exists());
    }
}
