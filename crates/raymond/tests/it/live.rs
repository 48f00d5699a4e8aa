//! The live view, on an emulated terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use test_kit::needs::{is_missing, say_skipped};
use test_kit::rig::{Rig, wait_for_file, wait_until};

use crate::RAYMOND;

const SAVE_TITLE: &str = "\x1b[22;0t";
const RESTORE_TITLE: &str = "\x1b[23;0t";

/// A program on its own terminal.
struct Terminal {
    master: File,
    slave: OwnedFd,
    seen: Arc<Mutex<Seen>>,
    child: Child,
}

/// The screen of the terminal, and everything that was sent to it.
struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    /// Runs Raymond with the terminal as its controlling terminal, so that Ctrl-C reaches it.
    fn run(rig: &Rig, (columns, rows): (u16, u16), variables: &[(&str, &str)], args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        let master = File::from(master);
        let parser = vt100::Parser::new(size(rows), size(columns), 1000);
        let seen = Arc::new(Mutex::new(Seen { parser, bytes: Vec::new() }));
        resize(&master, columns, rows);
        read_along(master.try_clone().unwrap(), Arc::clone(&seen));
        let mut command = rig.program("setsid");
        command
            .args(["-c", RAYMOND])
            .args(args)
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied());
        let end = || slave.try_clone().unwrap();
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { master, slave, seen, child }
    }

    fn resize(&self, columns: u16, rows: u16) {
        self.seen.lock().unwrap().parser.screen_mut().set_size(size(rows), size(columns));
        resize(&self.master, columns, rows);
    }

    fn write(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn screen(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    fn sent(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().bytes).into_owned()
    }

    fn shows_typing(&self) -> bool {
        tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Returns the screen for which the condition held, because a moment later the screen may be partly drawn.
    #[track_caller]
    fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        wait_until(what, || {
            screen = self.screen();
            holds(&screen)
        });
        screen
    }

    /// Waits for the end; the terminal must have its initial settings again.
    #[track_caller]
    fn ends_with(mut self, exit: i32) -> String {
        wait_until("the end", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        assert!(self.shows_typing(), "echo is still off");
        // Once this arrives, everything that was sent before has arrived.
        File::from(self.slave.try_clone().unwrap()).write_all(b"<the end>").unwrap();
        self.wait_for("<the end>");
        assert_eq!(status.code(), Some(exit), "{}", self.screen());
        let sent = self.sent();
        assert_eq!(sent.matches(SAVE_TITLE).count(), sent.matches(RESTORE_TITLE).count(), "{sent:?}");
        let shows_cursor = sent.rfind("\x1b[?25h") >= sent.rfind("\x1b[?25l");
        assert!(shows_cursor, "the cursor is still hidden");
        self.screen()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen:\n{}", self.screen());
        }
    }
}

fn size(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

fn resize(master: &File, columns: u16, rows: u16) {
    tcsetwinsize(master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

fn read_along(mut master: File, seen: Arc<Mutex<Seen>>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            let mut seen = seen.lock().unwrap();
            seen.parser.process(&buffer[..count]);
            seen.bytes.extend_from_slice(&buffer[..count]);
        }
    });
}

/// A worker that prints something and waits for a file; `main` joins it.
fn working() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"JOIN\">WORK</fork>'");
    rig.state("JOIN.sh", "echo '<join>END</join>'").state("END.sh", "echo '<result>all done</result>'");
    rig.state(
        "WORK.sh",
        "echo 'a first line'; printf '\\033[31mhalf way\\033[0m through'; until [ -e go ]; do sleep 0.01; done
         echo; echo '<result>worked</result>'",
    );
    rig
}

/// Whether a test must be skipped because it cannot have its own terminal.
fn lacks_a_terminal(test: &str) -> bool {
    if is_missing("setsid", test) {
        return true;
    }
    let is_refused = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).is_err();
    if is_refused {
        say_skipped(test, "a pseudo-terminal, which the system does not give");
    }
    is_refused
}

