//! Removes what runs have left below `--work` when it is not needed any more.
//!
//! What an agent left is in the store of blobs, so its folder can go when it was not used for long: its next step has it made
//! again. What was not kept there stays for as long as the run may go on, and so do the records of attempts: the server may
//! deliver an attempt again, and one that has ended must not be begun again. What is shared goes when no run uses it.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use temporalio_client::errors::WorkflowInteractionError;
use temporalio_client::{Client, RpcOptions, WorkflowDescribeOptions, WorkflowExecutionStatus};

use super::files::{BUNDLES, OLD, REPOSITORIES, RUNS, UNKEPT, USES};
use super::records::{RECORDS, has_ended as is_record_of_end};
use super::steps::Steps;
use super::trash::Trash;
use crate::workflow::RaymondRun;

/// How often a machine looks for what is not needed any more.
const TIDY_EVERY: Duration = Duration::from_secs(3600);
/// How long the folders of a run stay that has ended. People may want to look at them.
const KEPT_AFTER_END: Duration = Duration::from_secs(3600);
/// How long the server may take to say whether a run has ended.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);
/// What the copies of workflows begin with that are made to read states again. They are gone after a moment unless the
/// worker was killed.
pub(super) const READING: &str = "reading-";

/// What the server says about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Open,
    /// It can never go on.
    Ended,
    /// The server does not know it, perhaps any more. Or the worker was started for another server.
    Unknown,
    NoAnswer,
}

/// What goes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    Nothing,
    /// The folders of agents.
    Folders,
    All,
}

impl Removal {
    /// `unused` is how long no step has used the run here, and `keep` how long what may still be needed stays.
    fn of(standing: Standing, unused: Duration, keep: Option<Duration>) -> Self {
        let is_old = keep.is_some_and(|keep| unused >= keep);
        match standing {
            Standing::Ended if unused >= KEPT_AFTER_END => Self::All,
            Standing::Unknown if is_old => Self::All,
            Standing::Open if is_old => Self::Folders,
            _ => Self::Nothing,
        }
    }
}

/// Tidies up again and again.
pub struct Tidying {
    pub steps: Rc<Steps>,
    pub client: Client,
    pub work: PathBuf,
    /// How long the folders of a run stay that no step has used. Without it they stay until the run has ended.
    pub keep: Option<Duration>,
}

impl Tidying {
    pub async fn go_on(self) {
        let shelf = Shelf(self.work.clone());
        loop {
            // What cannot be removed now is tried again the next time.
            if let Err(error) = self.tidy(&shelf).await {
                eprintln!("raymond: not all could be removed that is not needed any more: {error}");
            }
            tokio::time::sleep(TIDY_EVERY).await;
        }
    }

    async fn tidy(&self, shelf: &Shelf) -> io::Result<()> {
        for run in names_in(&shelf.0.join(RUNS))? {
            if let Err(error) = self.tidy_run(shelf, &run).await {
                eprintln!("raymond: {run}: its files could not be removed: {error}");
            }
        }
        let unused = shelf.remove_unused();
        let trash = Trash::below(&shelf.0);
        tokio::task::spawn_blocking(move || trash.empty()).await?.and(unused)
    }

    async fn tidy_run(&self, shelf: &Shelf, run: &str) -> io::Result<()> {
        let unused = shelf.unused(run)?;
        if unused < KEPT_AFTER_END {
            return Ok(());
        }
        let removal = Removal::of(self.standing(run).await, unused, self.keep);
        let records = shelf.0.join(RUNS).join(run).join(RECORDS);
        // There may be very many of them.
        let is_needed = removal == Removal::Folders
            && tokio::task::spawn_blocking(move || has_unended(&records)).await??;
        // From here on nothing waits, so no step of the run can begin meanwhile. One may have begun before, or even ended.
        let may_go = removal != Removal::Nothing && !is_needed && self.steps.lets_go(run);
        match may_go && shelf.unused(run)? >= unused {
            true => shelf.remove(run, removal),
            false => Ok(()),
        }
    }

