//! Machines that share a store of blobs in memory, and an agent that moves between them.

use jiff::Timestamp;
use raymond::agent::registry::Backends;
use raymond::git::snapshots::Snapshots;
use raymond::run::frozen::FrozenStates;
use raymond::run::hosted::StepReport;
use raymond_core::event::{FORMAT_VERSION, RunStarted};
use raymond_core::run::Options;
use raymond_core::workflow::StateFile;

use super::*;
use crate::bundle::{keep_repository, keep_workflows};
use crate::host::superseded::remove;
use crate::machine::Machine;
use crate::messages::{From, Settings};

/// A run whose project is a repository with one commit.
struct Project {
    folder: tempfile::TempDir,
    blobs: Blobs,
    files: FilesOfRun,
    order: StepOrder,
}

impl Project {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (top, workflow) = (folder.path().join("project"), folder.path().join("wf"));
        fs::create_dir_all(&top).unwrap();
        fs::create_dir_all(&workflow).unwrap();
        fs::write(workflow.join("START.sh"), "echo '<result>done</result>'\n").unwrap();
        fs::write(top.join("kept"), "as committed").unwrap();
        let git = Git::in_folder(&top);
        git.text(&["init", "--quiet"]).unwrap();
        git.text(&["add", "kept"]).unwrap();
        commit(&git, "first");
        let blobs = Blobs::open(Some("memory:///")).unwrap();
        let files = FilesOfRun {
            bundle: keep_workflows(&blobs, std::slice::from_ref(&workflow)).await.unwrap(),
            project: text(&top),
            workflow_paths: Vec::new(),
            cd_paths: Vec::new(),
            repository: keep_repository(&blobs, &top).await.unwrap(),
            debug_folder: None,
        };
        let order = first_order(&workflow, &files);
        Self { folder, blobs, files, order }
    }

    /// The order for an attempt at a step.
    fn order(&self, step: u64, attempt: u32) -> StepOrder {
        let mut order = self.order.clone();
        (order.started.step, order.started.attempt) = (step, attempt);
        order
    }

    fn host(&self, name: &str) -> Host<'_> {
        let work = self.folder.path().join(name);
        let scratch = work.join("scratch");
        let grace = Duration::from_secs(1);
        let run = HostedRun::open("r", &scratch, Backends::built_in(), grace, true, None).unwrap();
        Host { project: self, files: Files::new(work, self.blobs.clone()), run, scratch }
    }

    /// The names of the blobs with the agent's files.
    async fn names(&self) -> Vec<String> {
        let folder = names::files_folder(&self.order);
        let names = self.blobs.list(&folder).await.unwrap();
        names.into_iter().map(|name| format!("{folder}/{name}")).collect()
    }
}

fn commit(git: &Git, message: &str) {
    let author = ["-c", "user.name=n", "-c", "user.email=e"];
    git.text(&[&author[..], &["commit", "--quiet", "--allow-empty", "-m", message]].concat()).unwrap();
}

fn first_order(workflow: &Path, files: &FilesOfRun) -> StepOrder {
    let options = Options::default();
    let started = RunStarted {
        version: FORMAT_VERSION,
        workflow: "wf".to_owned(),
        scope: text(workflow),
        scope_hash: None,
        entry: StateFile::new("START.sh").unwrap(),
        cwd: files.project.clone(),
        nonce: "nonce".to_owned(),
        labels: BTreeMap::new(),
        inputs: BTreeMap::new(),
        options: options.clone(),
        moved: Default::default(),
        origin: None,
    };
    let states = FrozenStates::read(&[workflow.to_owned()], &options, &Backends::built_in()).unwrap();
    let opening = raymond_core::decide::start(started, None);
    let settings = Settings {
        queue: "q".to_owned(),
        heartbeat_ms: 1000,
        patience_ms: 1000,
        continue_after: 1000,
        waits_for_answers: true,
        keeps_texts: true,
        files: files.clone(),
    };
    let from = From::Start { opening, states };
    let mut machine = Machine::new("r", Timestamp::UNIX_EPOCH, settings, from).unwrap();
    machine.round(Timestamp::UNIX_EPOCH, Vec::new()).unwrap().start.remove(0)
}

/// A machine that the agent may be on.
struct Host<'a> {
    project: &'a Project,
    files: Files,
    run: HostedRun,
    scratch: PathBuf,
}

impl Host<'_> {
    /// Puts the agent's files in place. Returns the folder of its repository and one that is not in it.
    async fn ready(&self, left: Option<&Left>) -> (Roots, PathBuf, PathBuf) {
        let Project { files, order, .. } = self.project;
        let roots = self.files.ready(files, order, &self.run, left, true).await.unwrap();
        let loose = roots.folder.join("loose");
        fs::create_dir_all(&loose).unwrap();
        let top = roots.folder_of(&files.project);
        (roots, top, loose)
    }

    async fn keep(&self, order: &StepOrder, roots: &Roots, before: Option<&Left>) -> Left {
        let top = roots.folder_of(&self.project.files.project);
        let (indexes, own) = (self.scratch.join("indexes"), self.scratch.clone());
        let snapshots = Snapshots::new("r", indexes, own, &BTreeMap::new());
        let snapshot = snapshots.after_step(&top, "step", false).unwrap();
        let report = StepReport::not_started(&order.plan, "nothing ran".to_owned());
        let done = Done { report, files: Some(snapshot), debug: None, shortage: None };
        let kept = self.files.keep(&self.project.files, order, &self.run, roots, &done, before);
        kept.await.unwrap().left
    }
}

