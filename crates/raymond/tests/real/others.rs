//! The other agent programs, as far as their capabilities go: see `scripts/install-agents.sh`.

use std::path::PathBuf;
use std::process::Command;

use mock_api::{Api, refuse, say};
use serde_json::{Value, json};
use test_kit::rig::{Done, Rig};

/// One installed agent program.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) kind: &'static str,
    pub(crate) version: &'static str,
    folder: PathBuf,
}

/// A case, run once with each program.
pub(crate) type AgentCase = (&'static str, fn(&Agent));

pub(crate) const CASES: &[AgentCase] = &[
    ("each_transition_has_the_right_conversation", transitions),
    ("tokens_of_each_turn_are_counted_once", money),
    ("a_service_that_refuses_with_429_is_a_limit", limit),
    ("a_refused_login_fails_at_once", login),
];

const KINDS: [(&str, &str); 3] = [("codex", "0.166.0"), ("pi", "0.87.1"), ("copilot", "1.0.102")];

impl Agent {
    pub(crate) fn all() -> Vec<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let cache = std::env::var_os("RAYMOND_AGENT_CACHE")
            .map_or_else(|| home.join(".cache/raymond-ci/agents"), PathBuf::from);
        let agent = |(kind, version)| Self { kind, version, folder: cache.join(kind).join(version) };
        KINDS.map(agent).into()
    }

    pub(crate) fn is_installed(&self) -> bool {
        self.program().exists()
    }

    fn program(&self) -> PathBuf {
        self.folder.join("node_modules/.bin").join(self.kind)
    }

    fn model(&self) -> &'static str {
        match self.kind {
            "codex" => "gpt-5",
            "gemini" => "gemini-2.5-pro",
            "copilot" => "mock-model",
            _ => "mock/mock-model",
        }
    }

    /// It tells what a turn cost, in dollars or in tokens.
    fn tells_cost(&self) -> bool {
        self.kind != "copilot"
    }
}

struct Bench {
    rig: Rig,
    api: Api,
    agent: Agent,
}

impl Bench {
    fn new(agent: &Agent) -> Self {
        let rig = Rig::new(env!("CARGO_BIN_EXE_raymond"));
        let (kind, model) = (agent.kind, agent.model());
        let program = agent.program();
        let config = format!(
            "[raymond]\nbackend = \"{kind}\"\nmodel = \"{model}\"\n\
             [backend.{kind}]\ncommand = {program:?}\nwithout_branch = \"continue\"\ncost = \"none\"\n"
        );
        rig.write(".raymond/config.toml", config);
        let bench = Self { rig, api: Api::start(), agent: agent.clone() };
        bench.write_settings();
        bench
    }

    /// Points the program at the fake, with as few tries of its own as it can be told to make.
    fn write_settings(&self) {
        let url = self.api.url();
        let write = |name: &str, text: String| drop(self.rig.write(name, text));
        match self.agent.kind {
            "codex" => write(
                "home/config.toml",
                format!(
                    "model_provider = \"mock\"\n[analytics]\nenabled = false\n[model_providers.mock]\nname = \"mock\"\n\
                     base_url = \"{url}/v1\"\nwire_api = \"responses\"\nenv_key = \"MOCK_KEY\"\n\
                     request_max_retries = 0\nstream_max_retries = 0\n"
                ),
            ),
            "gemini" => write(
                "home/.gemini/settings.json",
                json!({
                    "security": { "auth": { "selectedType": "gemini-api-key" } },
                    "privacy": { "usageStatisticsEnabled": false },
                    "general": { "enableAutoUpdate": false, "maxAttempts": 1 },
                })
                .to_string(),
            ),
            "pi" => write(
                "home/models.json",
                json!({ "providers": { "mock": {
                    "baseUrl": format!("{url}/v1"), "api": "openai-completions", "apiKey": "MOCK_KEY",
                    "models": [{
                        "id": "mock-model", "name": "mock-model", "reasoning": false, "input": ["text"],
                        "contextWindow": 128_000, "maxTokens": 8192,
                        "cost": { "input": 1, "output": 10, "cacheRead": 0.1, "cacheWrite": 0 },
                    }],
                } } })
                .to_string(),
            ),
            _ => {}
        }
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let home = self.rig.path("home").display().to_string();
        let url = self.api.url();
        let own = |value: &str| value.to_owned();
        match self.agent.kind {
            "codex" => vec![("CODEX_HOME", home), ("MOCK_KEY", own("key"))],
            "gemini" => {
                vec![
                    ("GEMINI_CLI_HOME", home),
                    ("GEMINI_API_KEY", own("key")),
                    ("GOOGLE_GEMINI_BASE_URL", url),
                ]
            }
            "pi" => vec![
                ("PI_CODING_AGENT_DIR", home),
                ("PI_OFFLINE", own("1")),
                ("PI_TELEMETRY", own("0")),
                ("MOCK_KEY", own("key")),
            ],
            "opencode" => vec![
                ("HOME", home),
                ("OPENCODE_CONFIG_CONTENT", opencode_settings(&url).to_string()),
                ("OPENCODE_DISABLE_MODELS_FETCH", own("1")),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", own("1")),
            ],
            _ => vec![
                ("HOME", home.clone()),
                ("COPILOT_HOME", home),
                ("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1")),
                ("COPILOT_PROVIDER_API_KEY", own("key")),
                ("COPILOT_MODEL", own("mock-model")),
                ("COPILOT_OFFLINE", own("true")),
            ],
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.rig.command(args);
        command.envs(self.variables());
        // A newer Node than the machine's may be installed beside the program.
        let node = self.agent.folder.join("node_modules/node/bin");
        let path = std::env::var("PATH").unwrap_or_default();
        if node.exists() {
            command.env("PATH", format!("{}:{path}", node.display()));
        }
        command
    }