    async fn standing(&self, run: &str) -> Standing {
        let rpc = RpcOptions::builder().timeout(LONGEST_ANSWER).build();
        let options = WorkflowDescribeOptions::builder().rpc_options(rpc).build();
        let handle = self.client.get_workflow_handle::<RaymondRun>(run);
        match tokio::time::timeout(LONGEST_ANSWER, handle.describe(options)).await {
            Ok(Ok(found)) if has_ended(found.status()) => Standing::Ended,
            Ok(Ok(_)) => Standing::Open,
            Ok(Err(WorkflowInteractionError::NotFound(_))) => Standing::Unknown,
            Ok(Err(_)) | Err(_) => Standing::NoAnswer,
        }
    }
}

fn has_ended(status: WorkflowExecutionStatus) -> bool {
    use WorkflowExecutionStatus::{Canceled, Completed, Failed, Terminated, TimedOut};
    matches!(status, Completed | Failed | Canceled | Terminated | TimedOut)
}

/// The folder `--work`.
struct Shelf(PathBuf);

impl Shelf {
    /// How long ago the last attempt of a run was begun or ended here.
    fn unused(&self, run: &str) -> io::Result<Duration> {
        let folder = self.0.join(RUNS).join(run);
        let records = folder.join(RECORDS);
        let records: Vec<PathBuf> = match records.exists() {
            true => {
                names_in(&records)?.iter().map(|name| records.join(name)).chain([records.clone()]).collect()
            }
            false => vec![folder],
        };
        let mut last = SystemTime::UNIX_EPOCH;
        for path in records {
            last = last.max(fs::metadata(path)?.modified()?);
        }
        Ok(last.elapsed().unwrap_or_default())
    }

    fn remove(&self, run: &str, removal: Removal) -> io::Result<()> {
        let folder = self.0.join(RUNS).join(run);
        match removal {
            Removal::Nothing => Ok(()),
            Removal::All => self.discard(&folder),
            Removal::Folders => self.remove_folders(&folder),
        }
    }

    /// Removes all of a run but its records and what was not kept for other machines.
    fn remove_folders(&self, folder: &Path) -> io::Result<()> {
        let mut is_used = false;
        for name in names_in(folder)? {
            if [RECORDS, UNKEPT, OLD, USES].contains(&name.as_str()) {
                continue;
            }
            if folder.join(UNKEPT).join(&name).exists() {
                is_used = true;
                continue;
            }
            self.discard(&folder.join(name))?;
        }
        if !is_used && folder.join(USES).exists() {
            self.discard(&folder.join(USES))?;
        }
        Ok(())
    }

    /// Removes what runs share when none uses it, and what was left of reading states.
    fn remove_unused(&self) -> io::Result<()> {
        let mut runs = Vec::new();
        for run in names_in(&self.0.join(RUNS))? {
            let folder = self.0.join(RUNS).join(run);
            // An earlier version has not noted what it uses.
            if !folder.join(USES).exists() && has_agents(&folder)? {
                return Ok(());
            }
            runs.push(folder.join(USES));
        }
        for kind in [BUNDLES, REPOSITORIES] {
            for name in names_in(&self.0.join(kind))? {
                let used = Path::new(kind).join(name.strip_suffix(".new").unwrap_or(&name));
                if !runs.iter().any(|uses| uses.join(&used).exists()) {
                    self.discard(&self.0.join(kind).join(name))?;
                }
            }
        }
        for name in names_in(&self.0)?.iter().filter(|name| name.starts_with(READING)) {
            let copy = self.0.join(name);
            if fs::metadata(&copy)?.modified()?.elapsed().unwrap_or_default() >= KEPT_AFTER_END {
                self.discard(&copy)?;
            }
        }
        Ok(())
    }

    fn discard(&self, path: &Path) -> io::Result<()> {
        Trash::below(&self.0).take(path).map(drop)
    }
}

