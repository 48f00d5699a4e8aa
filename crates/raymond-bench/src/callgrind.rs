//! Counts instructions instead of seconds: the result is the same on a busy and on an idle machine.

use std::fs;
use std::process::Command;

use crate::rig::Rig;

pub fn is_there() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// How many instructions Raymond itself executes with these arguments; its children are not counted.
pub fn instructions(rig: &Rig, args: &[&str], codes: &[i32]) -> Result<u64, String> {
    let out = rig.path("callgrind.out");
    let raymond = rig.raymond(&[]).get_program().to_string_lossy().into_owned();
    let file = format!("--callgrind-out-file={}", out.display());
    let all: Vec<&str> =
        ["--tool=callgrind", &file, &raymond].into_iter().chain(args.iter().copied()).collect();
    crate::rig::finish(rig.command("valgrind", &all), codes)?;
    let text = fs::read_to_string(&out).map_err(|error| error.to_string())?;
    let total = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    total.and_then(|total| total.trim().parse().ok()).ok_or_else(|| "callgrind counted nothing".to_owned())
}
