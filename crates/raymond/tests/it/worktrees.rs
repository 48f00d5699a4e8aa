//! Workers with a git worktree of their own.

use std::fs;
use std::path::Path;

use serde_json::Value;
use test_kit::rig::{Done, Rig, wait_for_file, wait_until};

use crate::RAYMOND;
use crate::repository::{commit, front_git, git, init};

/// A repository at `work` with the file `sub/f`, of which `v1` has an older version.
fn repository() -> Rig {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write("sub/f", "one\n");
    rig.write(".gitignore", "/workflow\n/.raymond\n*.ignored\n");
    commit(&rig, ".", "one");
    git(&rig, ".", &["tag", "v1"]);
    rig.write("sub/f", "two\n");
    commit(&rig, ".", "two");
    rig
}

/// A workflow that forks these workers into WORK, which does `work`, and returns what the join tells.
fn workflow(rig: &Rig, forks: &[&str], work: &str) {
    let forks: String = forks.iter().map(|attributes| format!("<fork {attributes}>WORK</fork>")).collect();
    rig.state("START.sh", format!("cat <<'END'\n{forks}<join>DONE</join>\nEND\n"));
    rig.state("WORK.sh", format!("# raymond: fatal=agent\n{work}\n"));
    rig.state("DONE.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
}

fn run_in(rig: &Rig, folder: &str, options: &[&str]) -> Done {
    let workflow = rig.path("workflow").display().to_string();
    let mut command = rig.command(&[&workflow]);
    let id: &[&str] = if options.contains(&"--id") { &[] } else { &["--id", "r"] };
    command.args(id).args(options).current_dir(rig.path(folder));
    rig.launch(command).wait()
}

fn entries(done: &Done) -> Vec<Value> {
    assert_eq!(done.exit, 0, "{done:?}");
    serde_json::from_str(&done.stdout).unwrap()
}

fn branches(rig: &Rig) -> String {
    git(rig, ".", &["for-each-ref", "--format=%(refname:short)", "refs/heads/raymond-run"])
}

#[test]
fn each_worker_has_a_worktree_in_the_same_subfolder() {
    let rig = repository();
    rig.write("sub/f", "not committed\n");
    let said = r#"printf '<result>%s|%s|%s|%s</result>' "$PWD" "$RAYMOND_WORKTREE" "$RAYMOND_BRANCH" "$(cat f 2>/dev/null || cat sub/f)""#;
    workflow(&rig, &["worktree='a'", "worktree='b' from='v1'", ""], said);
    let entries = entries(&run_in(&rig, "sub", &[]));
    let top = rig.path(".raymond/worktrees/r").display().to_string();
    for (entry, name, content) in [(&entries[0], "a", "two"), (&entries[1], "b", "one")] {
        let expected = format!("{top}/{name}/sub|{top}/{name}|raymond-run/r/{name}|{content}");
        assert_eq!(entry["result"], expected);
        assert_eq!(entry["worktree"], format!("{top}/{name}"));
        assert_eq!(entry["branch"], format!("raymond-run/r/{name}"));
    }
    assert_eq!(
        entries[2]["result"],
        format!("{}||not committed", rig.path("sub").display()).replace("||", "|||")
    );
    assert!(entries[2].get("worktree").is_none());
    assert_eq!(rig.read("sub/f"), "not committed\n", "the parent's folder is not touched");
    assert_eq!(branches(&rig), "", "branches without commits are removed");
    assert!(!rig.path(".raymond/worktrees").exists(), "nothing is left of clean worktrees");
    let started = rig.events().into_iter().find(|event| event["agent"] == "main_work1").unwrap();
    assert_eq!(started["worktree"]["base"], git(&rig, ".", &["rev-parse", "HEAD"]));
}

/// Git gives up when it comes upon a worktree that another git is just making.
#[test]
fn a_worktree_that_another_program_is_making_does_not_matter() {
    let rig = repository();
    let half_made = rig.path(".git/worktrees/half");
    fs::create_dir_all(&half_made).unwrap();
    for (file, text) in [("HEAD", "ref: refs/heads/x\n"), ("gitdir", "/nowhere/.git\n"), ("commondir", "")] {
        fs::write(half_made.join(file), text).unwrap();
    }
    // The other program goes on once git has failed.
    let folder = rig.home().join("finishing");
    let commondir = half_made.join("commondir");
    let path = front_git(&folder, |real| {
        let finish = format!("*'worktree add'*) echo ../.. > {} ;;", commondir.display());
        format!("{real} \"$@\"; code=$?\ncase \"$code $*\" in 0*) ;; {finish} esac\nexit $code")
    });
    workflow(&rig, &["worktree='a'"], "printf '<result>%s</result>' \"$(cat sub/f)\"");
    let workflow = rig.path("workflow").display().to_string();
    let mut command = rig.command(&[&workflow, "--id", "r"]);
    command.env("PATH", path);
    let entries = entries(&rig.launch(command).wait());
    assert_eq!(entries[0]["result"], "two");
    assert_eq!(fs::read_to_string(&commondir).unwrap(), "../..\n", "git met the other worktree");
}

/// Git removes its locks when it ends, but not when it is killed. Each script is killed with Raymond in its first attempt.
#[test]
fn locks_of_a_killed_git_do_not_matter() {
    let rig = repository();
    let work = r#"
        cd "$RAYMOND_WORKTREE"
        if [ ! -e "$RAYMOND_TASK_FOLDER/again" ]; then
            touch "$RAYMOND_TASK_FOLDER/again" "$(git rev-parse --git-path index.lock)"
            touch "$(git rev-parse --git-path HEAD.lock)" "$(git rev-parse --git-path refs/heads/$RAYMOND_BRANCH.lock)"
            own=$(git rev-parse --absolute-git-dir); mkdir -p "$own/rebase-merge"
            touch "$own/MERGE_MSG.lock" "$own/rebase-merge/any.lock"
            kill -9 $PPID; sleep 1000
        fi
        set -e
        [ -z "$(find "$(git rev-parse --absolute-git-dir)" -name '*.lock')" ]
        rmdir "$(git rev-parse --absolute-git-dir)/rebase-merge"
        echo mine > sub/f
        git commit -qam mine
        printf '<result>%s</result>' "$(git log -1 --format=%s)""#;
    workflow(&rig, &["worktree='a'"], work);
    run_in(&rig, ".", &[]);
    assert_eq!(entries(&rig.raymond(&["resume", "r"]))[0]["result"], "mine");
}

/// A git is killed with Raymond after it has locked the branch that it makes.
#[test]
fn the_lock_of_a_half_made_branch_does_not_matter() {
    let rig = repository();
    let lock = rig.path(".git/refs/heads/raymond-run/r/a.lock");
    let path = front_git(&rig.home().join("killed"), |real| {
        let (folder, lock) = (lock.parent().unwrap().display(), lock.display());
        let kill = format!("mkdir -p {folder}; touch {lock}; kill -9 $PPID; exit 1");
        format!("case \"$*\" in *'update-ref refs/heads/raymond-run'*) {kill} ;; esac\nexec {real} \"$@\"")
    });
    workflow(&rig, &["worktree='a'"], "printf '<result>%s</result>' \"$(cat sub/f)\"");
    let workflow = rig.path("workflow").display().to_string();
    let mut command = rig.command(&[&workflow, "--id", "r"]);
    command.env("PATH", path);
    rig.launch(command).wait();
    assert!(lock.exists(), "git was not killed");
    assert_eq!(entries(&rig.raymond(&["resume", "r"]))[0]["result"], "two");
}

/// A git is killed with Raymond while it registers a worktree. Until that is mended, each other call of git fails.
#[test]
fn a_worktree_of_the_run_that_a_killed_git_has_half_made_does_not_matter() {
    let rig = repository();
    let path = front_git(&rig.home().join("killed"), |real| {
        let half_made = rig.path(".git/worktrees/a");
        let gitdir = rig.path(".raymond/worktrees/r/a/.git");
        let kill = format!(
            "mkdir -p {0}; echo ref: refs/heads/x > {0}/HEAD; echo {1} > {0}/gitdir; touch {0}/commondir; kill -9 $PPID; exit 1",
            half_made.display(),
            gitdir.display()
        );
        format!("case \"$*\" in *'worktree add'*) {kill} ;; esac\nexec {real} \"$@\"")
    });
    workflow(&rig, &["worktree='b'", "worktree='a'"], "printf '<result>%s</result>' \"$(cat sub/f)\"");
    let workflow = rig.path("workflow").display().to_string();
    let mut command = rig.command(&[&workflow, "--id", "r"]);
    command.env("PATH", path);
    rig.launch(command).wait();
    let entries = entries(&rig.raymond(&["resume", "r"]));
    assert_eq!((&entries[0]["result"], &entries[1]["result"]), (&"two".into(), &"two".into()), "{entries:?}");
}

#[test]
fn what_would_be_lost_stays_and_is_named() {
    let rig = repository();
    let names =
        ["clean", "ignored", "changed", "assumed", "skipped", "untracked", "commit", "detached", "merge"];
    let forks: Vec<String> = names.iter().map(|name| format!("worktree='{name}'")).collect();
    let work = r#"
        set -e
        case $(basename "$RAYMOND_WORKTREE") in
        ignored) echo x > a.ignored ;;
        changed) echo x > sub/f ;;
        assumed) git update-index --assume-unchanged sub/f; echo x > sub/f ;;
        skipped) git update-index --skip-worktree sub/f; echo x > sub/f ;;
        untracked) echo x > new ;;
        commit) echo x > sub/f; git commit -qam mine ;;
        detached) git checkout -q --detach; echo y > sub/f; git commit -qam mine ;;
        merge) git checkout -qb other v1; git merge -q -s ours --no-commit "$RAYMOND_BRANCH" >&2 ;;
        esac
        echo '<result>ok</result>'"#;
    let forks: Vec<&str> = forks.iter().map(String::as_str).collect();
    workflow(&rig, &forks, work);
    let done = run_in(&rig, ".", &[]);
    assert!(entries(&done).iter().all(|entry| entry["status"] == "done"), "{done:?}");
    let top = rig.path(".raymond/worktrees/r").display().to_string();
    for (name, why) in [
        ("changed", "it has changes that are not committed"),
        ("assumed", "it has changes that are not committed"),
        ("skipped", "it has changes that are not committed"),
        ("untracked", "it has files that are not in git"),
        ("detached", "it has commits that no branch has"),
        ("merge", "a merge is under way in it"),
    ] {
        done.says(&format!("kept the worktree {top}/{name} (branch raymond-run/r/{name}): {why}"));
        assert!(Path::new(&top).join(name).exists());
    }
    for name in ["clean", "ignored", "commit"] {
        assert!(!Path::new(&top).join(name).exists(), "{name}");
        assert!(!done.stderr.contains(&format!("worktrees/r/{name} ")), "{}", done.stderr);
    }
    let left = branches(&rig);
    assert!(left.contains("r/commit") && !left.contains("r/clean") && !left.contains("r/ignored"), "{left}");
    // Once the work is saved, a look at the result removes the rest.
    git(&rig, ".raymond/worktrees/r/changed", &["commit", "-qam", "saved"]);
    rig.raymond(&["resume", "r"]).says("worktrees/r/untracked");
    assert!(!Path::new(&top).join("changed").exists());
}