    fn run(&self, options: &[&str]) -> Done {
        let args = [&["workflow", "--id", "r"], options].concat();
        self.rig.launch(self.command(&args)).wait()
    }

    /// What the model was told before each prompt with this text, by people and by itself.
    fn conversation(&self, prompt: &str) -> Vec<String> {
        let requests = self.api.requests();
        let asked = requests.iter().find(|request| request.prompt.contains(prompt));
        let known = ["begin", "plan", "child", "back", "anew", "<"];
        let history =
            asked.unwrap_or_else(|| panic!("no request for {prompt:?}: {requests:#?}")).history.iter();
        let ours = history.filter_map(|said| said.strip_prefix("user: ")).map(str::trim);
        ours.filter(|said| known.iter().any(|start| said == start || said.starts_with(&format!("{start} "))))
            .map(str::to_owned)
            .collect()
    }
}

fn opencode_settings(url: &str) -> Value {
    json!({ "provider": { "mock": {
        "npm": "@ai-sdk/openai-compatible", "name": "mock",
        "options": { "baseURL": format!("{url}/v1"), "apiKey": "key" },
        "models": { "mock-model": { "name": "mock-model", "cost": { "input": 1, "output": 10 } } },
    } } })
}

fn transitions(agent: &Agent) {
    let bench = Bench::new(agent);
    for (state, prompt, answer) in [
        ("START", "begin", "<goto>PLAN</goto>"),
        ("PLAN", "plan", "<call return=\"BACK\">CHILD</call>"),
        ("CHILD", "child", "<result>called</result>"),
        ("BACK", "back with {{result}}", "<reset>ANEW</reset>"),
        ("ANEW", "anew", "<result>done</result>"),
    ] {
        bench.rig.state(&format!("{state}.md"), prompt);
        bench.api.on(prompt.split(" with").next().unwrap(), [say(answer)]);
    }
    bench.run(&[]).assert(0, "done\n");
    assert_eq!(bench.conversation("plan"), ["begin", "plan"]);
    assert_eq!(bench.conversation("child"), ["begin", "plan", "child"]);
    assert_eq!(bench.conversation("anew"), ["anew"]);
    // Without branches, the caller goes on in the conversation of the state that it called.
    let back: &[&str] = match agent.kind {
        "copilot" | "gemini" => &["begin", "plan", "child", "back with called"],
        _ => &["begin", "plan", "back with called"],
    };
    assert_eq!(bench.conversation("back"), back);
}

fn money(agent: &Agent) {
    if !agent.tells_cost() {
        return;
    }
    let bench = Bench::new(agent);
    bench.rig.state("START.md", "begin").state("NEXT.md", "plan");
    bench.api.on("begin", [say("<goto>NEXT</goto>")]).on("plan", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
    let requests = bench.api.requests();
    let costs = bench.rig.events();
    let costs =
        costs.iter().filter(|event| event["event"] == "step_finished").map(|event| &event["cost_usd"]);
    let costs: Vec<f64> = costs.filter_map(Value::as_f64).collect();
    assert_eq!((costs.len(), requests.len()), (2, 2), "{requests:#?}");
    let (input, output, cached) = match agent.kind {
        "codex" => (1.25, 10.0, 0.125),
        "gemini" => (1.25, 10.0, 0.3125),
        "pi" => (1.0, 10.0, 0.1),
        // Its price of the cache is left out in the settings above, and counts as nothing.
        _ => (1.0, 10.0, 0.0),
    };
    for (cost, request) in costs.iter().zip(&requests) {
        let used = request.used;
        let expected =
            used.input as f64 * input + used.output as f64 * output + used.cache_read as f64 * cached;
        assert!(
            (cost * 1e6 - expected).abs() < 0.01,
            "{} {cost} for {used:?}, expected {expected}",
            agent.kind
        );
    }
}

fn limit(agent: &Agent) {
    // These wait for a minute or more before they give up.
    if ["opencode", "copilot", "pi"].contains(&agent.kind) {
        return;
    }
    let bench = Bench::new(agent);
    bench.rig.state("START.md", "begin");
    bench.api.on("begin", [refuse(429)]);
    bench.run(&["--no-wait"]).assert(5, "");
}

fn login(agent: &Agent) {
    let bench = Bench::new(agent);
    bench.rig.state("START.md", "begin");
    bench.api.on("begin", [refuse(401)]);
    bench.run(&[]).assert(1, "").says("not logged in");
}
