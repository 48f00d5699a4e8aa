#!/usr/bin/env python3
"""Runs one test program for Cargo, and leaves nothing to chance. `scripts/tests.sh` has Cargo call it.

- A test that takes longer than its limit is ended with everything it started, and named; the other tests are run.
- A test that fails is run once more, alone, only to be named: FLAKY if it passes then. It counts as failed either way, unless
  it stands in `scripts/flaky-tests`.
- A test that is ignored counts as failed, unless its reason begins with "on demand: ".
- A test in which the whole program crashes is named, and the other tests are run.

It prints what the test harness prints, and appends a line for each test to $RAYMOND_TEST_REPORT:
program, test, how it ended, seconds.

The harness tells when a test begins only as JSON, which it has for nightly builds (and for all with RUSTC_BOOTSTRAP, which nothing
is built with here: it is set for the finished test program alone).
"""

import datetime
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

# Seconds. Tests that wait for something give up by themselves after 240.
LIMIT = float(os.environ.get("RAYMOND_TEST_LIMIT", "480"))
# After so many tests that hang or crash the rest of a program is not run.
MOST_ENDED = 3
# More failed tests than this are not run again: so many are no chance.
MOST_RETRIED = 5
ON_DEMAND = "on demand: "
LIST = os.environ.get("RAYMOND_FLAKY_TESTS") or os.path.join(os.path.dirname(os.path.realpath(__file__)), "flaky-tests")
# A longer list than this is a habit.
MOST_LISTED = 3
EVENT = re.compile(r'\{ ?"type": ?"(?:test|suite|bench|report)".*\}\s*$')


def say(text):
    print(text, flush=True)