#[test]
fn no_hook_runs_and_the_index_is_not_written() {
    let rig = repository();
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        let hook = rig.write(
            &format!(".git/hooks/{hook}"),
            format!("#!/bin/sh\ntouch {}/{hook}.ran\n", rig.work().display()),
        );
        fs::set_permissions(hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let before = fs::metadata(rig.path(".git/index")).unwrap().modified().unwrap();
    workflow(&rig, &["worktree='a'"], "cat sub/f >&2; echo '<result>ok</result>'");
    assert_eq!(entries(&run_in(&rig, ".", &[]))[0]["status"], "done");
    let ran: Vec<_> = fs::read_dir(rig.work())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().ends_with(".ran"))
        .collect();
    assert!(ran.is_empty(), "{ran:?}");
    assert_eq!(fs::metadata(rig.path(".git/index")).unwrap().modified().unwrap(), before);
}

#[test]
fn mistakes_are_explained_before_a_worker_starts() {
    let fails = |rig: &Rig, fork: &str, says: &str| {
        workflow(rig, &[fork], "echo '<result>ok</result>'");
        let done = run_in(rig, ".", &[]);
        assert_eq!(done.exit, 1, "{done:?}");
        done.says(says);
        assert!(rig.events().iter().all(|event| event["agent"] != "main_work1"));
        fs::remove_dir_all(rig.path(".raymond")).unwrap();
    };
    let rig = repository();
    fails(&rig, "worktree='a' from='nowhere'", "`from=\"nowhere\"` names no commit");
    fails(&rig, "worktree='a' from='HEAD:sub/f'", "names no commit");
    fails(&rig, "worktree='a' from='--help'", "does not begin with `-`");
    fails(&rig, "worktree='-f'", "begins with neither `.` nor `-`");
    fails(&rig, "worktree='a' cd='.'", "leave out one of the two");
    git(&rig, ".", &["branch", "raymond-run/r/A"]);
    fails(&rig, "worktree='a'", "there is a branch `raymond-run/r/a` already");
    let rig = Rig::new(RAYMOND);
    fails(&rig, "worktree='a'", "is in no git repository");
    init(&rig, ".");
    fails(&rig, "worktree='a'", "no commit yet");
}

