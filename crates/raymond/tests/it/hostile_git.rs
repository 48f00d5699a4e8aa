//! Repositories and trees that name programs for git to start. Raymond's git starts none of them, whatever Raymond does in
//! them; what the user's own config names runs as ever.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use test_kit::needs::say_skipped;
use test_kit::rig::{Done, Rig};

use crate::RAYMOND;
use crate::repository::{commit, git, init};

/// A way to have git start a program.
struct Attack {
    name: &'static str,
    /// Changes a repository so that git would start the program `evil`, which leaves a mark.
    mount: fn(&Rig, evil: &str),
    /// Whether ordinary commands of git would start it. If not, only some versions or some commands do.
    is_seen: bool,
    /// Whether Raymond can do its work all the same.
    works: bool,
}

const ATTACKS: [Attack; 23] = [
    attack("clean and smudge", |rig, evil| {
        config(rig, &format!("[filter \"evil\"]\nclean = \"{evil}; cat\"\nsmudge = \"{evil}; cat\"\n"));
    }),
    attack("process", |rig, evil| config(rig, &format!("[filter \"evil\"]\nprocess = \"{evil}\"\n"))),
    attack("fsmonitor", |rig, evil| config(rig, &format!("[core]\nfsmonitor = \"{evil}\"\n"))),
    attack("hooks", |rig, evil| hooks(rig, ".git/hooks", evil)),
    attack("hooks path", |rig, evil| {
        hooks(rig, "some-hooks", evil);
        config(rig, "[core]\nhooksPath = some-hooks\n");
    }),
    unseen("hooks in the config", |rig, evil| {
        let events = HOOKS.map(|hook| format!("event = {hook}\n")).concat();
        config(rig, &format!("[hook \"evil\"]\ncommand = {evil}\n{events}"));
    }),
    attack("textconv", |rig, evil| config(rig, &format!("[diff \"evil\"]\ntextconv = {evil}\n"))),
    attack("diff of files", |rig, evil| config(rig, &format!("[diff \"evil\"]\ncommand = {evil}\n"))),
    attack("diff", |rig, evil| config(rig, &format!("[diff]\nexternal = {evil}\nsubmodule = diff\n"))),
    unseen("merge", |rig, evil| config(rig, &format!("[merge \"evil\"]\ndriver = {evil}\n"))),
    unseen("programs for the network", |rig, evil| {
        config(rig, &format!("[core]\nsshCommand = {evil}\ngitProxy = {evil}\naskPass = {evil}\n"));
        config(rig, &format!("[credential]\nhelper = \"!{evil}\"\n[uploadpack]\npackObjectsHook = {evil}\n"));
        config(rig, &format!("[core]\nalternateRefsCommand = {evil}\n[protocol \"ext\"]\nallow = always\n"));
    }),
    unseen("programs for people", |rig, evil| {
        config(rig, &format!("[core]\npager = {evil}\neditor = {evil}\n[pager]\ndiff = {evil}\n"));
        let names = ["add", "status", "update-index", "worktree", "read-tree", "ls-files", "rev-parse"];
        let alias = names.map(|name| format!("[alias]\n{name} = \"!{evil}\"\n"));
        config(rig, &alias.concat());
    }),
    unseen("signatures", |rig, evil| {
        config(
            rig,
            &format!("[commit]\ngpgSign = true\n[gpg]\nprogram = {evil}\n[log]\nshowSignature = true\n"),
        );
    }),
    attack("include", |rig, evil| {
        rig.write(".git/more", filter(evil));
        config(rig, "[include]\npath = more\n");
    }),
    attack("include on a condition", |rig, evil| {
        rig.write("more", filter(evil));
        config(rig, "[includeIf \"gitdir:**\"]\npath = ../more\n");
    }),
    attack("config of the worktree", |rig, evil| {
        config(rig, "[core]\nrepositoryformatversion = 1\n[extensions]\nworktreeConfig = true\n");
        rig.write(".git/config.worktree", filter(evil));
    }),
    attack("a file that leads elsewhere", |rig, evil| {
        config(rig, &filter(evil));
        fs::rename(rig.path(".git"), rig.home().join("elsewhere")).unwrap();
        rig.write(".git", format!("gitdir: {}\n", rig.home().join("elsewhere").display()));
    }),
    attack("common files elsewhere", |rig, evil| {
        let elsewhere = rig.home().join("common");
        let copied = rig.program("cp").arg("-r").arg(rig.path(".git")).arg(&elsewhere).status();
        assert!(copied.unwrap().success());
        fs::write(elsewhere.join("config"), filter(evil)).unwrap();
        rig.write(".git/commondir", format!("{}\n", elsewhere.display()));
    }),
    attack("a repository inside", |rig, evil| {
        nested(rig, "inside", evil);
        // As if the user had added it, it is in the index.
        git(rig, ".", &["add", "inside"]);
    }),
    attack("the repository of a submodule", |rig, evil| {
        init(rig, "other");
        rig.write("other/h", "1\n");
        commit(rig, "other", "one");
        let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./other", "module"];
        git(rig, ".", &add);
        fs::remove_dir_all(rig.path("other")).unwrap();
        git(rig, ".", &["commit", "-qm", "module", "--", ".gitmodules", "module"]);
        rig.write(".git/modules/module/info/attributes", "* filter=evil\n");
        append(rig, ".git/modules/module/config", &filter(evil));
        rig.write("module/h", "1\n");
    }),
    attack("folder of the files", |rig, evil| {
        rig.write("../private/secret", "1\n");
        rig.write("../private/.gitattributes", "* filter=evil\n");
        config(rig, &format!("[core]\nworktree = {}\n{}", rig.path("../private").display(), filter(evil)));
    }),
    Attack {
        name: "objects that are missing",
        mount: |rig, evil| {
            git(rig, "..", &["clone", "-q", "--bare", "work", "origin"]);
            let blob = git(rig, ".", &["rev-parse", "HEAD:g"]);
            fs::remove_file(rig.path(&format!(".git/objects/{}/{}", &blob[..2], &blob[2..]))).unwrap();
            config(rig, "[core]\nrepositoryformatversion = 1\n[extensions]\npartialClone = origin\n");
            let origin = rig.path("../origin").display().to_string();
            config(
                rig,
                &format!("[remote \"origin\"]\nurl = {origin}\npromisor = true\nuploadpack = {evil}\n"),
            );
        },
        is_seen: true,
        works: false,
    },
    Attack {
        name: "a filter that git must not do without",
        mount: |rig, evil| config(rig, &format!("{}required = true\n", filter(evil))),
        is_seen: true,
        works: false,
    },
];