/// Whether an attempt was begun here and has not ended, or what it left is not kept yet. Its files are then as it has left
/// them, for the next attempt.
fn has_unended(records: &Path) -> io::Result<bool> {
    for name in names_in(records)? {
        if !is_record_of_end(&records.join(name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_agents(folder: &Path) -> io::Result<bool> {
    Ok(names_in(folder)?.iter().any(|name| !name.starts_with('.')))
}

/// The names in a folder, or none if it is not there.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Delivered;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn what_goes_depends_on_the_server_and_on_the_time() {
        let keep = Some(24 * HOUR);
        for (standing, after_minutes, after_hours, after_days, for_ever) in [
            (Standing::Ended, Removal::Nothing, Removal::All, Removal::All, Removal::All),
            (Standing::Open, Removal::Nothing, Removal::Nothing, Removal::Folders, Removal::Nothing),
            (Standing::Unknown, Removal::Nothing, Removal::Nothing, Removal::All, Removal::Nothing),
            (Standing::NoAnswer, Removal::Nothing, Removal::Nothing, Removal::Nothing, Removal::Nothing),
        ] {
            assert_eq!(Removal::of(standing, HOUR / 60, keep), after_minutes, "{standing:?}");
            assert_eq!(Removal::of(standing, 2 * HOUR, keep), after_hours, "{standing:?}");
            assert_eq!(Removal::of(standing, 48 * HOUR, keep), after_days, "{standing:?}");
            assert_eq!(Removal::of(standing, 1000 * HOUR, None), for_ever, "{standing:?}");
        }
    }

    /// A shelf with these files. Those that end with a slash are folders.
    fn shelf(paths: &[&str]) -> (tempfile::TempDir, Shelf) {
        let folder = tempfile::tempdir().unwrap();
        for path in paths {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match path.as_os_str().to_string_lossy().ends_with('/') {
                true => fs::create_dir_all(path).unwrap(),
                false => fs::write(path, "x").unwrap(),
            }
        }
        let shelf = Shelf(folder.path().to_owned());
        (folder, shelf)
    }

    #[test]
    fn of_a_run_that_may_go_on_records_stay_and_what_is_only_here() {
        let paths = ["runs/r/.records/t", "runs/r/.scratch/s", "runs/r/main/f", "runs/r/.uses/bundles/b/"];
        let (_folder, shelf) = shelf(&paths);
        let ended = Delivered::Lost { why: "gone".to_owned(), cost: None, leaving: false };
        fs::write(shelf.0.join("runs/r/.records/t"), serde_json::to_vec(&ended).unwrap()).unwrap();
        let left = || {
            let mut names = names_in(&shelf.0.join("runs/r")).unwrap();
            names.sort();
            names
        };
        // An attempt that has not ended may go on with its files.
        let records = shelf.0.join("runs/r/.records");
        fs::write(records.join("begun"), "").unwrap();
        assert!(has_unended(&records).unwrap());
        fs::remove_file(records.join("begun")).unwrap();
        assert!(!has_unended(&records).unwrap());
        // The store does not have this one.
        fs::create_dir_all(shelf.0.join("runs/r/.unkept/other")).unwrap();
        fs::create_dir_all(shelf.0.join("runs/r/other")).unwrap();
        shelf.remove("r", Removal::Folders).unwrap();
        assert_eq!(left(), [".records", ".unkept", ".uses", "other"]);
        fs::remove_dir(shelf.0.join("runs/r/.unkept/other")).unwrap();
        shelf.remove("r", Removal::Folders).unwrap();
        assert_eq!(left(), [".records", ".unkept"]);
        assert!(shelf.0.join("runs/r/.records/t").exists());
        shelf.remove("r", Removal::All).unwrap();
        assert!(!shelf.0.join("runs/r").exists());
    }

    #[test]
    fn what_is_shared_goes_when_no_run_uses_it() {
        let (_folder, shelf) = shelf(&[
            "bundles/used/f",
            "bundles/unused/f",
            "repositories/used.new/f",
            "repositories/unused/f",
            "runs/r/main/f",
            "runs/r/.uses/bundles/used/",
            "runs/r/.uses/repositories/used/",
            "runs/earlier/main/f",
        ]);
        shelf.remove_unused().unwrap();
        assert!(shelf.0.join("bundles/unused").exists(), "an earlier version may use it");
        shelf.remove("earlier", Removal::All).unwrap();
        shelf.remove_unused().unwrap();
        assert_eq!(names_in(&shelf.0.join("bundles")).unwrap(), ["used"]);
        assert_eq!(names_in(&shelf.0.join("repositories")).unwrap(), ["used.new"]);
    }

    #[test]
    fn the_last_attempt_says_how_long_a_run_was_not_used() {
        let (_folder, shelf) = shelf(&["runs/r/.records/old", "runs/r/.records/new"]);
        let set = |name: &str, hours: u32| {
            let file = fs::File::open(shelf.0.join("runs/r/.records").join(name)).unwrap();
            file.set_modified(SystemTime::now() - hours * HOUR).unwrap();
        };
        set("old", 50);
        set("new", 20);
        set("", 30);
        assert_eq!(shelf.unused("r").unwrap().as_secs() / 3600, 20);
    }
}
