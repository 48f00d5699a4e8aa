//! The shape of a test file, for its schema. `check::file` reads it by hand, so that mistakes have positions; a test
//! checks that both agree.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use crate::agent::prepared::Trouble;

/// Tests of a workflow.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct TestFile {
    /// The workflow; by default the folder of this file, or what has its name beside it.
    workflow: Option<String>,
    #[schemars(length(min = 1))]
    tests: Vec<Test>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Test {
    name: Text,
    /// The input of the first state.
    input: Option<Text>,
    /// Named inputs of the workflow.
    inputs: Option<BTreeMap<String, Text>>,
    /// Files in the folder in which the test runs.
    files: Option<BTreeMap<String, Text>>,
    /// Variables of the run.
    env: Option<BTreeMap<String, Text>>,
    options: Option<Options>,
    /// What agents say, by state.
    replies: Option<BTreeMap<String, OneOrMany<Reply>>>,
    /// A recording that answers what `replies` does not.
    recording: Option<String>,
    /// Answers to questions: in order, or by the state after the question.
    answers: Option<Answers>,
    /// The process is killed once so many steps have finished, and the run is resumed.
    kill_after: Option<OneOrMany<u64>>,
    expect: Option<Expect>,
}

/// A text; numbers count as they are written.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Text {
    Written(String),
    Number(f64),
    Flag(bool),
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// Options of the run, as on its command line.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Options {
    budget: Option<f64>,
    max_steps: Option<u64>,
    max_parallel: Option<u64>,
    max_parallel_scripts: Option<u64>,
    model: Option<String>,
    effort: Option<String>,
    timeout: Option<Text>,
    no_wait: Option<bool>,
    no_lint: Option<bool>,
    /// `pause`: stop at an open question. Otherwise its time passes.
    on_ask: Option<OnAsk>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum OnAsk {
    Wait,
    Pause,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Reply {
    Text(Text),
    Details(ReplyDetails),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ReplyDetails {
    /// A regular expression: only prompts in which it is found are answered.
    when: Option<String>,
    reply: Option<Text>,
    /// The turn fails like this instead.
    fail: Option<Trouble>,
    /// What the turn costs, in dollars.
    #[schemars(range(min = 0))]
    cost: Option<f64>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Answers {
    InOrder(Vec<Text>),
    ByNext(BTreeMap<String, OneOrMany<Text>>),
}

/// What must have happened.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Expect {
    /// How the run ends; `completed` if left out.
    status: Option<Status>,
    result: Option<Matcher>,
    /// All states of the first agent, in order.
    path: Option<Vec<String>>,
    /// All states of other agents.
    paths: Option<BTreeMap<String, Vec<String>>>,
    /// Prompts by state: one of them is like this, or all of them are like these.
    prompts: Option<BTreeMap<String, OneOrMany<Matcher>>>,
    /// Files in the folder of the test.
    files: Option<BTreeMap<String, Matcher>>,
    /// All printed texts, in order.
    prints: Option<Vec<Matcher>>,
    /// All questions, in order.
    asks: Option<Vec<Matcher>>,
    /// What the run cost, in dollars.
    cost: Option<Amount>,
    /// How many turns agents finished.
    turns: Option<Amount>,
    /// The error that `raymond status` shows.
    error: Option<Matcher>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum Status {
    Completed,
    Failed,
    Waiting,
    OverBudget,
    Limited,
    Interrupted,
}

/// A text is equality.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Matcher {
    Equal(Text),
    Details(MatcherDetails),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct MatcherDetails {
    equals: Option<Text>,
    contains: Option<OneOrMany<Text>>,
    /// Regular expressions.
    matches: Option<OneOrMany<String>>,
    /// The text is JSON with this value.
    json: Option<serde_json::Value>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Amount {
    Exactly(#[schemars(range(min = 0))] f64),
    Bound(Bound),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Bound {
    at_most: Option<f64>,
    at_least: Option<f64>,
}
