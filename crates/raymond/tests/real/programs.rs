//! The agent programs that are tested, and what the tests have to know about each.

use std::path::PathBuf;
use std::sync::Arc;

use mock_api::{Reply, refuse, use_tool};
use raymond::agent::registry::program;
use raymond::agent::{AgentProgram, Capabilities};
use raymond::config::BackendSettings;
use serde_json::json;
use test_kit::rig::Rig;

/// One version of an agent program.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) kind: &'static Kind,
    pub(crate) version: &'static str,
    /// Where npm has put it.
    folder: PathBuf,
}

/// What the tests know about a kind of agent program.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Whether it is talked to with the Agent Client Protocol, and can branch conversations then.
    is_acp: bool,
    /// Cases that say nothing about it.
    left_out: &'static [&'static str],
    /// The backend's own arguments.
    pub(crate) args: &'static [&'static str],
    /// The oldest first. The last one is tested with every case, the others with [`SHORT`].
    versions: &'static [&'static str],
    pub(crate) model: &'static str,
    /// Another model, for a state that chooses one.
    pub(crate) other_model: &'static str,
    /// What a million tokens of that model cost: input, output, and input from the cache. `None` where no cost is told.
    pub(crate) prices: Option<[f64; 3]>,
    /// The agent runs a command.
    pub(crate) shell: fn(&str) -> Reply,
    /// A refusal that the program takes for a usage limit without trying again for long, if there is one.
    pub(crate) limit: fn() -> Reply,
    /// Whether the end of that limit is told.
    pub(crate) tells_end_of_limit: bool,
    /// Whether it says that it does not have a conversation. Otherwise it only fails.
    pub(crate) tells_lost: bool,
    /// What becomes of an answer that was cut at the model's longest length.
    pub(crate) cut: Cut,
    /// Points the program at the fake, with as few tries of its own as it can be told to make: writes its settings,
    /// and returns its variables.
    set_up: fn(&Rig, &str) -> Vec<(&'static str, String)>,
}

/// The cases with an older version: those in which versions were seen to differ (how costs are told, what becomes of work in
/// the background, a stream that is dropped, what a mode is called), and the first of what a turn can come to.
const SHORT: &[&str] = &[
    "every::each_transition_has_the_right_conversation",
    "every::tokens_of_each_turn_are_counted_once",
    "every::a_killed_run_goes_on_with_the_same_conversation",
    "every::a_usage_limit_ends_the_run_with_no_wait",
    "every::a_refused_login_fails_at_once",
    "every::a_state_without_a_model_gets_none_of_another_state",
    "every::an_answer_that_was_cut_is_noticed",
    "every_transition_has_the_right_conversation",
    "every_option_of_a_state_is_understood",
    "failures_of_the_service_are_retried_and_not_in_the_conversation",
    "a_background_task_does_not_delay_the_end_of_the_step",
    "the_cost_of_subagents_is_counted",
    "parallel_agents_are_counted_once",
    "the_cost_of_a_failed_turn_counts",
    "a_turn_continues_after_its_share_is_used",
    "a_tool_server_that_does_not_start_is_named",
    "a_turn_whose_tool_a_hook_puts_off_has_not_finished",
    "a_killed_raymond_resumes_a_tool_call_with_a_perfect_history",
];

/// What becomes of an answer that was cut at the model's longest length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Fails,
    /// The program asks the model to go on.
    GoesOn,
    /// It cannot be told from a whole one.
    LooksWhole,
}

/// The model of Claude Code: both versions and the fake know its prices.
pub(crate) const MODEL: &str = "claude-haiku-4-5";

const CODEX: Kind = Kind {
    name: "codex",
    is_acp: false,
    left_out: &[],
    args: &[],
    versions: &["0.166.0", "0.169.0"],
    model: "gpt-5",
    other_model: "gpt-5-mini",
    prices: Some([1.25, 10.0, 0.125]),
    shell: |command| {
        use_tool("exec_command", &json!({ "cmd": command, "yield_time_ms": 30_000 }).to_string())
    },
    limit: || refuse(429).for_seconds(3600),
    tells_end_of_limit: true,
    tells_lost: true,
    cut: Cut::Fails,
    set_up: codex,
};

const OPENCODE: Kind = Kind {
    name: "opencode",
    is_acp: false,
    left_out: &[],
    args: &[],
    versions: &["1.18.33"],
    model: "mock/mock-model",
    other_model: "mock/other-model",
    prices: Some([1.0, 10.0, 0.1]),
    shell: |command| use_tool("bash", command),
    limit: || refuse(429),
    tells_end_of_limit: false,
    tells_lost: true,
    cut: Cut::Fails,
    set_up: opencode,
};