#[test]
fn the_view_shows_running_agents_and_at_the_end_only_past_events_remain() {
    if lacks_a_terminal("it_shows_what_agents_do_and_leaves_only_what_has_happened") {
        return;
    }
    let rig = working();
    let terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    let screen = terminal.wait_until("both agents", |screen| {
        screen.contains("half way through") && screen.contains("waits for 1 worker")
    });
    let lines: Vec<&str> = screen.lines().collect();
    let [heading, main, worker] = lines[lines.len() - 3..] else { panic!("{screen}") };
    assert!(
        heading.starts_with("r · ") && heading.contains("$0.00 of $10.00 · 2 steps · 2 agents"),
        "{heading}"
    );
    assert!(main.starts_with("main ") && main.ends_with("waits for 1 worker"), "{main}");
    assert!(worker.starts_with("main_work1 WORK.sh running"), "{worker}");
    assert!(screen.contains("[main] JOIN.sh → join END.sh"), "{screen}");
    assert!(!terminal.shows_typing(), "typed text would appear in the view");
    assert!(terminal.sent().contains("\x1b]0;raymond r · 2 agents\x1b\\"), "{:?}", terminal.sent());
    rig.write("go", "");
    let screen = terminal.ends_with(0);
    let after: Vec<&str> = screen.lines().skip_while(|line| !line.starts_with("[main] done")).collect();
    assert!(after[1].starts_with("completed (4 steps, 2 agents"), "{screen}");
    assert_eq!(after[2..], ["all done", "<the end>"]);
    assert!(!screen.contains("running") && !screen.contains("─"), "{screen}");
}

/// A turn's stream tells what it costs before the turn has ended. That is shown as an estimate and not recorded.
#[test]
fn the_view_shows_what_a_running_turn_spends() {
    if lacks_a_terminal("the_view_shows_what_a_running_turn_spends") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Work.");
    rig.agent(
        r#"[{ "tools": ["Read"], "run": "until [ -e go ]; do sleep 0.01; done", "cost": 0.25,
             "reply": "<result>ok</result>" }]"#,
    );
    let terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    let screen =
        terminal.wait_until("an estimate in both lines", |screen| screen.matches("~$0.25").count() == 2);
    assert!(screen.contains(" · ~$0.25 of $10.00 · 0 steps"), "{screen}");
    assert_eq!(rig.status()["cost_usd"], 0.0);
    rig.write("go", "");
    let screen = terminal.ends_with(0);
    assert!(screen.contains("completed (1 step, 1 agent, $0.25,"), "{screen}");
    assert_eq!(rig.status()["cost_usd"], 0.25);
}

#[test]
fn the_view_follows_changes_of_the_terminal_size() {
    if lacks_a_terminal("it_follows_a_terminal_that_changes_its_size") {
        return;
    }
    let rig = working();
    let terminal = Terminal::run(&rig, (40, 24), &[], &["workflow", "--id", "r"]);
    terminal.wait_until("the heading", |screen| screen.lines().any(|line| line.starts_with("r · ")));
    let headings = |screen: &str| screen.lines().filter(|line| line.starts_with("r · ")).count();
    assert!(!terminal.screen().contains("half way"), "there is no room for output");
    for (columns, rows) in [(120, 24), (120, 12), (60, 5), (100, 30)] {
        terminal.resize(columns, rows);
        let width = usize::from(columns) - 1;
        let fits = |line: &str| line.starts_with("r · ") && line.chars().count() == width;
        let what = format!("one heading at {columns} × {rows}, and that of the right width");
        terminal.wait_until(&what, |screen| headings(screen) == 1 && screen.lines().any(fits));
    }
    terminal.wait_for("half way through");
    rig.write("go", "");
    assert_eq!(headings(&terminal.ends_with(0)), 0);
}

/// A real terminal wraps lines that are now too long. The wrapped parts must be removed too.
///
/// If the terminal changes between Raymond's look at its size and the drawing, no program can tell what is on the screen.
/// That happens now and then on a busy machine, so there is more than one try.
#[test]
fn no_old_lines_remain_when_the_terminal_becomes_narrow() {
    if is_missing("tmux", "no_old_lines_remain_when_the_terminal_becomes_narrow") {
        return;
    }
    let screens: Vec<String> = (0..3).map_while(|_| screen_with_old_lines()).collect();
    assert!(screens.len() < 3, "old lines remain: {screens:#?}");
}