#[test]
fn a_dirty_submodule_is_an_error() {
    let rig = repository();
    init(&rig, "other");
    rig.write("other/g", "1\n");
    commit(&rig, "other", "one");
    git(&rig, ".", &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./other", "module"]);
    fs::remove_dir_all(rig.path("other")).unwrap();
    git(&rig, ".", &["commit", "-qam", "module"]);
    rig.write("sub/f", "changes outside of the submodule do not matter\n");
    workflow(&rig, &["worktree='a'"], "echo '<result>ok</result>'");
    assert_eq!(entries(&run_in(&rig, ".", &["--id", "clean"]))[0]["status"], "done");
    rig.write("module/g", "2\n");
    run_in(&rig, ".", &[]).says("the submodule `module` has changes that are not committed here");
    git(&rig, "module", &["update-index", "--assume-unchanged", "g"]);
    let done = run_in(&rig, ".", &["--id", "hidden"]);
    done.says("the submodule `module` has changes that are not committed here");
}

#[test]
fn other_layouts_of_repositories_work_too() {
    let work = "git rev-parse --abbrev-ref HEAD >&2; printf '<result>%s %s</result>' \"$(cat f)\" \"$(git rev-parse --show-toplevel)\"";
    // A worktree of the user's own, a bare repository with worktrees beside it, and files outside of the repository.
    let own = |rig: &Rig| drop(git(rig, ".", &["worktree", "add", "-q", "-b", "own", "../own"]));
    let bare = |rig: &Rig| {
        git(rig, "..", &["clone", "-q", "--bare", "work", "place/.bare"]);
        fs::write(rig.path("../place/.git"), "gitdir: ./.bare\n").unwrap();
        git(rig, "../place", &["worktree", "add", "-q", "../own", "master"]);
    };
    let elsewhere = |rig: &Rig| {
        git(rig, "..", &["clone", "-q", "work", "own"]);
        fs::rename(rig.path("../own/.git"), rig.path("../data")).unwrap();
        fs::write(rig.path("../own/.git"), format!("gitdir: {}\n", rig.path("../data").display())).unwrap();
        git(rig, "../own", &["config", "core.worktree", rig.path("../own").to_str().unwrap()]);
    };
    let layouts: [&dyn Fn(&Rig); 3] = [&own, &bare, &elsewhere];
    for (number, make) in layouts.iter().enumerate() {
        let rig = repository();
        make(&rig);
        workflow(&rig, &["worktree='a'"], work);
        let entries = entries(&run_in(&rig, "../own/sub", &[]));
        let top = rig.path("../own").canonicalize().unwrap().join(".raymond/worktrees/r/a");
        assert_eq!(entries[0]["result"], format!("two {}", top.display()), "layout {number}");
        assert!(!top.exists());
        assert_eq!(git(&rig, "../own", &["status", "--porcelain", "-uno"]), "", "layout {number}");
    }
}

#[test]
fn variables_of_git_do_not_lead_astray() {
    let rig = repository();
    workflow(&rig, &["worktree='a'"], "printf '<result>%s</result>' \"$(git rev-parse --abbrev-ref HEAD)\"");
    let mut command = rig.command(&["workflow", "--id", "r"]);
    command.env("GIT_DIR", "/nowhere").env("GIT_INDEX_FILE", "/nowhere/index");
    let done = rig.launch(command).wait();
    assert_eq!(entries(&done)[0]["result"], "raymond-run/r/a");
}

#[test]
fn a_state_folder_of_its_own_holds_the_worktrees() {
    let rig = repository();
    workflow(&rig, &["worktree='a'"], "echo dirt > sub/f; echo \"<result>$PWD</result>\"");
    let folder = rig.path("..").canonicalize().unwrap().join("state").display().to_string();
    let entries = entries(&run_in(&rig, ".", &["--state-dir", &folder]));
    assert_eq!(entries[0]["result"], format!("{folder}/worktrees/r/a"));
}

#[test]
fn a_model_may_fork_into_a_worktree_and_its_prompt_knows_it() {
    let rig = repository();
    rig.state("workflow.yaml", "backend: scripted\n");
    rig.state("START.md", "---\nallowed_transitions: [ { tag: fork, target: WORK, next: N } ]\n---\nGo.");
    rig.state("WORK.md", "{{worktree}} {{branch}}");
    rig.state("N.sh", "echo '<join>DONE</join>'")
        .state("DONE.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    let fork = |name: &str| format!("<fork next=\"N\" worktree=\"{name}\">WORK</fork>");
    let replies = format!("START: [ '{}', '{}' ]\nWORK: <result>seen</result>\n", fork("../../x"), fork("a"));
    rig.state("replies.yaml", replies);
    let done = run_in(&rig, ".", &[]);
    done.says("the name of a worktree consists of letters");
    assert_eq!(entries(&done)[0]["result"], "seen");
    let prompt = fs::read_dir(rig.path(".raymond/debug/r")).unwrap().flatten().map(|entry| entry.path());
    let prompt = prompt
        .filter(|path| path.to_string_lossy().ends_with(".prompt.md"))
        .map(|path| fs::read_to_string(path).unwrap());
    let expected = format!("{} raymond-run/r/a", rig.path(".raymond/worktrees/r/a").display());
    assert!(prompt.into_iter().any(|text| text == expected));
}

/// A file of the repository whose checkout waits until there is a file `gate`.
fn slow_checkout(rig: &Rig) {
    let work = rig.work().display().to_string();
    let smudge = format!("touch '{work}/begun'; until [ -e '{work}/gate' ]; do sleep 0.01; done; cat");
    git(rig, ".", &["config", "--global", "filter.slow.smudge", &smudge]);
    git(rig, ".", &["config", "--global", "filter.slow.clean", "cat"]);
    rig.write(".gitattributes", "*.slow filter=slow\n");
    rig.write("x.slow", "slow\n");
    commit(rig, ".", "slow");
}

#[test]
fn a_worktree_is_made_once_however_often_raymond_is_killed() {
    let rig = repository();
    slow_checkout(&rig);
    workflow(
        &rig,
        &["worktree='a'"],
        "echo ran >> ../../../../trace; printf '<result>%s%s</result>' \"$(cat x.slow)\" \"$(git status --porcelain)\"",
    );
    let mut live = rig.start(&["workflow", "--id", "r"]);
    for _ in 0..3 {
        wait_for_file(&rig.path("begun"));
        live.kill();
        assert_eq!(rig.read("trace"), "", "nothing runs in a worktree that is half made");
        fs::remove_file(rig.path("begun")).unwrap();
        wait_until("the run to be let go", || rig.status()["status"] != "running");
        live = rig.start(&["resume", "r"]);
    }
    wait_for_file(&rig.path("begun"));
    rig.write("gate", "");
    let done = live.wait();
    assert_eq!(entries(&done)[0]["result"], "slow");
    assert_eq!(rig.read("trace"), "ran\n");
    rig.assert_nothing_lives();
    assert_eq!(git(&rig, ".", &["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
}

#[test]
fn what_an_interrupted_worker_did_is_still_there_after_a_kill() {
    let rig = repository();
    let work = "[ -e done ] && { printf '<result>%s</result>' \"$(cat done)\"; exit; }; echo kept > done; touch ../../../../begun; sleep 300";
    workflow(&rig, &["worktree='a'"], work);
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("begun"));
    live.kill();
    wait_until("the run to be let go", || rig.status()["status"] != "running");
    assert_eq!(entries(&rig.resume())[0]["result"], "kept");
}