const KINDS: &[Kind] = &[
    Kind {
        name: "claude",
        is_acp: false,
        left_out: &[],
        args: &[],
        versions: &["2.1.197", "2.1.325", "2.1.327"],
        model: MODEL,
        other_model: "claude-sonnet-4-5",
        prices: Some([1.0, 5.0, 0.1]),
        shell: |command| use_tool("Bash", command),
        limit: || refuse(429).for_seconds(3600),
        tells_end_of_limit: true,
        tells_lost: true,
        cut: Cut::GoesOn,
        set_up: claude,
    },
    CODEX,
    Kind {
        // An argument that `app-server` does not take.
        args: &["-a", "never"],
        ..CODEX
    },
    Kind {
        name: "copilot",
        is_acp: false,
        left_out: &[],
        args: &[],
        versions: &["1.0.102"],
        model: "mock-model",
        other_model: "other-model",
        prices: Some([1.0, 10.0, 0.1]),
        shell: |command| use_tool("bash", command),
        // Without such a wait it tries again for a minute.
        limit: || refuse(429).header("retry-after", "7200"),
        tells_end_of_limit: false,
        tells_lost: true,
        cut: Cut::GoesOn,
        set_up: copilot,
    },
    Kind {
        name: "gemini",
        is_acp: false,
        left_out: &[],
        args: &[],
        versions: &["0.61.0"],
        model: "gemini-2.5-pro",
        other_model: "gemini-2.5-flash",
        prices: Some([1.25, 10.0, 0.3125]),
        shell: |command| use_tool("run_shell_command", command),
        limit: || refuse(429),
        tells_end_of_limit: false,
        tells_lost: true,
        cut: Cut::LooksWhole,
        set_up: gemini,
    },
    OPENCODE,
    // The same program, talked to with the Agent Client Protocol. Each of its turns takes seconds of processor time, so
    // cases that are about Raymond and not about the protocol are left to the others.
    Kind {
        is_acp: true,
        left_out: &[
            "every::tokens_of_each_turn_are_counted_once",
            "every::a_killed_run_goes_on_with_the_same_conversation",
            // It does not tell that an answer was cut.
            "every::an_answer_that_was_cut_is_noticed",
            // It waits for a limit without a word.
            "every::a_usage_limit_ends_the_run_with_no_wait",
            "every::a_long_wait_of_the_program_is_a_usage_limit",
            // It calls every refusal an internal error, so the turn is tried again.
            "every::a_refused_login_fails_at_once",
            "every::a_ping_of_doctor_tells_a_refused_login",
        ],
        args: &["acp"],
        prices: None,
        tells_lost: false,
        ..OPENCODE
    },
    Kind {
        name: "pi",
        is_acp: false,
        left_out: &[],
        args: &[],
        versions: &["0.87.1"],
        model: "mock/mock-model",
        other_model: "mock/other-model",
        prices: Some([1.0, 10.0, 0.1]),
        shell: |command| use_tool("bash", command),
        limit: || refuse(429),
        tells_end_of_limit: false,
        tells_lost: true,
        cut: Cut::Fails,
        set_up: pi,
    },
];

impl Program {
    /// The versions that Raymond is tested with, as installed by `scripts/install-claude.sh` and
    /// `scripts/install-agents.sh`.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().flat_map(|kind| {
            kind.versions.iter().map(|version| {
                let folder = cache(kind).join(version);
                Self { kind, version, folder }
            })
        })
    }

    pub(crate) fn is_claude(&self) -> bool {
        self.kind.name == "claude"
    }

    /// As in the names of its tests.
    pub(crate) fn name(&self) -> String {
        let args = self.kind.args.concat();
        format!("{}{args}-{}", self.kind.name, self.version)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("node_modules/.bin").join(self.kind.name)
    }

    pub(crate) fn is_installed(&self) -> bool {
        self.path().exists()
    }

    /// The folder of a newer Node than the machine's, if the program needs one.
    pub(crate) fn own_node(&self) -> Option<PathBuf> {
        Some(self.folder.join("node_modules/node/bin")).filter(|folder| folder.exists())
    }

    /// Whether a case says something about it.
    pub(crate) fn takes(&self, case: &str) -> bool {
        let is_newest = self.kind.versions.last() == Some(&self.version);
        !self.kind.left_out.contains(&case) && (is_newest || SHORT.contains(&case))
    }

    /// The name of its backend.
    pub(crate) fn backend(&self) -> &'static str {
        if self.kind.is_acp { "acp" } else { self.kind.name }
    }

    pub(crate) fn settings(&self) -> BackendSettings {
        BackendSettings {
            command: Some(self.path().display().to_string()),
            args: self.kind.args.iter().map(|arg| (*arg).to_owned()).collect(),
            branches: self.kind.is_acp,
            ..BackendSettings::default()
        }
    }

    /// As Raymond knows it.
    pub(crate) fn agent(&self) -> Arc<dyn AgentProgram> {
        program(self.backend(), &self.settings()).unwrap()
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.agent().capabilities()
    }

    pub(crate) fn set_up(&self, rig: &Rig, url: &str) -> Vec<(&'static str, String)> {
        (self.kind.set_up)(rig, url)
    }
}

