//! A disk in memory on which every call is a point where a fault can happen.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use raymond::store::folder::{Disk, DiskFile};

use crate::fault::{Down, Kind, Site, Tape, gone};
use crate::files::{Change, Files, Inode, names_in};

#[derive(Debug)]
struct Machine {
    files: Files,
    tape: Tape,
}

/// The disk as the running Raymond sees it.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Mutex<Machine>>);

impl SimDisk {
    pub fn new(tape: Tape) -> Self {
        Self(Arc::new(Mutex::new(Machine { files: Files::default(), tape })))
    }

    /// Reads the files for the simulation, without a point.
    pub fn files<T>(&self, look: impl FnOnce(&Files) -> T) -> T {
        look(&self.machine().files)
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn tape<T>(&self, look: impl FnOnce(&mut Tape) -> T) -> T {
        look(&mut self.machine().tape)
    }

    pub fn log(&self, line: impl FnOnce() -> String) {
        self.tape(|tape| tape.note(line));
    }

    /// Another disk with the same content and without faults.
    pub fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(Machine { files: self.machine().files.clone(), tape: Tape::default() })))
    }

    /// The machine starts again.
    pub fn restart(&self) {
        let mut machine = self.machine();
        if let Some(Down::PowerCut(what_stays)) = machine.tape.down.take() {
            machine.files.power_cut(what_stays);
        }
    }

    /// Everything that was written becomes durable.
    pub fn settle(&self) {
        self.machine().files.power_cut(1);
    }

    /// A person tidies up.
    pub fn delete(&self, path: &Path) {
        let mut machine = self.machine();
        machine.files.change(Change::Remove(path.to_owned()));
        machine.files.sync_names(path.parent().unwrap_or(path));
    }

    /// A call that is a point.
    fn call<T>(
        &self,
        site: Site,
        path: &Path,
        act: impl FnOnce(&mut Files) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut machine = self.machine();
        let Machine { files, tape } = &mut *machine;
        if tape.down.is_some() {
            return Err(gone());
        }
        match tape.pass(site, || name_of(path)) {
            Some(Kind::Kill) => {
                tape.go_down(Down::Killed);
                Err(gone())
            }
            Some(Kind::KillAfter) => {
                tape.go_down(Down::Killed);
                act(files).and(Err(gone()))
            }
            Some(Kind::Power(what_stays)) => {
                tape.go_down(Down::PowerCut(what_stays));
                // It is also unknown what a sync or truncation in progress did; here it did nothing.
                if site == Site::Sync || site == Site::SyncDir {
                    Err(gone())
                } else {
                    act(files).and(Err(gone()))
                }
            }
            Some(Kind::Refuse(refusal)) => Err(refusal.error()),
            _ => act(files),
        }
    }

    fn write(&self, inode: usize, path: &Path, bytes: &[u8]) -> io::Result<usize> {
        let mut machine = self.machine();
        let Machine { files, tape } = &mut *machine;
        if tape.down.is_some() {
            return Err(gone());
        }
        let file = &mut files.inodes[inode].now;
        let kind = tape.pass(Site::Write, || format!("{} {} bytes", name_of(path), bytes.len()));
        let (done, down) = match kind {
            Some(Kind::Kill) => (0, Some(Down::Killed)),
            Some(Kind::KillWithin(share)) => (part(bytes, share), Some(Down::Killed)),
            Some(Kind::KillAfter) => (bytes.len(), Some(Down::Killed)),
            Some(Kind::Power(what_stays)) => (bytes.len(), Some(Down::PowerCut(what_stays))),
            Some(Kind::Refuse(refusal)) => {
                file.extend_from_slice(&bytes[..part(bytes, 100)]);
                return Err(refusal.error());
            }
            _ => (bytes.len(), None),
        };
        file.extend_from_slice(&bytes[..done]);
        match down {
            Some(down) => {
                tape.go_down(down);
                Err(gone())
            }
            None => Ok(done),
        }
    }
}

fn part(bytes: &[u8], share: u8) -> usize {
    if share == u8::MAX { bytes.len().saturating_sub(1) } else { bytes.len() * usize::from(share) / 256 }
}

fn name_of(path: &Path) -> String {
    let name: String = path.file_name().unwrap_or_default().to_string_lossy().chars().take(24).collect();
    name
}

/// An open file.
#[derive(Debug)]
pub struct Handle {
    pub disk: SimDisk,
    pub path: PathBuf,
    pub inode: usize,
    pub position: usize,
    pub sees_safe: bool,
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let machine = self.disk.machine();
        let inode = &machine.files.inodes[self.inode];
        let content = if self.sees_safe { &inode.safe } else { &inode.now };
        let rest = content.get(self.position..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.position += count;
        Ok(count)
    }
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.write(self.inode, &self.path, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for Handle {
    fn sync_data(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.disk.call(Site::Sync, &self.path, |files| {
            let inode = &mut files.inodes[self.inode];
            inode.safe = inode.now.clone();
            Ok(())
        })
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk.call(Site::Cut, &self.path, |files| {
            files.inodes[self.inode].now.truncate(bytes as usize);
            Ok(())
        })
    }
}

impl SimDisk {
    fn handle(&self, path: &Path, inode: usize, position: usize) -> Box<dyn DiskFile> {
        Box::new(Handle { disk: self.clone(), path: path.to_owned(), inode, position, sees_safe: false })
    }
}

impl Disk for SimDisk {
    fn create(&self, path: &Path, _read_only: bool) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.call(Site::Create, path, |files| {
            if files.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            files.inodes.push(Inode::default());
            files.change(Change::Name(path.to_owned(), files.inodes.len() - 1));
            Ok(files.inodes.len() - 1)
        })?;
        Ok(self.handle(path, inode, 0))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.machine().files.find(path)?;
        Ok(self.handle(path, inode, 0))
    }

    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.call(Site::Read, path, |files| files.find(path))?;
        Ok(self.handle(path, inode, offset as usize))
    }

    fn length(&self, path: &Path) -> Option<u64> {
        let files = &self.machine().files;
        files.find(path).ok().map(|inode| files.inodes[inode].now.len() as u64)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        Ok(names_in(&self.machine().files.names, dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Site::Rename, to, |files| {
            let inode = files.find(from)?;
            files.change(Change::Rename(from.to_owned(), to.to_owned(), inode));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.machine().files.find(path).is_err() {
            return Ok(());
        }
        self.call(Site::Remove, path, |files| {
            files.change(Change::Remove(path.to_owned()));
            Ok(())
        })
    }

    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call(Site::SyncDir, dir, |files| {
            files.sync_names(dir);
            Ok(())
        })
    }
}