/// Makes a terminal narrow in which the view is shown. Returns the screen if old lines remain on it.
fn screen_with_old_lines() -> Option<String> {
    let rig = working();
    let socket = rig.path("tmux.socket");
    let tmux = |args: &[&str]| {
        let mut command = rig.program("tmux");
        command.args(["-f", "/dev/null", "-S"]).arg(&socket).args(args).env("TERM", "xterm-256color");
        rig.launch(command).wait()
    };
    let window = ["new-session", "-d", "-x", "100", "-y", "24", RAYMOND, "workflow", "--id", "r"];
    let begun = tmux(&window);
    assert_eq!(begun.exit, 0, "{begun:?}");
    let shown = || tmux(&["capture-pane", "-p", "-S", "-"]).stdout;
    // Now only the clock changes, once a second.
    let is_steady =
        |screen: &str| screen.contains("half way through") && screen.contains("waits for 1 worker");
    wait_until("a steady view", || is_steady(&shown()));
    assert_eq!(tmux(&["resize-window", "-x", "36", "-y", "24"]).exit, 0);
    let is_narrow = |line: &str| line.starts_with("main_work1 WORK.sh running") && line.ends_with('s');
    let is_right = |screen: &str| {
        let count = |start: &str| screen.lines().filter(|line| line.starts_with(start)).count();
        (count("r · "), count("main "), count("main_work1 ")) == (1, 1, 1)
            && (count("─"), count("aits for"), count("alf way")) == (0, 0, 0)
            && count("r runs workflow") == 1
    };
    wait_until("a narrow view", || shown().lines().any(is_narrow));
    // The view may be partly drawn, so the screen has to be right at some moment. Old lines would remain.
    let screens: Vec<String> = (0..20).map(|_| shown()).take_while(|screen| !is_right(screen)).collect();
    rig.write("go", "");
    wait_until("the end", || rig.status()["status"] == "completed");
    screens.into_iter().nth(19)
}

/// The worker continues in the meantime, and its output is shown afterwards.
#[test]
fn typing_an_answer_is_not_disturbed() {
    if lacks_a_terminal("typing_an_answer_is_not_disturbed") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"ASK\">WORK</fork>'");
    rig.state("ASK.sh", "until [ -e asks ]; do sleep 0.01; done; echo '<ask next=\"GOT\">why?</ask>'");
    rig.state(
        "GOT.sh",
        "until [ -e go ]; do sleep 0.01; done; echo \"<result>got $RAYMOND_RESULT</result>\"",
    );
    rig.state(
        "WORK.sh",
        "until [ -e speak ]; do sleep 0.01; done; echo '<print>meanwhile</print>'; sleep 0.5; touch spoken
         until [ -e go ]; do sleep 0.01; done; echo '<result>w</result>'",
    );
    let mut terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    terminal.wait_for("WORK.sh running");
    rig.write("asks", "");
    terminal.wait_for("\n> ");
    assert!(!terminal.screen().contains("running"), "{}", terminal.screen());
    terminal.write("beca");
    terminal.wait_for("> beca");
    rig.write("speak", "");
    // Long enough for several drawings, if the view were drawn.
    wait_for_file(&rig.path("spoken"));
    wait_until("the print in the journal", || rig.read(".raymond/state/r.jsonl").contains("meanwhile"));
    terminal.write("use");
    terminal.wait_for("> because");
    assert!(!terminal.screen().contains("meanwhile"), "{}", terminal.screen());
    terminal.write("\r");
    let screen = terminal.wait_for("GOT.sh  running");
    assert!(screen.contains("> because\n[main_work1] meanwhile\n"), "{screen}");
    assert!(!terminal.shows_typing());
    rig.write("go", "");
    assert!(terminal.ends_with(0).contains("got because"));
}

#[test]
fn the_view_returns_when_a_question_is_answered_by_the_command() {
    if lacks_a_terminal("a_question_that_is_answered_elsewhere_gives_the_screen_back") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<ask next=\"GOT\">why?</ask>'");
    rig.state(
        "GOT.sh",
        "until [ -e go ]; do sleep 0.01; done; echo \"<result>got $RAYMOND_RESULT</result>\"",
    );
    let mut terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    terminal.wait_for("\n> ");
    terminal.write("half an ans");
    terminal.wait_for("half an ans");
    rig.raymond(&["answer", "r", "elsewhere", "--no-resume"]).assert(0, "");
    let screen = terminal.wait_for("GOT.sh running");
    assert!(!screen.contains("half an ans"), "{screen}");
    rig.write("go", "");
    assert!(terminal.ends_with(0).contains("got elsewhere"));
}

