//! Machines that share a store of blobs in memory, and an agent that moves between them.

use jiff::Timestamp;
use raymond::agent::registry::Backends;
use raymond::run::frozen::FrozenStates;
use raymond::run::hosted::StepReport;
use raymond_core::event::{FORMAT_VERSION, RunStarted};
use raymond_core::run::Options;
use raymond_core::run::Session;
use raymond_core::workflow::StateFile;
use raymond_core::worktree::{Worktree, branch};

use super::*;
use crate::bundle::{Pack, keep_repository, keep_workflows};
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
        fs::write(workflow.join("START.sh"), "echo again >> again; echo '<result>done</result>'\n").unwrap();
        fs::write(top.join("kept"), "as committed").unwrap();
        let git = Git::in_folder(&top);
        Git::in_no_repository(&top).text(&["init", "--quiet"]).unwrap();
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
        let run = HostedRun::open("r", &scratch, Backends::built_in(), grace, None).unwrap();
        Host { project: self, files: Files::new(work, self.blobs.clone()), run }
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
}

impl Host<'_> {
    /// Puts the agent's files in place. Returns the folder of its repository and one that is not in it.
    async fn ready(&self, left: Option<&Left>) -> (Roots, PathBuf, PathBuf) {
        let Project { files, order, .. } = self.project;
        let Ready { roots, .. } = self.files.ready(files, order, &self.run, left, true).await.unwrap();
        let (top, loose) = (roots.folder_of(&files.project), roots.folder.join("loose"));
        (roots, top, loose)
    }

    async fn keep(&self, order: &StepOrder, roots: &Roots, before: Option<&Left>) -> Left {
        self.kept(order, roots, before).await.left
    }

    async fn kept(&self, order: &StepOrder, roots: &Roots, before: Option<&Left>) -> Kept {
        let report = StepReport::not_started(&order.plan, "nothing ran".to_owned());
        let done = Done { report, debug: None, shortage: None };
        let kept = self.files.keep(&self.project.files, order, &self.run, roots, &done, before);
        kept.await.unwrap()
    }

    /// Carries out a step, on a machine that the agent has just come to.
    async fn step(&self, number: u64, before: Option<&Left>) -> Left {
        let (files, order) = (&self.project.files, self.project.order(number, 1));
        let Ready { roots, .. } = self.files.ready(files, &order, &self.run, before, true).await.unwrap();
        let done = self.run.start(order.clone(), &roots).await.unwrap();
        self.files.keep(files, &order, &self.run, &roots, &done, before).await.unwrap().left
    }
}

/// Plays a test where steps are carried out.
fn play(test: impl AsyncFnOnce(Project)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async { test(Project::new().await).await });
}

/// Writes a file in a folder, which is made.
fn put(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(name), text).unwrap();
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
        put(&loose, "l", "of the lost one");
        let (next_roots, top, loose) = next.ready(None).await;
        fs::write(top.join("new"), "recorded").unwrap();
        put(&loose, "l", "recorded");
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
        put(&loose, "l", "1");
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
        put(&loose, "l", "1");
        let left = host.keep(&project.order(1, 1), &roots, None).await;
        fs::remove_file(top.join("new")).unwrap();
        fs::remove_dir_all(&loose).unwrap();
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

/// The agent's folder on the first machine is made anew while the worker there goes on.
#[test]
fn an_agent_that_comes_back_leaves_what_it_has_done_since() {
    play(async |project| {
        let (a, b) = (project.host("a"), project.host("b"));
        let left = a.step(1, None).await;
        let left = b.step(2, Some(&left)).await;
        let left = a.step(3, Some(&left)).await;
        let (_, top, _) = b.ready(Some(&left)).await;
        assert_eq!(read(&top, "again"), "again\n".repeat(3));
    });
}

