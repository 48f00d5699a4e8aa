//! Recordings of conversations with the real program.

use mock_api::{say, use_tool};
use serde_json::Value;

use crate::Case;
use crate::bench::Bench;
use crate::programs::Program;
use crate::tools::with_bash;

pub(crate) const CASES: &[Case] = &[("a_recorded_run_is_replayed_without_the_program", recorded)];

fn recorded(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", with_bash("begin in {{task_folder}}"));
    bench.state("CHECK.sh", "echo '<goto input=\"checked\">NEXT</goto>'\n");
    bench.state("NEXT.md", "---\nallowed_transitions: [ { tag: result } ]\n---\nnext, {{input}}");
    bench.api.on("begin", [use_tool("Bash", "echo hello"), say("<goto>CHECK</goto>")]);
    bench.api.on("next, checked", [say("I forgot it.")]);
    bench.api.on("<result>your result</result>", [say("<result>done</result>")]);
    bench.run(&["--record", "while.rec.jsonl"]).assert(0, "done\n");
    let turns: Vec<Value> =
        bench.read("while.rec.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<&str> = turns.iter().filter_map(|turn| turn["reply"].as_str()).collect();
    assert_eq!(said, ["<goto>CHECK</goto>", "I forgot it.", "<result>done</result>"]);
    assert_eq!(turns[0]["prompt"], "begin in ⟨task_folder⟩");
    assert_eq!(turns[0]["tools"], serde_json::json!(["Bash"]));

    bench.raymond(&["record", "r", "-o", "after.rec.jsonl"]).assert(0, "");
    let asked = bench.api.requests().len();
    let cost = |run: &str| {
        let status = bench.raymond(&["status", run, "--json"]).stdout;
        serde_json::from_str::<Value>(&status).unwrap()["cost_usd"].clone()
    };
    for recording in ["while", "after"] {
        let file = format!("{recording}.rec.jsonl");
        bench.raymond(&["workflow", "--id", recording, "--replay", &file]).assert(0, "done\n");
        assert_eq!(cost(recording), cost("r"), "a replayed cost counts as recorded");
    }
    assert_eq!(bench.api.requests().len(), asked, "a replay asks no model");
}
