//! JSON-RPC with a program, one message a line: what it is told, and which answer belongs to which request.

use serde_json::{Value, json};

use super::events::{count, text};

/// One side of the conversation.
#[derive(Debug, Default)]
pub(super) struct Rpc {
    /// What is not written yet.
    outgoing: Vec<u8>,
    /// The methods that were asked for; a request's id is its place in the list, counted from 1.
    asked: Vec<&'static str>,
}

/// A message of the program.
#[derive(Debug)]
pub(super) enum Message<'m> {
    /// The answer to the request for this method.
    Answer { method: &'static str, result: &'m Value },
    /// The request for this method was refused.
    Refusal { method: &'static str, error: &'m Value },
    /// The program asks for something.
    Request { id: &'m Value, method: &'m str, params: &'m Value },
    /// The program tells something.
    Notice { method: &'m str, params: &'m Value },
}

impl Rpc {
    pub(super) fn request(&mut self, method: &'static str, params: Value) {
        self.asked.push(method);
        let id = self.asked.len();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(super) fn answer(&mut self, id: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Says that what the program asks for is not there.
    pub(super) fn refuse(&mut self, id: &Value) {
        let error = json!({ "code": -32601, "message": "not supported" });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    fn send(&mut self, message: &Value) {
        self.outgoing.extend(format!("{message}\n").into_bytes());
    }

    /// What is to be written now.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// What a line of the program is, if it is a message to us.
    pub(super) fn read<'m>(&self, line: &'m Value) -> Option<Message<'m>> {
        let method = text(line, "/method");
        match (method.is_empty(), line.get("id")) {
            (false, Some(id)) => Some(Message::Request { id, method, params: &line["params"] }),
            (false, None) => Some(Message::Notice { method, params: &line["params"] }),
            (true, Some(_)) => {
                let number = usize::try_from(count(line, "/id")).ok()?;
                let method = *self.asked.get(number.checked_sub(1)?)?;
                Some(match line.get("error") {
                    Some(error) => Message::Refusal { method, error },
                    None => Message::Answer { method, result: &line["result"] },
                })
            }
            (true, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_belong_to_their_requests() {
        let mut rpc = Rpc::default();
        rpc.request("first", json!({}));
        rpc.request("second", json!({ "x": 1 }));
        let sent = String::from_utf8(rpc.take()).unwrap();
        assert!(
            sent.ends_with("{\"id\":2,\"jsonrpc\":\"2.0\",\"method\":\"second\",\"params\":{\"x\":1}}\n"),
            "{sent}"
        );
        assert!(rpc.take().is_empty());
        let read = |line: Value| rpc.read(&line).map(|message| format!("{message:?}"));
        assert!(read(json!({ "id": 2, "result": 7 })).unwrap().starts_with("Answer { method: \"second\""));
        assert!(read(json!({ "id": 1, "error": {} })).unwrap().starts_with("Refusal { method: \"first\""));
        assert!(read(json!({ "id": "a", "method": "ask" })).unwrap().starts_with("Request"));
        assert!(read(json!({ "method": "tell" })).unwrap().starts_with("Notice"));
        for other in [json!({ "id": 3, "result": 7 }), json!({ "id": 0 }), json!({ "id": "x" }), json!({})] {
            assert_eq!(read(other), None);
        }
    }
}
