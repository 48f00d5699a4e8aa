//! What the calls of the model have used in a turn. The program does not print it; the file of its conversation tells it
//! after every call, so that a turn that is killed is told, too.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use crate::agent::events::{count, text};
use crate::agent::lines::LONGEST_LINE;
use crate::agent::{Context, Tokens};
use crate::files::{MAX_KEPT_BYTES, open_plain};

/// What stands in a line that tells of a call.
const OF_A_CALL: &str = "\"session.usage_record\"";

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) tokens: Tokens,
    pub(super) context: Option<Context>,
}

/// The usage that a conversation's file tells after the event with this id, with which the turn began.
pub(super) fn since(file: &Path, first: &str) -> io::Result<Usage> {
    let mut lines = BufReader::new(open_plain(file)?.take(MAX_KEPT_BYTES));
    let first = format!("\"id\":\"{first}\"");
    let (mut used, mut has_begun, mut line) = (Usage::default(), false, Vec::new());
    while lines.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut line)? > 0 {
        let said = String::from_utf8_lossy(&line);
        if has_begun && said.contains(OF_A_CALL) {
            // A line that was being written when the program was killed tells nothing.
            used.add(&serde_json::from_str(&said).unwrap_or_default());
        }
        has_begun |= said.contains(&first);
        line.clear();
    }
    Ok(used)
}

impl Usage {
    fn add(&mut self, event: &Value) {
        if text(event, "/type") != "session.usage_record" {
            return;
        }
        let usage = &event["data"]["usage"];
        let (read, output) = (count(usage, "/inputTokens"), count(usage, "/outputTokens"));
        let (cache_read, cache_write) = (count(usage, "/cacheReadTokens"), count(usage, "/cacheWriteTokens"));
        // Its input contains what came from the cache and what was written to it.
        let input = read.saturating_sub(cache_read).saturating_sub(cache_write);
        self.tokens = self.tokens.plus(Tokens { input, output, cache_write, cache_read });
        // Agents that the agent has begun have windows of their own.
        if text(usage, "/interactionType") == "conversation-agent" {
            let (used, window) = (read.saturating_add(output), count(usage, "/maxPromptTokens"));
            self.context = (used > 0 && window > 0).then_some(Context { used, window });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn call(input: u64, cached: u64, kind: &str) -> String {
        format!(
            r#"{{"type":"session.usage_record","data":{{"usage":{{"inputTokens":{input},"outputTokens":20,"cacheReadTokens":{cached},"cacheWriteTokens":0,"maxPromptTokens":128000,"interactionType":"{kind}"}}}},"id":"x"}}"#
        )
    }

    #[test]
    fn only_the_calls_of_the_turn_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("events.jsonl");
        let lines = [
            r#"{"type":"user.message","data":{"content":"of another turn"},"id":"u1"}"#.to_owned(),
            call(500, 0, "conversation-agent"),
            r#"{"type":"user.message","data":{"content":"\"session.usage_record\""},"id":"u2"}"#.to_owned(),
            call(100, 10, "conversation-agent"),
            r#"{"type":"assistant.message","data":{"content":"\"session.usage_record\""},"id":"a"}"#
                .to_owned(),
            call(1000, 100, "subagent"),
            call(9, 0, "conversation-agent")[..40].to_owned(),
        ];
        fs::write(&file, lines.join("\n")).unwrap();
        let tokens = Tokens { input: 990, output: 40, cache_write: 0, cache_read: 110 };
        let context = Some(Context { used: 120, window: 128_000 });
        assert_eq!(since(&file, "u2").unwrap(), Usage { tokens, context });
        assert_eq!(since(&file, "u1").unwrap().tokens.input, 1490);
        assert_eq!(since(&file, "not there").unwrap(), Usage::default());
        assert!(since(&folder.path().join("none"), "u1").is_err());
    }
}
