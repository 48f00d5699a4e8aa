//! Plays what a page of the documentation shows, and compares what comes out.

use std::fmt::Write;
use std::path::Path;

use regex_lite::Regex;
use test_kit::rig::Rig;

use crate::RAYMOND;

/// A line of a transcript that stands for any number of lines.
const ANYTHING: &str = "…";

/// The blocks of code on a page, each with the word behind its fence.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("\n```").skip(1).step_by(2);
    parts.map(|block| block.split_once('\n').expect("a block of code")).collect()
}

/// The commands of a block, each with what it prints.
fn commands(block: &str) -> Vec<(&str, Vec<&str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, Vec::new())),
            (None, Some((_, output))) => output.push(line),
            (None, None) => {}
        }
    }
    commands
}

/// Whether the lines are those that were expected, whatever the times are.
fn is_as_expected(lines: &[String], expected: &[&str]) -> bool {
    let times = Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\b[\d.]+m?s\b").unwrap();
    let without_times = |line: &str| times.replace_all(line, "TIME").into_owned();
    match expected.split_first() {
        None => lines.is_empty(),
        Some((&ANYTHING, rest)) => (0..=lines.len()).any(|skipped| is_as_expected(&lines[skipped..], rest)),
        Some((first, rest)) => lines.split_first().is_some_and(|(line, other)| {
            without_times(line) == without_times(first) && is_as_expected(other, rest)
        }),
    }
}

/// 22 replies of the agent. The last ones depend on what it was asked for.
fn replies(last: [&str; 3]) -> String {
    let mut replies = "WRITE:\n".to_owned();
    let first = (1..20).map(|chapter| format!("Mira sails on, day {chapter}."));
    for text in first.chain(last.map(str::to_owned)) {
        writeln!(replies, "  - {{ reply: \"<goto input='{text}'>CHECK</goto>\", cost: 0.05 }}").unwrap();
    }
    replies
}

#[test]
fn the_page_about_going_back_shows_what_happens() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/going-back.md");
    let page = std::fs::read_to_string(file).unwrap();
    let blocks = blocks(&page);
    let of_kind = |kind: &str| blocks.iter().find(|(word, _)| *word == kind).unwrap().1;
    let rig = Rig::new(RAYMOND);
    rig.write("story/START.sh", "echo '<goto input=\"1\">WRITE</goto>'\n");
    rig.write("story/WRITE.md", of_kind("markdown"));
    rig.write("story/CHECK.sh", of_kind("sh"));
    rig.write("story/workflow.yaml", "backend: scripted\n");
    let bakery = ["Mira sells the ship and becomes a baker.", "Mira bakes bread.", "Mira bakes bread."];
    rig.write("story/replies.yaml", replies(bakery));
    let folder_of_raymond = Path::new(RAYMOND).parent().unwrap().display();
    let path = format!("{folder_of_raymond}:{}", std::env::var("PATH").unwrap_or_default());
    for (command, expected) in
        blocks.iter().filter(|(word, _)| word.is_empty()).flat_map(|(_, block)| commands(block))
    {
        if command.starts_with("sed ") {
            let prompt = rig
                .read("story/WRITE.md")
                .replace(", and hand it on.", ". The ship is never sold. Hand it on.");
            rig.write("story/WRITE.md", prompt);
            let land = "Mira drops the anchor in the bay.";
            rig.write("story/replies.yaml", replies(["Mira sees land, and turns the ship.", land, land]));
        }
        let mut bash = rig.program("bash");
        bash.args(["-c", &format!("exec 2>&1; {command}")]).env("PATH", &path);
        let done = rig.launch(bash).wait();
        let lines: Vec<String> =
            done.stdout.trim_end().lines().map(|line| line.trim_end().to_owned()).collect();
        assert!(is_as_expected(&lines, &expected), "$ {command}\n{}", done.stdout);
    }
    let own_events = rig.read(".raymond/state/tale-2.jsonl").lines().count();
    assert!(page.contains(&format!("its own {own_events} events")), "{own_events} events");
    assert!(page.contains("raymond rewind tale 39"));
    rig.raymond(&["rewind", "tale", "39"]).says("dropped-1-tale");
}

/// The text of all files of Rust below a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: std::path::PathBuf| match path.extension().is_some_and(|ending| ending == "rs") {
        _ if path.is_dir() => sources(&path),
        true => std::fs::read_to_string(path).unwrap(),
        false => String::new(),
    };
    entries.map(text).collect()
}

#[test]
fn every_test_that_the_page_about_trust_names_is_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(crates.join("../docs/security.md")).unwrap();
    let sources = sources(&crates.join("raymond")) + &sources(&crates.join("raymond-core"));
    let named = Regex::new(r"`(?:it|raymond|core)::[a-z0-9_:]*?([a-z0-9_]+)`").unwrap();
    let names: Vec<&str> = named.captures_iter(&page).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(names.len() > 30, "{names:?}");
    let missing: Vec<_> = names.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let promises = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what holds"));
    let unheld: Vec<_> = promises.filter(|line| !named.is_match(line)).collect();
    assert!(unheld.is_empty(), "{unheld:?}");
}