/// Plays a test where steps are carried out.
fn play(test: impl AsyncFnOnce(Project)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async { test(Project::new().await).await });
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

#[test]
fn an_agent_finds_what_its_last_recorded_step_left_and_nothing_that_comes_late() {
    play(async |project| {
        let (lost, next) = (project.host("lost"), project.host("next"));
        let (roots, top, loose) = lost.ready(None).await;
        fs::write(top.join("new"), "of the lost one").unwrap();
        fs::write(loose.join("l"), "of the lost one").unwrap();
        let (next_roots, top, loose) = next.ready(None).await;
        fs::write(top.join("new"), "recorded").unwrap();
        fs::write(loose.join("l"), "recorded").unwrap();
        commit(&Git::in_folder(&top), "second");
        let recorded = next.keep(&project.order(1, 2), &next_roots, None).await;
        // Only now the machine that counts as lost writes what its attempt left.
        lost.keep(&project.order(1, 1), &roots, None).await;

        let (_, top, loose) = project.host("third").ready(Some(&recorded)).await;
        assert_eq!((read(&top, "new"), read(&loose, "l")), ("recorded".to_owned(), "recorded".to_owned()));
        assert_eq!(read(&top, "kept"), "as committed");
        assert_eq!(Git::in_folder(&top).text(&["log", "-1", "--format=%s"]).unwrap(), "second");
        assert_eq!(Git::in_folder(&top).text(&["status", "--porcelain"]).unwrap(), "?? new");
    });
}

#[test]
fn what_has_not_changed_keeps_its_name_and_what_is_superseded_is_removed() {
    play(async |project| {
        let host = project.host("a");
        let (roots, top, loose) = host.ready(None).await;
        assert_eq!(host.keep(&project.order(1, 1), &roots, None).await, Left::default());
        fs::write(top.join("new"), "1").unwrap();
        fs::write(loose.join("l"), "1").unwrap();
        let first = host.keep(&project.order(2, 1), &roots, None).await;
        assert_eq!(host.keep(&project.order(3, 1), &roots, Some(&first)).await, first);
        fs::write(top.join("new"), "2").unwrap();
        let second = host.keep(&project.order(4, 1), &roots, Some(&first)).await;
        assert_eq!(second.loose, first.loose);
        assert_ne!(second.files, first.files);
        assert_eq!(project.names().await.len(), 3);

        // A machine that counts as lost has left something too, and one that is ahead of this order.
        fs::write(top.join("new"), "3").unwrap();
        let ahead = host.keep(&project.order(5, 2), &roots, Some(&second)).await;
        fs::write(top.join("new"), "4").unwrap();
        host.keep(&project.order(4, 2), &roots, Some(&second)).await;
        remove(project.blobs.clone(), project.order(5, 1), second.clone()).await.unwrap();
        let mut expected: Vec<String> =
            [second.loose, second.files, ahead.files].into_iter().flatten().collect();
        expected.sort();
        assert_eq!(project.names().await, expected);
    });
}

#[test]
fn an_agent_that_has_put_all_back_leaves_nothing() {
    play(async |project| {
        let host = project.host("a");
        let (roots, top, loose) = host.ready(None).await;
        fs::write(top.join("new"), "1").unwrap();
        fs::write(loose.join("l"), "1").unwrap();
        let left = host.keep(&project.order(1, 1), &roots, None).await;
        fs::remove_file(top.join("new")).unwrap();
        fs::remove_file(loose.join("l")).unwrap();
        assert_eq!(host.keep(&project.order(2, 1), &roots, Some(&left)).await, Left::default());
    });
}

/// Earlier versions had one name for all attempts, and the commit in a ref of its own.
#[test]
fn what_an_earlier_version_left_is_found() {
    play(async |project| {
        let (_, top, _) = project.host("a").ready(None).await;
        let git = Git::in_folder(&top);
        commit(&git, "second");
        fs::write(top.join("new"), "earlier").unwrap();
        git.text(&["update-ref", HEAD_REF, "HEAD"]).unwrap();
        git.text(&["add", "new"]).unwrap();
        let tree = git.text(&["write-tree"]).unwrap();
        let author = ["-c", "user.name=n", "-c", "user.email=e", "commit-tree", "-m", "files", &tree];
        git.text(&["update-ref", FILES_REF, &git.text(&author).unwrap()]).unwrap();
        let bundle = git.bytes(&["bundle", "create", "--quiet", "-", HEAD_REF, FILES_REF], &[]).unwrap();
        project.blobs.put("runs/r/files/main.bundle", bundle).await.unwrap();
        let mut loose = Pack::default();
        loose.add(&top.join("new"), "loose/l").unwrap();
        project.blobs.put("runs/r/files/main.zip", loose.finish().unwrap()).await.unwrap();

        let (_, top, loose) = project.host("b").ready(None).await;
        assert_eq!((read(&top, "new"), read(&loose, "l")), ("earlier".to_owned(), "earlier".to_owned()));
        assert_eq!(Git::in_folder(&top).text(&["log", "-1", "--format=%s"]).unwrap(), "second");
    });
}

#[test]
fn a_blob_that_is_named_and_not_there_is_an_error() {
    play(async |project| {
        let left = Left { files: Some("runs/r/files/main/gone.bundle".to_owned()), loose: None };
        let host = project.host("a");
        let Project { files, order, .. } = &project;
        let error = host.files.ready(files, order, &host.run, Some(&left), true).await.unwrap_err();
        assert!(error.to_string().contains("gone.bundle is not in the blob store"), "{error:#}");
    });
}
