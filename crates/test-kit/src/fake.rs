//! What the stand-in for Claude Code was told.

use std::path::Path;

use serde_json::Value;

/// A file of JSON lines; a last one that is still being written is left out.
pub fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The earlier turns that the agent remembered in a call, oldest first; `…` for a reply that never came. Of long
/// prompts only the beginning: they stand in full where they were sent.
pub fn memory(call: &Value) -> Vec<String> {
    let turns = call["history"].as_array().into_iter().flatten();
    turns
        .map(|turn| {
            let prompt = turn["prompt"].as_str().unwrap_or_default().trim();
            let mut beginning: String = prompt.chars().take(100).collect();
            if beginning.len() < prompt.len() {
                beginning.push('…');
            }
            format!("{beginning} → {}", turn["reply"].as_str().unwrap_or("…"))
        })
        .collect()
}

/// The calls as a text to read and compare. Of parallel ones neither order nor budget is told.
pub fn told(calls: &[Value], parallel: bool) -> String {
    let told = |call: &Value| -> String {
        let origin = calls
            .iter()
            .position(|earlier| !call["parent"].is_null() && earlier["session"] == call["parent"]);
        let mut text = match origin {
            Some(_) if parallel => "branches off".to_owned(),
            Some(number) => format!("branches off {}", number + 1),
            None if call["parent"].is_null() => "fresh".to_owned(),
            None => "branches off something unknown".to_owned(),
        };
        for (key, name) in [("effort", "effort"), ("permission_mode", "mode"), ("refused", "REFUSED")] {
            if let Some(value) = call[key].as_str() {
                text.push_str(&format!(", {name} {value}"));
            }
        }
        if let Some(budget) = call["budget_usd"].as_f64().filter(|_| !parallel) {
            text.push_str(&format!(", budget {budget}"));
        }
        text.push('\n');
        let flags = other_flags(call);
        if !flags.is_empty() {
            text.push_str(&format!("  flags: {}\n", flags.join(" ")));
        }
        for turn in memory(call) {
            text.push_str(&format!(
                "  remembers: {}\n",
                turn.escape_debug().to_string().replace("\\\"", "\"")
            ));
        }
        let prompt = call["prompt"].as_str().unwrap_or_default();
        text + &format!("  prompt: {}\n", prompt.escape_debug().to_string().replace("\\\"", "\""))
    };
    let mut told: Vec<String> = calls.iter().map(told).collect();
    if parallel {
        told.sort();
        return told.concat();
    }
    told.iter().enumerate().map(|(index, call)| format!("{}: {call}", index + 1)).collect()
}

/// The arguments that are neither always there nor told otherwise.
fn other_flags(call: &Value) -> Vec<String> {
    let told = ["--session-id", "--resume", "--effort", "--permission-mode", "--max-budget-usd"];
    let mut argv = call["argv"].as_array().into_iter().flatten().filter_map(Value::as_str).peekable();
    let mut flags = Vec::new();
    while let Some(flag) = argv.next() {
        match flag {
            "-p" | "--verbose" | "--fork-session" => {}
            "--output-format" => drop(argv.next()),
            _ if told.contains(&flag) => drop(argv.next()),
            // Every agent may use its own folder.
            "--add-dir" if argv.next_if(|folder| folder.contains(".tasks/")).is_some() => {}
            _ => flags.push(flag.to_owned()),
        }
    }
    flags
}