const fn attack(name: &'static str, mount: fn(&Rig, &str)) -> Attack {
    Attack { name, mount, is_seen: true, works: true }
}

const fn unseen(name: &'static str, mount: fn(&Rig, &str)) -> Attack {
    Attack { name, mount, is_seen: false, works: true }
}

const HOOKS: [&str; 8] = [
    "post-checkout",
    "pre-commit",
    "post-commit",
    "reference-transaction",
    "post-index-change",
    "pre-auto-gc",
    "post-rewrite",
    "fsmonitor-watchman",
];

fn filter(evil: &str) -> String {
    format!("[filter \"evil\"]\nclean = \"{evil}; cat\"\nsmudge = \"{evil}; cat\"\n")
}

fn append(rig: &Rig, file: &str, text: &str) {
    let before = fs::read_to_string(rig.path(file)).unwrap();
    rig.write(file, format!("{before}{text}"));
}

fn config(rig: &Rig, text: &str) {
    append(rig, ".git/config", text);
}

fn hooks(rig: &Rig, folder: &str, evil: &str) {
    for hook in HOOKS {
        program(&rig.write(&format!("{folder}/{hook}"), format!("#!/bin/sh\n{evil}\n")));
    }
}

fn program(file: &Path) {
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A repository with a commit, in which git starts the program for each file that it reads.
fn nested(rig: &Rig, folder: &str, evil: &str) {
    init(rig, folder);
    rig.write(&format!("{folder}/file"), "1\n");
    commit(rig, folder, "one");
    append(rig, &format!("{folder}/.git/config"), &filter(evil));
    rig.write(&format!("{folder}/.git/info/attributes"), "* filter=evil\n");
    // Git reads a file again if its time has changed.
    rig.write(&format!("{folder}/file"), "2\n");
}

/// A repository with the files `f` and `g`, and a workflow that git ignores: a step, and a worker in a worktree.
fn repository() -> (Rig, String) {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n/.raymond\n");
    rig.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    rig.write("f", "one\n");
    rig.write("g", "one\n");
    commit(&rig, ".", "one");
    rig.state("START.sh", "echo two > f; echo 1 > new; echo '<goto>FORK</goto>'");
    rig.state("FORK.sh", "echo three > f; echo '<fork worktree=\"a\">W</fork><join>END</join>'");
    rig.state("W.sh", "echo mine > f; echo '<result>ok</result>'");
    rig.state("END.sh", "rm g; touch f; echo '<result>ok</result>'");
    let evil = rig.home().join("evil");
    let mark = rig.home().join("mark");
    fs::write(&evil, format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", mark.display())).unwrap();
    program(&evil);
    (rig, evil.display().to_string())
}

fn mark(rig: &Rig) -> Option<String> {
    fs::read_to_string(rig.home().join("mark")).ok()
}

/// Everything that Raymond does with a repository.
fn everything(rig: &Rig) -> Vec<Done> {
    rig.raymond(&["doctor"]);
    let commands: [&[&str]; 16] = [
        &["workflow", "--id", "r", "--snapshots"],
        &["resume", "r"],
        &["list"],
        &["status", "r"],
        &["show", "r"],
        &["log", "r"],
        &["log", "r", "--step", "1"],
        &["log", "r", "--step", "2"],
        &["branch", "r", "--at", "1", "--id", "b", "--files", "--worktree", "../restored"],
        &["branch", "r", "--at", "1", "--id", "c", "--files", "--force"],
        &["rewind", "r", "--to", "2", "--files", "--force"],
        &["resume", "r"],
        &["clean", "b"],
        &["clean", "c", "--discard-changes"],
        &["clean", "dropped-1-r", "--discard-changes"],
        &["clean", "r", "--discard-changes"],
    ];
    commands.iter().map(|arguments| rig.raymond(arguments)).collect()
}

/// What people do with git. It shows that an attack would work.
fn by_hand(rig: &Rig) {
    let work = rig.work();
    let work = work.display();
    let script = format!(
        "cd {work}; echo more >> f; git status; git add -A; git commit -qm more; git diff HEAD~1; \
         git worktree add -f ../by-hand HEAD; echo more > f; git add -A; git show"
    );
    let mut shell = rig.program("sh");
    shell.args(["-c", &script]);
    rig.launch(shell).wait();
}

/// The attacks are shared out among tests that run at the same time.
const PARTS: usize = 4;

fn git_starts_nothing_that_a_repository_names(part: usize) {
    for Attack { name, mount, is_seen, works } in ATTACKS.into_iter().skip(part).step_by(PARTS) {
        let (rig, evil) = repository();
        mount(&rig, &evil);
        let _ = fs::remove_file(rig.home().join("mark"));
        let done = everything(&rig);
        assert_eq!(mark(&rig), None, "{name}: {done:?}");
        if works {
            let failed: Vec<_> = done.iter().filter(|done| done.exit != 0).collect();
            assert!(failed.is_empty(), "{name}: {failed:?}");
            assert!(done[0].stderr.lines().all(|line| !line.contains("no snapshot")), "{name}: {done:?}");
            assert!(done[6].stdout.contains("+two"), "{name}: {done:?}");
            assert_eq!(rig.read("../restored/f"), "two\n", "{name}");
        }
        by_hand(&rig);
        assert!(!is_seen || mark(&rig).is_some(), "{name}: git itself would not start it");
    }
}

#[test]
fn git_starts_nothing_that_a_repository_names_1() {
    git_starts_nothing_that_a_repository_names(0);
}

#[test]
fn git_starts_nothing_that_a_repository_names_2() {
    git_starts_nothing_that_a_repository_names(1);
}

#[test]
fn git_starts_nothing_that_a_repository_names_3() {
    git_starts_nothing_that_a_repository_names(2);
}

#[test]
fn git_starts_nothing_that_a_repository_names_4() {
    git_starts_nothing_that_a_repository_names(3);
}

#[test]
fn a_filter_that_the_repository_needs_is_named_with_what_permits_it() {
    let (rig, evil) = repository();
    config(&rig, &format!("{}required = true\n", filter(&evil)));
    let done = rig.raymond(&["workflow", "--id", "r", "--snapshots"]);
    done.assert(0, "ok\n").says("no snapshot of").says("clean filter 'evil' failed");
    let work = rig.work();
    let why =
        "names the programs of filter.evil.clean, filter.evil.smudge, and Raymond's git runs none of those";
    done.says(&format!("the config of {} {why}", work.join(".git").display()));
    done.says("the worktree `a` has its files without what their filters do")
        .says("`git config --global filter.evil.clean");
    assert_eq!(mark(&rig), None);
}

/// As a large file storage does it: a pointer in git, the content elsewhere.
#[test]
fn the_users_own_filters_run_as_the_user_has_them() {
    let (rig, evil) = repository();
    let own =
        [("clean", "sed s/content/pointer/"), ("smudge", "sed s/pointer/content/"), ("required", "true")];
    for (key, value) in own {
        git(&rig, ".", &["config", "--global", &format!("filter.big.{key}"), value]);
    }
    config(&rig, &filter(&evil).replace("evil\"]", "big\"]"));
    config(&rig, "[filter \"big\"]\nrequired = false\n");
    rig.write(".gitattributes", "*.big filter=big\n");
    rig.write("a.big", "content\n");
    git(&rig, ".", &["-c", "filter.big.clean=sed s/content/pointer/", "add", "-A"]);
    git(&rig, ".", &["commit", "-qm", "big"]);
    assert_eq!(git(&rig, ".", &["show", "HEAD:a.big"]), "pointer");
    rig.state("START.sh", "echo content b > b.big; echo '<goto>FORK</goto>'");
    rig.state("W.sh", "printf '<result>%s</result>' \"$(cat a.big)\"");
    rig.state("END.sh", "cat > got; echo \"<result>$RAYMOND_RESULT</result>\"");
    let _ = fs::remove_file(rig.home().join("mark"));
    let done = rig.raymond(&["workflow", "--id", "r", "--snapshots"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.stdout.contains("\"result\":\"content\""), "{done:?}");
    let events = rig.events();
    let first = events.iter().find(|event| event["event"] == "step_finished").unwrap();
    let snapshot = first["files"]["commit"].as_str().unwrap();
    assert_eq!(git(&rig, ".", &["show", &format!("{snapshot}:b.big")]), "pointer b");
    let branch = ["branch", "r", "--at", "1", "--id", "b", "--files", "--worktree", "../restored"];
    assert_eq!(rig.raymond(&branch).exit, 0);
    assert_eq!(rig.read("../restored/b.big"), "content b\n");
    assert_eq!(mark(&rig), None);
}

#[test]
fn a_folder_that_looks_like_the_inside_of_a_repository_is_none() {
    let (rig, evil) = repository();
    config(&rig, &format!("{}[core]\nfsmonitor = {evil}\nbare = false\nworktree = .\n", filter(&evil)));
    fs::create_dir_all(rig.path("tree")).unwrap();
    for name in ["HEAD", "config", "objects", "refs", "hooks", "info"] {
        fs::rename(rig.path(&format!(".git/{name}")), rig.path(&format!("tree/{name}"))).unwrap();
    }
    fs::remove_dir_all(rig.path(".git")).unwrap();
    rig.write("tree/f", "one\n");
    rig.write("tree/.gitattributes", "* filter=evil\n");
    let _ = fs::remove_file(rig.home().join("mark"));
    let mut command = rig.command(&["../workflow", "--id", "r", "--snapshots"]);
    command.current_dir(rig.path("tree"));
    let done = rig.launch(command).wait();
    assert_eq!(done.exit, 1, "{done:?}");
    done.says("not a git repository").says("is in no git repository, so it has no worktrees");
    assert_eq!(mark(&rig), None);
    git(&rig, "tree", &["status"]);
    assert!(mark(&rig).is_some(), "git itself would have started it");
}

/// An agent that can only write files can make one.
#[test]
fn a_repository_that_is_made_during_a_run_is_not_entered() {
    let (rig, evil) = repository();
    nested(&rig, "../made", &evil);
    rig.state("START.sh", "mv ../made sub; echo '<reset cd=\"sub\">NEXT</reset>'");
    rig.state("NEXT.sh", "touch file; echo 2 > new; echo '<goto>FORK</goto>'");
    rig.state("FORK.sh", "echo '<fork worktree=\"a\">W</fork><join>END</join>'");
    let _ = fs::remove_file(rig.home().join("mark"));
    let done = rig.raymond(&["workflow", "--id", "r", "--snapshots"]);
    assert_eq!(done.exit, 1, "{done:?}");
    let (sub, top) = (rig.path("sub"), rig.work());
    done.says(&format!("{} is a repository of its own inside the one in which the run began", sub.display()));
    done.says(&format!("{} is in a repository of its own, {}, inside", sub.display(), sub.display()));
    for event in rig.events().iter().filter(|event| event["event"] == "step_finished") {
        assert_eq!(event["files"]["folder"], top.display().to_string());
    }
    assert_eq!(mark(&rig), None);
}

/// What leads git elsewhere from outside of the repository.
#[test]
fn variables_of_git_start_nothing() {
    let (rig, evil) = repository();
    let more = rig.write("../more", filter(&evil)).display().to_string();
    let mut command = rig.command(&["workflow", "--id", "r", "--snapshots"]);
    for name in
        ["GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_PAGER"]
    {
        command.env(name, &evil);
    }
    command.env("GIT_CONFIG_COUNT", "2");
    command.env("GIT_CONFIG_KEY_0", "filter.evil.clean").env("GIT_CONFIG_VALUE_0", format!("{evil}; cat"));
    command.env("GIT_CONFIG_KEY_1", "include.path").env("GIT_CONFIG_VALUE_1", more);
    command.env("GIT_CONFIG_PARAMETERS", format!("'filter.evil.smudge={evil}; cat'"));
    let done = rig.launch(command).wait();
    assert_eq!(done.exit, 0, "{done:?}");
    assert_eq!(mark(&rig), None);
}

/// Git would wait for such a pipe without end.
#[test]
fn a_pipe_in_the_place_of_a_file_of_git_holds_up_nobody() {
    for name in ["HEAD", "index", "packed-refs", "info/exclude", "objects/info/alternates"] {
        let (rig, _) = repository();
        assert_eq!(rig.raymond(&["workflow", "--id", "r"]).exit, 0);
        let pipe = rig.path(".git").join(name);
        let _ = fs::remove_file(&pipe);
        assert!(rig.program("mkfifo").arg(&pipe).status().unwrap().success());
        let why = format!("{} is no plain file", pipe.canonicalize().unwrap().display());
        let seen = rig.raymond(&["doctor"]);
        let line =
            seen.stdout.lines().find(|line| line.contains(&why)).unwrap_or_else(|| panic!("{why}: {seen:?}"));
        assert!(line.contains("not known whether git tracks files"), "{line}");
        for command in [&["clean", "r", "--dry-run"][..], &["clean", "r"]] {
            rig.raymond(command).assert(1, "").says(&why);
        }
        let run = rig.raymond(&["workflow", "--id", "s", "--snapshots"]);
        assert_eq!(run.exit, 1, "{run:?}");
        run.says(&why);
        // With the pipe gone, all of it goes.
        fs::remove_file(&pipe).unwrap();
        if name == "HEAD" {
            rig.write(".git/HEAD", "ref: refs/heads/main\n");
        }
        assert_eq!(rig.raymond(&["clean", "r"]).exit, 0);
    }
}

/// Whoever may change a repository's files decides what is in it. Git itself asks for that too.
#[test]
fn a_repository_of_another_user_is_used_as_git_uses_it() {
    let (rig, _) = repository();
    let other = || std::os::unix::fs::chown(rig.path(".git"), Some(12345), None).is_ok();
    if !other() {
        return say_skipped(
            "a_repository_of_another_user_is_used_as_git_uses_it",
            "a user who can give files away",
        );
    }
    let done = rig.raymond(&["workflow", "--id", "r", "--snapshots"]);
    assert_eq!(done.exit, 1, "{done:?}");
    done.says("dubious ownership");
    let work = rig.work().canonicalize().unwrap().display().to_string();
    git(&rig, ".", &["config", "--global", "safe.directory", &work]);
    assert_eq!(rig.raymond(&["workflow", "--id", "s", "--snapshots"]).exit, 0);
}

/// A call that is built elsewhere would have none of this.
#[test]
fn one_function_builds_all_calls_of_git() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("temporal/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let is_left_out = ["tests", "tests.rs", "commit-stamp", "target"].contains(&name.as_str());
            if path.is_dir() && !is_left_out {
                folders.push(path);
            } else if name.ends_with(".rs") && !is_left_out {
                let text = fs::read_to_string(&path).unwrap();
                let starts = |call: &&&str| text.contains(**call);
                let calls = ["Command::new(\"git\"", "Spec::new(\"git\"", "Command::new(PROGRAM)"];
                found.extend(calls.iter().filter(starts).map(|call| format!("{call} in {}", path.display())));
            }
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("raymond/src/git.rs"), "{found:?}");
}