/// An agent may work outside the repository, or in one that it has cloned itself.
#[test]
fn files_in_the_repository_are_kept_wherever_the_step_worked() {
    play(async |mut project| {
        project.order.agent.cwd = "/elsewhere".to_owned();
        let host = project.host("a");
        let (_, top, _) = host.ready(None).await;
        put(&top, "new", "kept");
        let Project { files, order, .. } = &project;
        let Ready { roots, .. } = host.files.ready(files, order, &host.run, None, false).await.unwrap();
        let done = host.run.start(order.clone(), &roots).await.unwrap();
        let kept = host.files.keep(files, order, &host.run, &roots, &done, None).await.unwrap();
        let (roots, top, _) = project.host("b").ready(Some(&kept.left)).await;
        assert_eq!(read(&top, "new"), "kept");
        assert_eq!(read(&roots.folder, "elsewhere/again"), "again\n");
    });
}

/// Otherwise the next attempt would find a new branch and old files, and commit where the branch does not lead.
#[test]
fn a_failed_step_of_a_worker_leaves_its_branch_and_its_files_alike() {
    play(async |mut project| {
        let base = project.files.repository.as_ref().unwrap().commit.clone();
        let path = format!("{}/.raymond/worktrees/r/w", project.files.project);
        let worktree = Worktree {
            name: "w".to_owned(),
            branch: branch("r", "w"),
            base,
            repository: format!("{}/.git", project.files.project),
            path,
        };
        (project.order.agent.cwd, project.order.agent.worktree) =
            (worktree.path.clone(), Some(Box::new(worktree.clone())));
        let host = project.host("a");
        let (roots, top, _) = host.ready(None).await;
        // The step fails before its worktree is made.
        assert_eq!(host.keep(&project.order(1, 1), &roots, None).await.files, None);

        let folder = roots.folder_of(&worktree.path);
        fs::remove_dir_all(&folder).unwrap();
        let (git, here) = (Git::in_folder(&top), Git::in_folder(&folder));
        git.text(&["worktree", "add", "--quiet", "-b", &worktree.branch, &text(&folder)]).unwrap();
        let mark = worktrees_of(&project.order, &roots).mark("w");
        raymond::git::making::finish(&mark, &worktree.branch).unwrap();
        commit(&here, "of the first step");
        let first = host.kept(&project.order(1, 2), &roots, None).await;
        commit(&here, "of the failed step");
        put(&folder, "new", "of the failed step");
        let failed = host.kept(&project.order(2, 1), &roots, Some(&first.left)).await;

        project.order.branches.insert("w".to_owned(), failed.branch.unwrap());
        let (roots, _, _) = project.host("b").ready(Some(&failed.left)).await;
        let folder = roots.folder_of(&worktree.path);
        let here = Git::in_folder(&folder);
        assert_eq!(here.text(&["log", "-1", "--format=%s"]).unwrap(), "of the failed step");
        assert_eq!(here.text(&["symbolic-ref", "--short", "HEAD"]).unwrap(), worktree.branch);
        assert_eq!(read(&folder, "new"), "of the failed step");
    });
}

#[test]
fn without_a_repository_everything_that_an_agent_has_made_is_kept() {
    play(async |mut project| {
        project.files.repository = None;
        let host = project.host("a");
        let (roots, top, _) = host.ready(None).await;
        // What the step was handed is written anew before each step.
        let input = roots.input_file(&project.order.agent.id);
        put(input.parent().unwrap(), input.file_name().unwrap().to_str().unwrap(), "handed");
        assert_eq!(host.keep(&project.order(1, 1), &roots, None).await, Left::default());
        let git = Git::in_folder(&top);
        Git::in_no_repository(&top).text(&["init", "--quiet"]).unwrap();
        commit(&git, "of the agent");
        put(&top.join("node_modules/m"), "index.js", "module");
        fs::create_dir_all(top.join("empty")).unwrap();
        std::os::unix::fs::symlink("node_modules/m", top.join("link")).unwrap();
        let kept = host.kept(&project.order(2, 1), &roots, None).await;
        assert_eq!(kept.left_out, None);
        // A socket has no content that could be kept.
        let _socket = std::os::unix::net::UnixListener::bind(roots.folder.join("s")).unwrap();
        let with_a_socket = host.kept(&project.order(3, 1), &roots, Some(&kept.left)).await;
        assert_eq!(with_a_socket.left, kept.left);
        let told = with_a_socket.left_out.unwrap();
        assert_eq!(told, "not kept for other machines: /s (no file or folder)");

        let (_, top, _) = project.host("b").ready(Some(&kept.left)).await;
        let git = Git::in_folder(&top);
        assert_eq!(git.text(&["log", "-1", "--format=%s"]).unwrap(), "of the agent");
        assert_eq!(read(&top, "link/index.js"), "module");
        assert!(top.join("link").is_symlink() && top.join("empty").is_dir());
    });
}

