//! The replies of the fake.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::price::Usage;

/// One answer of the model, or of its service.
#[derive(Clone, Debug)]
pub struct Reply {
    /// For the records.
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
    /// By default every answer has a different usage.
    pub(crate) usage: Option<Usage>,
    pub(crate) manner: Manner,
    pub(crate) headers: Vec<(String, String)>,
    /// The time until the reported limit ends, counted from when the reply is sent.
    pub(crate) resets_in: Option<Duration>,
    /// That time in seconds since 1970, once the reply is sent.
    pub(crate) resets_at: Option<u64>,
    /// Whether the answer was cut at the model's longest length.
    pub(crate) is_cut: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Block {
    Text(String),
    Tool { name: String, input: Value },
}

#[derive(Clone, Debug)]
pub(crate) enum Manner {
    Whole,
    /// With a pause between the pieces.
    Slow(Duration),
    /// Nothing at all is sent.
    Silent,
    /// Nothing is sent after the first piece.
    Stuck,
    /// The connection is closed after the first piece.
    Dropped,
    /// An error instead of the rest, in the stream.
    Broken {
        kind: String,
        message: String,
    },
    /// An error instead of an answer.
    Refused {
        status: u16,
        kind: String,
        message: String,
    },
}

/// The model says this and ends its turn.
pub fn say(text: &str) -> Reply {
    Reply {
        name: text.to_owned(),
        blocks: vec![Block::Text(text.to_owned())],
        usage: None,
        manner: Manner::Whole,
        headers: Vec::new(),
        resets_in: None,
        resets_at: None,
        is_cut: false,
    }
}

/// The model uses a tool: `Bash` with a command, or any other with the JSON of its input.
pub fn use_tool(name: &str, input: &str) -> Reply {
    let input = serde_json::from_str(input)
        .ok()
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({ "command": input, "description": "a test" }));
    Reply {
        name: format!("{name}: {input}"),
        blocks: vec![Block::Tool { name: name.to_owned(), input }],
        ..say("")
    }
}

/// The service refuses with this status.
pub fn refuse(status: u16) -> Reply {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    Reply { blocks: Vec::new(), ..say("") }.refused(status, kind, &format!("a scripted {status}"))
}

impl Reply {
    /// Replaces the usual error of its status, or sends an error in the stream.
    #[must_use]
    pub fn because(self, kind: &str, message: &str) -> Self {
        match self.manner {
            Manner::Refused { status, .. } => self.refused(status, kind, message),
            _ => {
                Self { manner: Manner::Broken { kind: kind.to_owned(), message: message.to_owned() }, ..self }
            }
        }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Refuses because the usage limit of a subscription is reached, for this time after the reply is sent.
    #[must_use]
    pub fn for_seconds(self, seconds: u64) -> Self {
        Self { resets_in: Some(Duration::from_secs(seconds)), ..self }
    }

    /// The reply with its times computed from now.
    pub(crate) fn sent(self) -> Self {
        let Some(wait) = self.resets_in else { return self };
        let resets_at = (UNIX_EPOCH.elapsed().unwrap_or_default() + wait).as_secs();
        let time = resets_at.to_string();
        let timed = Self { resets_at: Some(resets_at), ..self };
        timed
            .because("rate_limit_error", "This request would exceed your account's rate limit.")
            .header("anthropic-ratelimit-unified-status", "rejected")
            .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
            .header("anthropic-ratelimit-unified-reset", &time)
            .header("anthropic-ratelimit-unified-5h-reset", &time)
            .header("anthropic-ratelimit-unified-5h-status", "rejected")
            .header("anthropic-ratelimit-unified-5h-utilization", "1.0")
            .header("x-codex-primary-used-percent", "100")
            .header("x-codex-primary-window-minutes", "300")
            .header("x-codex-primary-reset-at", &time)
    }

    #[must_use]
    pub fn costing(self, usage: Usage) -> Self {
        Self { usage: Some(usage), ..self }
    }

    #[must_use]
    pub fn slowly(self, pause: Duration) -> Self {
        Self { manner: Manner::Slow(pause), ..self }
    }

    /// The answer never begins.
    #[must_use]
    pub fn silent(self) -> Self {
        Self { manner: Manner::Silent, ..self }
    }

    /// The answer never ends.
    #[must_use]
    pub fn stuck(self) -> Self {
        Self { manner: Manner::Stuck, ..self }
    }

    /// The answer is cut at the model's longest length.
    #[must_use]
    pub fn cut(self) -> Self {
        Self { is_cut: true, ..self }
    }

    /// The connection breaks in the middle of the answer.
    #[must_use]
    pub fn dropped(self) -> Self {
        Self { manner: Manner::Dropped, ..self }
    }

    /// Text before the tool use.
    #[must_use]
    pub fn after(mut self, text: &str) -> Self {
        self.blocks.insert(0, Block::Text(text.to_owned()));
        self
    }

    fn refused(self, status: u16, kind: &str, message: &str) -> Self {
        Self {
            name: format!("{status} {kind}"),
            manner: Manner::Refused { status, kind: kind.to_owned(), message: message.to_owned() },
            ..self
        }
    }

    pub(crate) fn stop_reason(&self) -> &'static str {
        let uses_tools = self.blocks.iter().any(|block| matches!(block, Block::Tool { .. }));
        match uses_tools {
            true => "tool_use",
            false if self.is_cut => "max_tokens",
            false => "end_turn",
        }
    }
}