#[test]
fn ctrl_c_restores_the_terminal() {
    if lacks_a_terminal("ctrl_c_leaves_the_terminal_in_order") {
        return;
    }
    let rig = working();
    let mut terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    terminal.wait_for("half way through");
    terminal.write("\x03");
    terminal.wait_for("r · stopping · ");
    terminal.wait_for("press Ctrl-C again to end them");
    terminal.write("\x03");
    let screen = terminal.ends_with(130);
    assert!(
        screen.contains("interrupted (") && screen.contains("continue with: raymond resume r"),
        "{screen}"
    );
    assert!(!screen.contains("─") && !screen.contains("running   "), "{screen}");
}

/// A stop during a question is reported at once, and the question stays open.
#[test]
fn ctrl_c_at_a_question_restores_the_terminal() {
    if lacks_a_terminal("ctrl_c_at_a_question_leaves_the_terminal_in_order") {
        return;
    }
    let rig = working();
    rig.state("JOIN.sh", "echo '<ask next=\"END\">why?</ask>'");
    let mut terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    terminal.wait_for("\n> ");
    wait_until("the worker", || rig.read(".raymond/state/r.jsonl").contains("WORK.sh"));
    terminal.write("\x03");
    terminal.wait_for("may finish");
    rig.write("go", "");
    let screen = terminal.ends_with(130);
    assert!(screen.contains("raymond answer r ask1 'your answer'"), "{screen}");
}

#[test]
fn a_failure_restores_the_terminal() {
    if lacks_a_terminal("a_failure_leaves_the_terminal_in_order") {
        return;
    }
    let rig = working();
    rig.state("WORK.sh", "until [ -e go ]; do sleep 0.01; done; echo oh no >&2; exit 3");
    let terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    terminal.wait_for("WORK.sh running");
    rig.write("go", "");
    let screen = terminal.ends_with(1);
    assert!(screen.contains("stderr: oh no") && screen.contains("raymond resume r"), "{screen}");
    assert!(!screen.contains("─"), "{screen}");
}

/// After a resume the view shows all agents of the journal.
#[test]
fn the_view_shows_all_agents_of_a_resumed_run() {
    if lacks_a_terminal("a_resumed_run_is_shown_whole") {
        return;
    }
    let rig = working();
    let live = rig.start(&["workflow", "--id", "r"]);
    live.wait_for_stderr("JOIN.sh → join");
    wait_until("the worker", || {
        rig.read(".raymond/state/r.jsonl").contains("\"state\":\"WORK.sh\",\"visits\"")
    });
    live.kill();
    let terminal = Terminal::run(&rig, (80, 24), &[], &["resume", "r"]);
    let screen = terminal.wait_for("half way through");
    assert!(screen.contains("waits for 1 worker") && screen.contains("2 steps · 2 agents"), "{screen}");
    rig.write("go", "");
    terminal.ends_with(0);
}

#[test]
fn of_many_agents_the_busiest_are_shown() {
    if lacks_a_terminal("of_many_agents_the_busiest_are_shown") {
        return;
    }
    let rig = working();
    rig.state("START.sh", "for i in $(seq 30); do echo '<fork next=\"JOIN\">LATE</fork>'; done; echo '<fork next=\"JOIN\">WORK</fork>'");
    rig.state(
        "LATE.sh",
        "[ -e go ] && echo '<result>late</result>' || echo '<goto delay=\"1s\">LATE</goto>'",
    );
    let terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    terminal.wait_for("half way through");
    terminal.wait_for("LATE.sh 0 of 30 done");
    terminal.wait_for("… and 19 more: ");
    rig.write("go", "");
    terminal.ends_with(0);
}

/// Where the view is off, there are plain lines without escape sequences other than colours.
#[test]
fn the_view_can_be_switched_off() {
    if lacks_a_terminal("it_can_be_done_without") {
        return;
    }
    for (variables, args) in [
        (&[("NO_COLOR", "1")][..], &[][..]),
        (&[("CI", "true")], &[]),
        (&[("TERM", "dumb")], &[]),
        (&[], &["--json"]),
        (&[], &["--quiet"]),
    ] {
        let rig = working();
        rig.state("WORK.sh", "sleep 0.3; echo '<result>worked</result>'");
        let all = [&["workflow", "--id", "r"], args].concat();
        let terminal = Terminal::run(&rig, (80, 24), variables, &all);
        let seen = Arc::clone(&terminal.seen);
        terminal.ends_with(0);
        let sent = String::from_utf8_lossy(&seen.lock().unwrap().bytes).into_owned();
        for escape in ["\x1b[?", "\x1b]", "\x1b[J", "\x1b[22"] {
            assert!(!sent.contains(escape), "{variables:?} {args:?}: {sent:?}");
        }
    }
}