#[test]
fn of_too_much_what_can_be_made_again_is_left_out_and_otherwise_nothing_is_kept() {
    play(async |project| {
        let (roots, _, loose) = project.host("a").ready(None).await;
        put(&loose.join("node_modules/m"), "index.js", "module");
        put(&loose, "l", "1234");
        let pack = |most| loose::pack_within(&project.order, &roots, project.files.repository.as_ref(), most);
        assert_eq!(pack(1000).unwrap().left_out, None);
        let smaller = pack(9).unwrap();
        assert_eq!(smaller.left_out.unwrap(), "not kept for other machines: node_modules");
        let to = tempfile::tempdir().unwrap();
        unpack(&smaller.bytes.unwrap(), to.path()).unwrap();
        assert_eq!(read(to.path(), "loose/l"), "1234");
        assert!(!to.path().join("loose/node_modules").exists());
        let error = pack(3).unwrap_err().to_string();
        assert_eq!(error, "its files outside the repository are 1 MiB, and 0 MiB are kept at most");
    });
}

/// Programs make folders that must not be written, as the module cache of Go.
#[test]
fn an_old_folder_that_is_hard_to_remove_is_not_used_again() {
    crate::host::trash::as_no_one(|| {
        play(async |project| {
            use std::os::unix::fs::PermissionsExt;
            let host = project.host("a");
            let (_, top, _) = host.ready(None).await;
            put(&top.join("cache"), "f", "old");
            put(&top, "new", "old");
            fs::set_permissions(top.join("cache"), fs::Permissions::from_mode(0o555)).unwrap();
            let (_, top, _) = host.ready(None).await;
            assert_eq!((read(&top, "new"), read(&top, "cache/f")), Default::default());
            assert_eq!(read(&top, "kept"), "as committed");
        });
    });
}

#[test]
fn an_agent_whose_conversation_stays_behind_is_told() {
    play(async |mut project| {
        let session = |backend: &str| -> Session {
            serde_json::from_value(serde_json::json!({ "id": "5e55", "backend": backend })).unwrap()
        };
        for (backend, is_old, expected) in [
            ("opencode", true, Some("`opencode`")),
            ("opencode", false, None),
            ("claude", true, Some("`claude`")),
            // It has no program that could lack something.
            ("scripted", true, None),
        ] {
            project.order.agent.session = Some(session(backend));
            let host = project.host("a");
            let Project { files, order, .. } = &project;
            let ready = host.files.ready(files, order, &host.run, None, is_old).await.unwrap();
            assert_eq!(ready.warning.is_some(), expected.is_some(), "{backend}: {:?}", ready.warning);
            if let (Some(warning), Some(expected)) = (ready.warning, expected) {
                assert!(warning.contains(expected), "{warning}");
            }
        }
    });
}

/// What this machine has of the agent's conversations stays old, whatever the next delivery says.
#[test]
fn an_agent_that_could_not_be_made_ready_is_still_one_that_comes_from_elsewhere() {
    play(async |mut project| {
        let session = serde_json::json!({ "id": "5e55", "backend": "opencode" });
        project.order.agent.session = Some(serde_json::from_value(session).unwrap());
        let host = project.host("a");
        let Project { files, order, .. } = &project;
        let ready = async |left: Option<&Left>, is_old| {
            let ready = host.files.ready(files, order, &host.run, left, is_old).await;
            ready.map(|ready| ready.warning.is_some()).map_err(|error| error.to_string())
        };
        let missing = Left { files: Some("missing".to_owned()), loose: None };
        assert!(ready(Some(&missing), true).await.unwrap_err().starts_with("missing is not in"));
        assert_eq!(ready(None, false).await, Ok(true));
        assert_eq!(ready(None, false).await, Ok(false));
    });
}
