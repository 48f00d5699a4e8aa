//! Workflows by hand, each for something that recovery must get right.

use raymond_core::input::FaultClass;
use raymond_core::money::Usd;

use super::program::{Act, Does, Program, exits, fails, says};

/// A prompt that must answer with one of these.
const POLICY: &str =
    "---\nallowed_transitions:\n  - { tag: goto, target: NEXT }\n  - { tag: result }\n---\nDo it.";

pub fn all() -> Vec<Program> {
    vec![
        chain(),
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

/// Two workers fail whatever happens, one does not; the join takes them all.
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
                Act::new(Does::DiesBySignal).cents(1),
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

fn payloads() -> Program {
    Program::new("payloads")
        .state("START.sh", "", says("<print>{visits}</print><fork next=\"WAIT\" input=\"{big}\">WORK</fork>"))
        .state("WORK.sh", "", says("<result>{input}</result>"))
        .state("WAIT.sh", "", says("<join>END</join>"))
        .state("END.sh", "", says("<result>{input}</result>"))
}

fn segments() -> Program {
    fan_out().with(|program| {
        program.name = "segments".to_owned();
        program.segment_bytes = 600;
    })
}

/// Nothing is synced, so only the process may die.
fn unsynced() -> Program {
    failing_worker().with(|program| {
        program.name = "unsynced".to_owned();
        program.segment_bytes = 900;
        program.is_synced = false;
    })
}
