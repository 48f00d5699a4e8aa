//! Schemas of the formats that are read node by node, so that mistakes have positions. Tests check that these types
//! and the readers agree.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::entry::Entry;

/// The settings of a prompt.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Frontmatter {
    /// What the state may do next; everything, if left out.
    #[schemars(length(min = 1))]
    allowed_transitions: Option<Vec<Entry>>,
    /// `opus`, `sonnet`, `haiku`, or any full model name.
    model: Option<String>,
    /// `low`, `medium`, `high`, or what the backend accepts.
    effort: Option<String>,
    /// How long there may be no output; 0 is no limit.
    timeout: Option<Limit>,
    /// How long it may take in all.
    max_time: Option<Limit>,
    /// How often an agent may enter this state.
    #[schemars(range(min = 1))]
    max_visits: Option<u64>,
    /// Take the only transition without reading tags.
    force_implicit: Option<bool>,
    /// Which agent program answers.
    backend: Option<OneOrMany>,
    /// Whether another backend of the list may take the turn with a new conversation.
    may_forget: Option<bool>,
    /// Tools that the agent may use without asking.
    allow_tools: Option<Vec<String>>,
    /// Tools that the agent may not use.
    deny_tools: Option<Vec<String>>,
    /// More folders that the agent may look into.
    add_dirs: Option<Vec<String>>,
    /// Configurations of MCP servers.
    mcp_config: Option<OneOrMany>,
    /// A turn fails if one of its MCP servers does not start.
    require_mcp: Option<bool>,
    /// Steps of a run with the same name never run at the same time.
    #[schemars(length(min = 1, max = 64))]
    exclusive: Option<String>,
    /// The JSON Schema that the state's result has to match, or a file of the workflow that holds it.
    result_schema: Option<ResultSchema>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum ResultSchema {
    File(String),
    Inline(serde_json::Map<String, serde_json::Value>),
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// A duration such as `30s`, or 0 for no limit.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Limit {
    Text(#[schemars(regex(pattern = r"^(0|[0-9]+(ms|s|m|h|d))$"))] String),
    None(#[schemars(range(max = 0))] u64),
}

/// What a workflow says about itself.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Manifest {
    id: Option<String>,
    name: Option<String>,
    description: Option<String>,
    input: Option<Input>,
    /// Inputs by their names: `--set NAME=VALUE`, `{{NAME}}` in prompts and `$NAME` in scripts.
    inputs: Option<BTreeMap<String, Option<NamedInput>>>,
    /// Dollars a run may spend; 0 is unlimited.
    #[schemars(range(min = 0))]
    default_budget: Option<f64>,
    working_directory: Option<String>,
    /// Another workflow, from which it has the states that it does not have itself.
    extends: Option<String>,
    /// Variables for scripts and agents.
    environment: Option<BTreeMap<String, Variable>>,
    /// Which agent program answers the prompts that choose none. This and the following hold for all states of the
    /// workflow that do not set them themselves.
    backend: Option<OneOrMany>,
    /// `opus`, `sonnet`, `haiku`, or any full model name.
    model: Option<String>,
    /// `low`, `medium`, `high`, or what the backend accepts.
    effort: Option<String>,
    /// How long a state may print nothing; 0 is no limit.
    timeout: Option<Limit>,
    /// How long a state may take in all.
    max_time: Option<Limit>,
    /// How many agent programs may run at once.
    #[schemars(range(min = 1))]
    max_parallel: Option<u64>,
    /// How many scripts may run at once.
    #[schemars(range(min = 1))]
    max_parallel_scripts: Option<u64>,
    /// Whether each finished step leaves its files as a commit, in a git repository.
    snapshots: Option<bool>,
    /// What the failure of a script stops.
    fatal: Option<Fatal>,
    /// Tools that agents may use without asking.
    allow_tools: Option<Vec<String>>,
    /// Tools that agents may not use.
    deny_tools: Option<Vec<String>>,
    /// More folders that agents may look into.
    add_dirs: Option<Vec<String>>,
    /// Configurations of MCP servers.
    mcp_config: Option<OneOrMany>,
    /// A turn fails if one of its MCP servers does not start.
    require_mcp: Option<bool>,
    /// What agents may do without asking; no mode that skips permissions.
    permission_mode: Option<PermissionMode>,
    /// When `serve` starts it, as for cron.
    schedule: Option<String>,
    /// The time zone of `schedule`, such as `Europe/Berlin`; UTC if left out.
    schedule_timezone: Option<String>,
    /// `off`: a run does not check first what the states declare.
    lint: Option<Switch>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum SwitchWord {
    On,
    Off,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
enum PermissionMode {
    Default,
    /// Another name of `default`.
    Manual,
    AcceptEdits,
    Plan,
    DontAsk,
    Auto,
}

/// `on` or `off`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Switch {
    Word(SwitchWord),
    Flag(bool),
}

/// The value of a variable.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Variable {
    Text(String),
    Number(i64),
    Flag(bool),
}

/// What a run wants to be given.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Input {
    mode: Option<InputMode>,
    label: Option<String>,
    description: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum InputMode {
    Required,
    Optional,
    None,
}

/// A named input.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct NamedInput {
    /// What it holds; `string` if left out.
    #[serde(rename = "type")]
    kind: Option<NamedInputType>,
    /// Whether a run needs it.
    required: Option<bool>,
    /// Its value if it is not given.
    default: Option<Scalar>,
    description: Option<String>,
    /// The values of a `choice`.
    #[schemars(length(min = 1))]
    choices: Option<Vec<Scalar>>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum NamedInputType {
    String,
    Integer,
    Number,
    Boolean,
    Choice,
    /// A path of a file that can be read.
    File,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Scalar {
    Text(String),
    Number(f64),
    Flag(bool),
}

/// A workflow in one file.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct OneFile {
    /// States by their names.
    states: BTreeMap<String, OneState>,
    /// Other files by their names, as they would be in a folder.
    files: Option<BTreeMap<String, File>>,
    #[serde(flatten)]
    manifest: Manifest,
}

/// Text, or other bytes.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum File {
    Text(String),
    Bytes(Bytes),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Bytes {
    base64: String,
}

/// A prompt with its settings, or scripts with theirs.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum OneState {
    Prompt(Box<OnePrompt>),
    Script(Box<OneScript>),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(extend("not" = { "anyOf": [
    { "required": ["sh"] }, { "required": ["bat"] }, { "required": ["ps1"] }, { "required": ["py"] },
    { "required": ["js"] },
] }))]
struct OnePrompt {
    prompt: String,
    #[serde(flatten)]
    settings: Frontmatter,
}

/// One script or one for each platform.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(extend("anyOf" = [
    { "required": ["sh"] }, { "required": ["bat"] }, { "required": ["ps1"] }, { "required": ["py"] },
    { "required": ["js"] },
]))]
#[schemars(extend("not" = { "required": ["prompt"] }))]
pub struct OneScript {
    sh: Option<String>,
    bat: Option<String>,
    ps1: Option<String>,
    py: Option<String>,
    js: Option<String>,
    /// How long there may be no output; 0 is no limit.
    timeout: Option<Limit>,
    /// How long it may take in all.
    max_time: Option<Limit>,
    /// How often it is run again when it fails.
    retry: Option<u32>,
    /// How long to wait before that.
    backoff: Option<Limit>,
    /// How often an agent may enter this state.
    #[schemars(range(min = 1))]
    max_visits: Option<u64>,
    /// What a failure stops.
    fatal: Option<Fatal>,
    /// Steps of a run with the same name never run at the same time.
    #[schemars(length(min = 1, max = 64))]
    exclusive: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum Fatal {
    Run,
    Agent,
}
