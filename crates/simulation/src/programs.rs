//! Hand-written workflows. Each is for something that recovery must get right.

use raymond_core::input::FaultClass;
use raymond_core::money::Usd;

use crate::program::{Act, Does, Program, exits, fails, says};

/// A prompt that must answer with one of these.
const POLICY: &str =
    "---\nallowed_transitions:\n  - { tag: goto, target: NEXT }\n  - { tag: result }\n---\nDo it.";

pub fn all() -> Vec<Program> {
    vec![
        chain(),
        failing_turns(),
        looping(),
        calls(),
        fan_out(),
        failing_worker(),
        asks(false),
        asks(true),
        unanswered(),
        delays(),
        reminders(),
        retries_and_limits(),
        budget(),
        fatal_script(),
        max_steps(),
        payloads(),
        nested_workflows(),
        forked_workflows(),
        left_for_good(),
        segments(),
        unsynced(),
    ]
}

fn chain() -> Program {
    Program::new("chain")
        .state("START.sh", "", says("<print>begin</print><goto input=\"a{input}\">B</goto>"))
        .state("B.md", "Say it.", says("well <goto input=\"b{input}\">C</goto>").cents(3))
        .state("C.sh", "", says("<result>{input}</result>").leaving_a_child())
}

fn looping() -> Program {
    let again = |text: &str| vec![says(text).stubborn()];
    Program::new("loop")
        .visits(
            "START.md",
            "",
            vec![again("<goto>B</goto>"), again("<goto>B</goto>"), again("<result>{visits}{input}</result>")],
        )
        .state("B.sh", "", says("<goto input=\"{input}{visits}\">START</goto>"))
}

fn calls() -> Program {
    Program::new("calls")
        .state("START.md", "", says("<call return=\"AFTER\" input=\"x\">INNER</call>").cents(1))
        .state("INNER.md", "", says("<function return=\"BACK\">DEEP</function>").cents(1))
        .state("DEEP.md", "", says("<reset>LAST</reset>").cents(1))
        .state("LAST.sh", "", says("<result>deep</result>"))
        .state("BACK.md", "", says("<result>{input} back</result>").cents(1))
        .state("AFTER.md", "", says("<result>{input} after</result>").cents(1))
}

fn fan_out() -> Program {
    Program::new("fan-out")
        .state(
            "START.sh",
            "",
            says(
                "<fork item=\"1\">WORK</fork><fork item=\"2\">WORK</fork><fork>ASIDE</fork><goto>WAIT</goto>",
            ),
        )
        .state("WORK.md", "", says("<result>did {agent}</result>").cents(5).seconds(3))
        .state("ASIDE.sh", "", says("<fork next=\"DONE\">DONE</fork>").leaving_a_child())
        .state("WAIT.sh", "", says("<join>END</join>"))
        .state("DONE.sh", "", says("<result>done</result>"))
        .state("END.sh", "", says("<result>{input}</result>"))
        .with(|program| program.options.max_parallel = 1)
}

/// Two workers always fail, one does not; the join takes them all.
fn failing_worker() -> Program {
    Program::new("failing worker")
        .state("START.sh", "", says("<fork>BAD</fork><fork>GOOD</fork><fork>OFTEN</fork><goto>WAIT</goto>"))
        .state("BAD.sh", "# raymond: fatal=agent retry=1 backoff=2s", exits(1).leaving_a_child())
        .state("GOOD.sh", "", says("<result>good</result>").seconds(4))
        .state("OFTEN.sh", "# raymond: max_visits=2", says("<goto>OFTEN</goto>"))
        .state("WAIT.sh", "", says("<join>END</join>"))
        .state("END.md", "", says("<result>{input}</result>").cents(2))
        .with(|program| program.names_no_error = false)
}

fn asks(pauses: bool) -> Program {
    Program::new(if pauses { "asks and pauses" } else { "asks" })
        .state("START.sh", "", says("<fork next=\"FIRST\">OTHER</fork>"))
        .state("OTHER.md", "", says("<ask next=\"END\">And you?</ask>").cents(1))
        .state("FIRST.sh", "", says("<ask next=\"SECOND\">Which?</ask>"))
        .state("SECOND.sh", "", says("<ask next=\"END\" timeout=\"90d\">Sure about {input}?</ask>"))
        .state("END.sh", "", says("<result>{input}</result>"))
        .with(|program| program.pauses = pauses)
}

fn unanswered() -> Program {
    Program::new("unanswered")
        .state("START.sh", "", says("<ask next=\"YES\" timeout=\"60s\" timeout_next=\"NO\">Well?</ask>"))
        .state("YES.sh", "", says("<result>yes</result>"))
        .state("NO.sh", "", says("<result>no {input}</result>"))
        .with(|program| program.is_answered = false)
}

fn delays() -> Program {
    Program::new("delays")
        .state("START.sh", "", says("<fork next=\"B\">SIDE</fork>"))
        .state("SIDE.sh", "", says("<reset delay=\"2h\">LATE</reset>"))
        .state("LATE.sh", "", says("<result>late</result>"))
        .state("B.sh", "", says("<goto delay=\"1m\" input=\"waited\">C</goto>"))
        .state("C.sh", "", says("<result>{input}</result>"))
}

