//! Requests to the fake, written by hand.

use std::io::{Read, Write};
use std::net::TcpStream;

use mock_api::{Api, Usage, nanos_for, refuse, say, use_tool};
use serde_json::{Value, json};

/// Sends a request on a new connection and returns the whole response.
#[cfg(test)]
fn ask(api: &Api, prompt: &str, is_streamed: bool) -> String {
    let body = json!({
        "model": "claude-haiku-4-5", "stream": is_streamed,
        "metadata": { "user_id": json!({ "session_id": "s" }).to_string() },
        "messages": [
            { "role": "user", "content": [
                { "type": "text", "text": "<system-reminder>no words of the user</system-reminder>" },
                { "type": "text", "text": prompt },
            ] },
            { "role": "assistant", "content": [{ "type": "tool_use", "name": "Bash", "input": { "a": 1 } }] },
            { "role": "user", "content": [{ "type": "tool_result", "content": "fine" }] },
        ],
    })
    .to_string();
    let mut stream = TcpStream::connect(api.url().trim_start_matches("http://")).unwrap();
    let head = format!("POST /v1/messages?beta=true HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn replies_come_in_order_and_the_last_is_repeated() {
    let api = Api::start();
    api.on("tea", [say("first"), refuse(529), say("last")]).on("green tea", [use_tool("Bash", "boil")]);
    assert!(ask(&api, "make tea", true).ends_with("data: {\"type\":\"message_stop\"}\n\n\r\n0\r\n\r\n"));
    assert!(ask(&api, "make tea", true).starts_with("HTTP/1.1 529 "));
    for _ in 0..2 {
        let answer = ask(&api, "make tea", false);
        let message: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(message["content"][0]["text"], "last");
    }
    assert!(
        ask(&api, "make green tea", true).contains("\"stop_reason\":\"tool_use\""),
        "the longer text counts"
    );
    assert!(ask(&api, "make coffee", true).contains("no rule for the prompt: make coffee"));
    let answers: Vec<String> = api.requests().into_iter().map(|request| request.answer).collect();
    assert_eq!(answers[..4], ["first", "529 overloaded_error", "last", "last"]);
}

#[test]
fn requests_and_usage_are_recorded() {
    let api = Api::start();
    let used = Usage { input: 10, output: 20, cache_write: 40, cache_read: 50 };
    api.on("tea", [say("whole").costing(used), say("half").costing(used).dropped(), refuse(500)]);
    for _ in 0..3 {
        ask(&api, "tea", true);
    }
    let requests = api.requests();
    assert_eq!(requests[0].history, ["user: tea", "tool: Bash {\"a\":1}", "got: fine"]);
    assert_eq!((requests[0].prompt.as_str(), requests[0].session.as_str()), ("tea", "s"));
    let whole: Vec<bool> = requests.iter().map(|request| request.is_whole).collect();
    assert_eq!(whole, [true, false, false]);
    let nanos: Vec<u64> = requests.iter().map(|request| request.nanos()).collect();
    assert_eq!(nanos, [10_000 + 100_000 + 50_000 + 5_000, 10_000 + 5_000 + 50_000 + 5_000, 0]);
    assert_eq!(api.spent_nanos(), nanos.iter().sum::<u64>());
    assert_eq!(nanos_for("claude-haiku-4-5", used), nanos[0]);
}

/// If the client is killed while it sends a request, there is no request.
#[test]
fn an_incomplete_request_is_ignored() {
    let api = Api::start();
    let body = json!({ "messages": [{ "role": "user", "content": "tea" }] }).to_string();
    let whole = format!("POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for length in [0, 1, 20, 30, 50, whole.len() - body.len(), whole.len() - 1] {
        let mut stream = TcpStream::connect(api.url().trim_start_matches("http://")).unwrap();
        stream.write_all(&whole.as_bytes()[..length]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // The server closes the connection once it notices.
        stream.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(api.requests().len(), 0, "{length} of {} bytes", whole.len());
    }
}
