//! The memory of Raymond stays small, even with very long output of a script.

use std::fs;

use test_kit::rig::{Done, Rig};

use crate::RAYMOND;

const MOST_KIB: u64 = 64 * 1024;

/// Runs a state and returns the peak memory of Raymond, in KiB.
fn peak(state: &str, more: &[&str]) -> (Done, u64, Rig) {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", state).state("NEXT.sh", "echo '<result>ok</result>'");
    let args = [&["workflow", "--id", "r", "--quiet"], more].concat();
    let mut peak = 0;
    let done = rig.start(&args).watch(|pid| peak = peak.max(high_water(pid).unwrap_or(0)));
    (done, peak, rig)
}

/// The kernel keeps the peak, so only the time after the last read can be missed.
fn high_water(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[track_caller]
fn assert_small(state: &str, exit: i32) -> (Done, Rig) {
    let (done, peak, rig) = peak(state, &[]);
    assert_eq!(done.exit, exit, "{}", done.stderr);
    assert!(peak > 1000 && peak < MOST_KIB, "{peak} KiB");
    (done, rig)
}

#[test]
fn two_hundred_megabytes_of_lines() {
    assert_small(
        "yes 'a line of output that says nothing <at> all' | head -c 200000000; echo '<goto>NEXT</goto>'",
        0,
    );
}

#[test]
fn two_hundred_megabytes_on_stderr() {
    assert_small("yes 'complaint' | head -c 200000000 >&2; echo '<goto>NEXT</goto>'", 0);
}

#[test]
fn a_line_without_end() {
    assert_small("head -c 100000000 /dev/zero | tr '\\0' x; echo '<goto>NEXT</goto>'", 0);
}

#[test]
fn only_opening_brackets() {
    assert_small("head -c 5000000 /dev/zero | tr '\\0' '<'; echo '<goto>NEXT</goto>'", 0);
}

#[test]
fn only_opening_tags() {
    assert_small("yes '<goto a=\"' | head -c 5000000; echo '\"><goto>NEXT</goto>'; exit 1", 1);
}

/// Text after an opening tag that is never closed is an error as soon as it is too long.
#[test]
fn a_print_that_is_never_closed() {
    let (done, _rig) = assert_small("printf '<print>'; yes | head -c 20000000; echo '<goto>NEXT</goto>'", 1);
    done.says("8 MiB").says("print");
}

#[test]
fn a_result_one_byte_too_long() {
    let state = "printf '<result>'; head -c 8388609 /dev/zero | tr '\\0' x; printf '</result>'";
    let (done, _rig) = assert_small(state, 1);
    done.says("8 MiB").says("result");
}

#[test]
fn many_prints() {
    let (_, rig) = assert_small("yes '<print>tick</print>' | head -n 20000; echo '<goto>NEXT</goto>'", 0);
    let prints = rig.events().into_iter().filter(|event| event["event"] == "print").count();
    assert_eq!(prints, 20_000);
}

#[test]
fn verbose_output_is_not_collected_in_memory() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "yes $(seq 500 | xargs) | head -c 40000000; echo '<result>ok</result>'");
    let mut peak = 0;
    let done = rig
        .start(&["workflow", "--id", "r", "--verbose"])
        .watch(|pid| peak = peak.max(high_water(pid).unwrap_or(0)));
    assert_eq!(done.exit, 0);
    assert!(peak < MOST_KIB, "{peak} KiB");
}