fn reminders() -> Program {
    Program::new("reminders")
        .tries(
            "START.md",
            POLICY,
            vec![
                says("no tag").cents(2),
                says("<goto>START</goto>").cents(2),
                says("<goto>NEXT</goto>").cents(2),
            ],
        )
        .tries("NEXT.md", POLICY, vec![says("?"), fails(FaultClass::Retry), says("<result>ok</result>")])
}

fn retries_and_limits() -> Program {
    let silent = || Act::new(Does::Hangs).leaving_a_child().stubborn();
    Program::new("retries and limits")
        .tries(
            "START.md",
            "---\ntimeout: 20s\n---\nGo.",
            vec![
                silent().cents(4),
                Act::new(Does::HitsLimit(600)).cents(1),
                Act::new(Does::DiesBySignal(9)).cents(1),
                fails(FaultClass::Limit { until: None }),
                says("<goto>B</goto>").cents(7),
            ],
        )
        .tries(
            "B.sh",
            "# raymond: timeout=10s retry=3 backoff=5s",
            vec![silent(), exits(3).leaving_a_child(), says("<result>at last</result>")],
        )
}

fn budget() -> Program {
    Program::new("budget")
        .state("START.sh", "", says("<fork next=\"B\">B</fork><fork next=\"B\">B</fork>"))
        .tries(
            "B.md",
            "",
            vec![fails(FaultClass::ShareUsed).cents(20), says("<goto>C</goto>").cents(30).seconds(2)],
        )
        .state("C.md", "", says("<result>{agent}</result>").cents(40))
        .with(|program| program.options.budget_usd = Usd::from_dollars(1.0))
}

fn fatal_script() -> Program {
    Program::new("fatal script")
        .state(
            "START.sh",
            "",
            says("<fork next=\"BAD\">LONG</fork><fork next=\"BAD\">TURN</fork><fork next=\"BAD\">BAD</fork>"),
        )
        .state("LONG.sh", "", says("<result>long</result>").seconds(60).leaving_a_child().stubborn())
        .state("TURN.md", "", says("<result>turn</result>").seconds(5).cents(9))
        .tries("BAD.sh", "", vec![exits(1).seconds(2), says("no tag"), says("<result>mended</result>")])
}

/// Three turns fail at once. A person may let one of them try again, and leave the others.
fn failing_turns() -> Program {
    let work = "<fork>WORK</fork>".repeat(3);
    Program::new("failing turns")
        .state("START.sh", "", says(&format!("{work}<goto>END</goto>")))
        .tries(
            "WORK.md",
            "",
            vec![
                fails(FaultClass::Final).cents(2).seconds(2),
                says("<goto input=\"{agent}\">NEXT</goto>").cents(3),
            ],
        )
        .state("NEXT.md", "", says("<result>{input}</result>").cents(1))
        .state("END.sh", "", says("<result>end</result>"))
}

fn max_steps() -> Program {
    Program::new("max steps")
        .visits(
            "START.sh",
            "# raymond: retry=1",
            vec![
                vec![exits(1), says("<goto>B</goto>")],
                vec![says("<goto>B</goto>")],
                vec![says("<result>{visits}</result>")],
            ],
        )
        .state("B.sh", "", says("<fork next=\"START\">C</fork>"))
        .state("C.md", "", says("<result>c</result>").cents(1))
        .with(|program| program.options.max_steps = Some(3))
}

/// A text too long for the journal is passed to workers, and each result is joined.
fn payloads() -> Program {
    Program::new("payloads")
        .state(
            "START.sh",
            "",
            says("<print>{visits}</print><fork next=\"WAIT\" input=\"{big}\">MIDDLE</fork>"),
        )
        .state("MIDDLE.sh", "", says("<fork next=\"WAIT\" input=\"{input}\">WORK</fork>"))
        .state("WORK.sh", "", says("<result>{input}</result>"))
        .state("WAIT.sh", "", says("<join>END</join>"))
        .state("END.sh", "", says("<result>{input}</result>"))
}