#[test]
fn the_view_is_drawn_at_most_ten_times_a_second() {
    if lacks_a_terminal("it_is_drawn_ten_times_a_second_however_much_is_printed") {
        return;
    }
    let rig = working();
    rig.state("WORK.sh", "until [ -e go ]; do echo line $((i += 1)); done; echo '<result>worked</result>'");
    let terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    wait_until("some drawings", || terminal.sent().matches("\x1b[?2026h").count() > 15);
    rig.write("go", "");
    let seen = Arc::clone(&terminal.seen);
    terminal.ends_with(0);
    let sent = String::from_utf8_lossy(&seen.lock().unwrap().bytes).into_owned();
    let seconds = rig.status()["ended_at"].as_str().map(seconds_of).unwrap()
        - rig.status()["started_at"].as_str().map(seconds_of).unwrap();
    let drawings = sent.matches("\x1b[?2026h").count();
    assert!(drawings as f64 <= 10.0 * seconds + 2.0, "{drawings} drawings in {seconds} s");
}

fn seconds_of(time: &str) -> f64 {
    time.parse::<jiff::Timestamp>().unwrap().as_millisecond() as f64 / 1000.0
}

/// As with Ctrl-S, or a connection that hangs.
#[test]
fn a_blocked_terminal_does_not_delay_the_run() {
    if lacks_a_terminal("a_terminal_that_takes_nothing_does_not_hold_up_the_run") {
        return;
    }
    let rig = working();
    let text = "x".repeat(100);
    rig.state(
        "END.sh",
        format!("for i in $(seq 2000); do echo '<print>{text}</print>'; done; echo '<result>ok</result>'"),
    );
    let terminal = Terminal::run(&rig, (80, 24), &[], &["workflow", "--id", "r"]);
    terminal.wait_for("half way through");
    let seen = Arc::clone(&terminal.seen);
    let nobody_reads = seen.lock().unwrap();
    rig.write("go", "");
    wait_until("the end of the run", || rig.read(".raymond/state/r.jsonl").contains("run_finished"));
    drop(nobody_reads);
    terminal.ends_with(0);
}

/// A run `r` with a log of a dozen lines.
fn with_a_long_log() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "[ $RAYMOND_VISITS = 5 ] && echo '<result>over</result>' || echo '<goto>START</goto>'",
    );
    rig.run().assert(0, "over\n");
    rig
}

#[test]
fn a_long_log_is_shown_in_the_pager_of_the_user() {
    if lacks_a_terminal("a_long_log_is_shown_in_the_pager_of_the_user") {
        return;
    }
    let rig = with_a_long_log();
    let pager = ("PAGER", "sed s/^/|/");
    let log = |rows: u16, pager: (&str, &str), args: &[&str]| {
        Terminal::run(&rig, (120, rows), &[pager], &[&["log", "r"], args].concat()).ends_with(0)
    };
    let screen = log(8, pager, &[]);
    assert!(
        screen.contains("\n|20") && screen.contains("run_finished") | screen.contains("completed"),
        "{screen}"
    );
    for (rows, pager, args) in [
        (40, pager, ["--agent", "main"].as_slice()),
        (8, pager, ["--no-pager"].as_slice()),
        (8, pager, ["--follow"].as_slice()),
        (8, pager, ["--json"].as_slice()),
        (8, ("PAGER", "no-such-pager"), [].as_slice()),
    ] {
        let screen = log(rows, pager, args);
        assert!(!screen.contains("\n|") && screen.contains("main"), "{args:?}: {screen}");
    }
    let mut without_terminal = rig.command(&["log", "r"]);
    without_terminal.env(pager.0, pager.1);
    let done = rig.launch(without_terminal).wait();
    assert!(!done.stdout.contains("\n|") && done.stdout.lines().count() > 8, "{done:?}");
}