fn cache(kind: &Kind) -> PathBuf {
    match kind.name {
        "claude" => test_kit::needs::cache().join("claude-code"),
        other => test_kit::needs::cache().join("agents").join(other),
    }
}

/// One retry is enough to see that the program retries by itself.
fn claude(_rig: &Rig, url: &str) -> Vec<(&'static str, String)> {
    let quiet = ["DISABLE_TELEMETRY", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER"];
    let quiet = quiet.map(|name| (name, "1".to_owned()));
    let own = [("ANTHROPIC_BASE_URL", url.to_owned()), ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned())];
    own.into_iter().chain(quiet).collect()
}

fn codex(rig: &Rig, url: &str) -> Vec<(&'static str, String)> {
    let settings = format!(
        "model = \"gpt-5\"\nmodel_provider = \"mock\"\n[analytics]\nenabled = false\n[features]\nplugins = false\n\
         [model_providers.mock]\nname = \"mock\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"MOCK_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n"
    );
    rig.write("../agent/config.toml", settings);
    vec![("CODEX_HOME", home(rig)), ("MOCK_KEY", "key".to_owned())]
}

fn copilot(rig: &Rig, url: &str) -> Vec<(&'static str, String)> {
    vec![
        ("HOME", home(rig)),
        ("COPILOT_HOME", home(rig)),
        ("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1")),
        ("COPILOT_PROVIDER_API_KEY", "key".to_owned()),
        ("COPILOT_MODEL", "mock-model".to_owned()),
        ("COPILOT_OFFLINE", "true".to_owned()),
    ]
}

fn gemini(rig: &Rig, url: &str) -> Vec<(&'static str, String)> {
    // It would remove the conversation of an agent that starts at the same time, see docs/backends.md.
    let keep = json!({ "enabled": false });
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false, "maxAttempts": 1, "sessionRetention": keep },
    });
    rig.write("../agent/.gemini/settings.json", settings.to_string());
    vec![
        ("GEMINI_CLI_HOME", home(rig)),
        ("GEMINI_API_KEY", "key".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
    ]
}

fn opencode(rig: &Rig, url: &str) -> Vec<(&'static str, String)> {
    let price = json!({ "input": 1, "output": 10, "cache_read": 0.1 });
    let model = json!({
        "name": "a model", "cost": price, "reasoning": true, "variants": { "high": { "reasoningEffort": "high" } },
    });
    let settings = json!({ "model": "mock/mock-model", "provider": { "mock": {
        "npm": "@ai-sdk/openai-compatible", "name": "mock",
        "options": { "baseURL": format!("{url}/v1"), "apiKey": "key" },
        "models": { "mock-model": model, "other-model": model },
    } } });
    // Its own list of all models takes almost half of the time of a turn to read.
    let no_models = rig.write("../agent/models.json", "{}").display().to_string();
    vec![
        ("HOME", home(rig)),
        ("OPENCODE_CONFIG_CONTENT", settings.to_string()),
        ("OPENCODE_MODELS_PATH", no_models),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
    ]
}

fn pi(rig: &Rig, url: &str) -> Vec<(&'static str, String)> {
    let models = ["mock-model", "other-model"].map(|name| {
        json!({
            "id": name, "name": name, "reasoning": true, "input": ["text"],
            "contextWindow": 128_000, "maxTokens": 8192,
            "cost": { "input": 1, "output": 10, "cacheRead": 0.1, "cacheWrite": 0 },
        })
    });
    let provider = json!({
        "baseUrl": format!("{url}/v1"), "api": "openai-completions", "apiKey": "MOCK_KEY", "models": models,
    });
    rig.write("../agent/models.json", json!({ "providers": { "mock": provider } }).to_string());
    // What a new conversation has for which nothing is chosen.
    let own =
        json!({ "defaultProvider": "mock", "defaultModel": "mock-model", "defaultThinkingLevel": "low" });
    rig.write("../agent/settings.json", own.to_string());
    vec![
        ("PI_CODING_AGENT_DIR", home(rig)),
        ("PI_OFFLINE", "1".to_owned()),
        ("PI_TELEMETRY", "0".to_owned()),
        ("MOCK_KEY", "key".to_owned()),
    ]
}

/// Outside of the project: Raymond uses no key that lies in it.
fn home(rig: &Rig) -> String {
    let home = rig.work().parent().unwrap().join("agent");
    std::fs::create_dir_all(&home).unwrap();
    home.display().to_string()
}