def listed_tests():
    """The list of tests that may fail once: a day, a name and a reason in each line, and what is wrong with the list."""
    listed, mistakes = [], []
    with open(LIST, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split("#", 1)[0].split(None, 2)
            if not words:
                continue
            try:
                day, name, _reason = datetime.date.fromisoformat(words[0]), words[1], words[2]
            except (ValueError, IndexError):
                mistakes.append(f"line {number} has no day, name and reason")
                continue
            if day < datetime.date.today():
                mistakes.append(f"the day by which {name} is mended, {day}, is over")
            listed.append(name)
    if len(listed) > MOST_LISTED:
        mistakes.append(f"{len(listed)} tests are listed, and {MOST_LISTED} may be")
    return listed, mistakes


def processes():
    """The parent of each process."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                parents[int(name)] = int(stat.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return parents


def descendants(pid):
    parents, found = processes(), [pid]
    for ancestor in found:
        found += [child for child, parent in parents.items() if parent == ancestor]
    return found[1:]


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return line.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def kill_all(process):
    """Ends a process and everything that it started."""
    # What it starts has no parent that is found any more, so it ends last.
    for pid in [*descendants(process.pid), *descendants(process.pid), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Pass:
    """One start of the test program."""

    def __init__(self, path, arguments):
        self.path, self.arguments = path, arguments
        self.running, self.outputs, self.ignored = {}, {}, {}
        self.passed, self.failed = {}, {}
        self.hung, self.crashed, self.suite = [], [], None
        self.ended = None

    def run(self):
        command = [self.path, *self.arguments, "-Z", "unstable-options", "--format", "json"]
        environment = {**os.environ, "RUSTC_BOOTSTRAP": "1"}
        environment.pop("RAYMOND_TEST_REPORT", None)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, preexec_fn=os.setpgrp
        )
        lines = queue.Queue()
        threading.Thread(target=read_lines, args=(process.stdout, lines), daemon=True).start()
        try:
            self.follow(process, lines)
        except BaseException:
            kill_all(process)
            raise
        return self

    def follow(self, process, lines):
        quiet_since = time.monotonic()
        while True:
            try:
                line = lines.get(timeout=0.2)
                quiet_since = time.monotonic()
            except queue.Empty:
                line = ""
            if line is None:
                break
            if line:
                self.hear(line)
            elif process.poll() is not None and self.suite is None:
                # Whoever still holds its output is not waited for.
                if time.monotonic() - quiet_since > 2:
                    kill_all(process)
                    break
            now = time.monotonic()
            self.hung = [name for name, begun in self.running.items() if now - begun > LIMIT]
            if self.hung or (not self.running and now - quiet_since > LIMIT):
                for name in self.hung or ["(no test was running)"]:
                    say(f"test {name} ... HUNG: ended after {LIMIT:.0f} s")
                for pid in descendants(process.pid):
                    say(f"    it had started {pid}: {command_line(pid)[:300]}")
                self.hung = self.hung or ["(no test was running)"]
                kill_all(process)
                process.wait()
                self.ended = "hung"
                return
        try:
            code = process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            kill_all(process)
            code = process.wait()
        if self.suite is None:
            # Which of these it was is seen when each is run alone.
            self.ended, self.crashed = "crashed", sorted(self.running)
            say(f"the test program crashed ({describe(code)}) during: {', '.join(self.crashed) or 'no test'}")

    def hear(self, line):
        text = line.rstrip("\n")
        found = EVENT.search(text)
        try:
            event = json.loads(found.group()) if found else None
        except json.JSONDecodeError:
            event = None
        if event is None:
            say(text)
            return
        if found.start() > 0:
            say(text[: found.start()])
        self.take(event)

    def take(self, event):
        name, kind = event.get("name"), event.get("event")
        if event["type"] == "suite":
            if kind == "started":
                say(f"\nrunning {event['test_count']} tests")
            else:
                self.suite = event
            return
        if event["type"] != "test" or kind == "timeout":
            return
        if kind == "started":
            self.running[name] = time.monotonic()
            return
        took = time.monotonic() - self.running.pop(name, time.monotonic())
        if kind == "ok":
            self.passed[name] = took
            say(f"test {name} ... ok")
        elif kind == "ignored":
            self.ignored[name] = event.get("message") or ""
            say(f"test {name} ... ignored" + (f", {self.ignored[name]}" if self.ignored[name] else ""))
        elif kind == "failed":
            self.failed[name] = took
            self.outputs[name] = event.get("stdout") or event.get("message") or ""
            say(f"test {name} ... FAILED")


def read_lines(stream, lines):
    for line in stream:
        lines.put(line.decode(errors="replace"))
    lines.put(None)


def describe(code):
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def names_of(path, arguments):
    listed = subprocess.run(
        [path, *arguments, "--list"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True
    )
    return [line[: -len(": test")] for line in listed.stdout.splitlines() if line.endswith(": test")]


def options_of(arguments):
    """The arguments that do not choose tests."""
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument == "--test-threads":
            kept += [argument, next(rest)]
        elif argument.startswith("--test-threads="):
            kept.append(argument)
    return kept


def run_all(path, arguments):
    """Runs the program, and again without what hung or crashed, until everything was run."""
    passes = [Pass(path, arguments).run()]
    while passes[-1].ended and len(passes) <= MOST_ENDED:
        done = {name for one in passes for name in [*one.passed, *one.failed, *one.ignored, *one.hung, *one.crashed]}
        left = [name for name in names_of(path, arguments) if name not in done]
        if not left:
            break
        skipped = [name for name in names_of(path, []) if name not in left]
        say(f"\nthe other {len(left)} tests:")
        again = [*options_of(arguments), "--exact", *(word for name in skipped for word in ("--skip", name))]
        passes.append(Pass(path, again).run())
    return passes


def check_list():
    _, mistakes = listed_tests()
    for mistake in mistakes:
        say(f"error: {LIST}: {mistake}")
    sys.exit(1 if mistakes else 0)


def main():
    if sys.argv[1:] == ["--check-list"]:
        check_list()
    path, arguments = sys.argv[1], sys.argv[2:]
    # The examples of a crate's documentation are a program of another kind, which rustdoc reports.
    is_of_docs = os.path.basename(path) == "rust_out"
    if is_of_docs or {"--list", "--help", "-h", "--nocapture", "--no-capture"} & set(arguments) or "--format" in arguments:
        os.execv(path, [path, *arguments])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    program = re.sub(r"-[0-9a-f]{16}$", "", os.path.basename(path))
    begun = time.monotonic()
    passes = run_all(path, arguments)

    merged = {name: {} for name in ("passed", "failed", "ignored", "outputs")}
    for one in passes:
        for name, values in merged.items():
            values.update(getattr(one, name))
    passed, failed, ignored = merged["passed"], merged["failed"], merged["ignored"]
    hung = [name for one in passes for name in one.hung]
    crashed = [name for one in passes for name in one.crashed]
    not_run = []
    if passes[-1].ended:
        known = {*passed, *failed, *ignored, *hung, *crashed}
        not_run = [name for name in names_of(path, arguments) if name not in known]

    for name, output in merged["outputs"].items():
        say(f"\n---- {name} stdout ----\n{output}")

    # Each alone, only to be named.
    flaky, crashing, (listed, _) = [], [], listed_tests()
    retried = [*failed, *crashed]
    if len(retried) <= MOST_RETRIED:
        for name in retried:
            say(f"\nonce more, alone: {name}")
            alone = Pass(path, [*options_of(arguments), "--exact", name]).run()
            if alone.passed:
                flaky.append(name)
            elif alone.ended == "crashed":
                crashing.append(name)
    forgiven = [name for name in flaky if f"{program}::{name}" in listed and name not in crashed]
    skipped = [name for name, reason in ignored.items() if not reason.startswith(ON_DEMAND)]

    endings = {}
    endings.update({name: ("passed", seconds) for name, seconds in passed.items()})
    endings.update({name: ("FAILED", seconds) for name, seconds in failed.items()})
    # With one that crashes alone as well, the others that ran beside it say nothing.
    innocent = set(crashed) - set(crashing) if crashing else set()
    endings.update({name: ("CRASHED", 0.0) for name in crashed if name not in innocent})
    endings.update({name: ("passed", 0.0) for name in innocent & set(flaky)})
    endings.update({name: ("FLAKY", endings[name][1]) for name in flaky if name not in innocent})
    endings.update({name: ("flaky, which is known", endings[name][1]) for name in forgiven})
    endings.update({name: ("HUNG", LIMIT) for name in hung})
    endings.update({name: ("on demand", 0.0) for name in ignored})
    endings.update({name: ("SKIPPED", 0.0) for name in skipped})
    endings.update({name: ("NOT RUN", 0.0) for name in not_run})
    if passes[0].ended == "crashed" and not crashed:
        endings["(no test was running)"] = ("CRASHED", 0.0)

    def named(ending):
        return [name for name, (found, _) in endings.items() if found == ending]

    bad = [name for name, (ending, _) in endings.items() if ending.isupper()]
    for name in bad:
        say(f"{endings[name][0]}: {program}::{name}" + (f" ({ignored[name]})" if ignored.get(name) else ""))
    filtered = (passes[0].suite or {}).get("filtered_out", 0)
    failures = len(bad) - len(named("SKIPPED"))
    say(
        f"\ntest result: {'FAILED' if bad else 'ok'}. {len(named('passed')) + len(forgiven)} passed; {failures} failed; "
        f"{len(ignored)} ignored; 0 measured; {filtered} filtered out; finished in {time.monotonic() - begun:.2f}s\n"
    )
    report(program, endings)
    sys.exit(101 if bad else 0)


def report(program, endings):
    path = os.environ.get("RAYMOND_TEST_REPORT")
    if path:
        with open(path, "a", encoding="utf-8") as lines:
            for name, (ending, seconds) in endings.items():
                lines.write(f"{program}\t{name}\t{ending}\t{seconds:.2f}\n")


if __name__ == "__main__":
    main()