/// Calls through all forms of a workflow and back. Each return goes to the scope and folder of the call.
fn nested_workflows() -> Program {
    Program::new("nested workflows")
        .state("START.md", "", says("<reset cd=\"there\">GO</reset>").cents(1))
        .state(
            "GO.md",
            "",
            says("<call-workflow return=\"LAST\" input=\"x\">../archive.zip</call-workflow>").cents(1),
        )
        .state("LAST.sh", "", says("<result>{input}; {place}</result>"))
        .workflow("archive.zip")
        .state(
            "START.sh",
            "",
            says("<function-workflow cd=\"below\" return=\"BACK\">../one.yaml</function-workflow>"),
        )
        .state("BACK.md", "", says("<call return=\"END\" input=\"{input}; {place}\">SIDE</call>").cents(2))
        .tries(
            "SIDE.sh",
            "# raymond: retry=1 backoff=3s",
            vec![exits(1), says("<reset cd=\"../here\" input=\"{input}\">FAR</reset>")],
        )
        .state("FAR.sh", "", says("<result>{input}; {place}</result>"))
        .state("END.sh", "", says("<result>{input}; {place}</result>"))
        .workflow("one.yaml")
        .state("START.md", "", says("<goto>ASK</goto>").cents(3))
        .state("ASK.sh", "", says("<ask next=\"CALL\">Deeper?</ask>"))
        .state(
            "CALL.sh",
            "",
            says("<call-workflow return=\"UP\" input=\"{place}\">../folder</call-workflow>"),
        )
        .state("UP.sh", "", says("<result>{input}; {place}</result>"))
        .workflow("folder")
        .state(
            "START.md",
            "",
            says("<reset cd=\"../..\" delay=\"5s\" input=\"{input}\">END</reset>").cents(1),
        )
        .state("END.sh", "", says("<result>{input}; {place}</result>").leaving_a_child())
        .with(|program| {
            program.result = Some(
                "one.yaml in [there/below]; folder in []; one.yaml in [there/below]; archive.zip in [there]; \
                 archive.zip in [here]; archive.zip in [there]; own in [there]"
                    .to_owned(),
            );
        })
}

/// Workers in other workflows and folders, whose parent is in yet another one.
fn forked_workflows() -> Program {
    Program::new("forked workflows")
        .state("START.sh", "", says("<call-workflow return=\"END\">../archive.zip/SPREAD</call-workflow>"))
        .state("END.sh", "", says("<result>{input}; {place}</result>"))
        .workflow("archive.zip")
        .state(
            "SPREAD.md",
            "",
            says(
                "<fork-workflow cd=\"here\" item=\"1\">../one.yaml</fork-workflow>\
                 <fork-workflow cd=\"there/below\" item=\"2\">../folder</fork-workflow><fork cd=\"there\">WORK</fork><goto>WAIT</goto>",
            )
            .cents(4),
        )
        .state("WORK.md", "", says("<function-workflow return=\"DONE\" cd=\"below\">../folder</function-workflow>").cents(1))
        .state("DONE.sh", "", says("<result>{input}, {place}</result>"))
        .state("WAIT.sh", "", says("<join>TELL</join>"))
        .state("TELL.md", "", says("<result>{input}</result>").cents(1))
        .workflow("one.yaml")
        .state("START.sh", "", says("<call-workflow return=\"DONE\">../folder</call-workflow>").seconds(4))
        .state("DONE.sh", "", says("<result>{input}, {place}</result>"))
        .workflow("folder")
        .state("START.md", "", says("<reset cd=\"..\">NEXT</reset>").cents(2).seconds(2))
        .state("NEXT.sh", "", says("<result>{place}</result>"))
        .with(|program| {
            program.options.max_parallel = 2;
            program.segment_bytes = 1_500;
            let done = |agent: &str, title: &str, state: &str, attributes: &str, result: &str| {
                format!(
                    "{{\"agent\":\"main_{agent}\",{title}\"state\":\"{state}\",\"attributes\":{attributes},\
                     \"status\":\"done\",\"result\":\"{result}\",\"error\":null}}"
                )
            };
            program.result = Some(format!(
                "[{},{},{}]; own in []",
                done("start1", "\"title\":\"1\",", "START.sh", "{\"item\":\"1\"}", "folder in [], one.yaml in [here]"),
                done("start2", "\"title\":\"2\",", "START.md", "{\"item\":\"2\"}", "folder in [there]"),
                done("work3", "", "WORK.md", "{}", "folder in [there], archive.zip in [there]"),
            ));
        })
}

/// A workflow that is entered with a reset forgets its callers: its result is the run's result.
fn left_for_good() -> Program {
    Program::new("left for good")
        .state("START.md", "", says("<call return=\"NEVER\">IN</call>").cents(1))
        .state("IN.sh", "", says("<call-workflow return=\"NEVER\">../one.yaml</call-workflow>"))
        .state("NEVER.sh", "", says("<result>never</result>"))
        .workflow("one.yaml")
        .state(
            "START.md",
            "",
            says("<reset-workflow cd=\"here\" input=\"over\">../archive.zip</reset-workflow>").cents(1),
        )
        .state("ASIDE.sh", "", says("<result>{input}; {place}</result>"))
        .workflow("archive.zip")
        .state(
            "START.md",
            "",
            says("<call-workflow return=\"END\" input=\"{input}\">../one.yaml/ASIDE</call-workflow>"),
        )
        .state("END.sh", "", says("<result>{input}; {place}</result>"))
        .with(|program| program.result = Some("over; one.yaml in [here]; archive.zip in [here]".to_owned()))
}

fn segments() -> Program {
    fan_out().with(|program| {
        program.name = "segments".to_owned();
        program.segment_bytes = 600;
    })
}

/// Nothing is synced, so only the process may be killed.
fn unsynced() -> Program {
    failing_worker().with(|program| {
        program.name = "unsynced".to_owned();
        program.segment_bytes = 900;
        program.is_synced = false;
    })
}
