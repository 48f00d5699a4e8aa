//! A fake of the services of models, so that a real agent program can be tested without a model: it answers from a
//! script, and records the requests and what they would have cost. It speaks Anthropic's Messages API, and what other
//! agent programs use (`dialect`).
//!
//! ```
//! let api = mock_api::Api::start();
//! api.on("make tea", [mock_api::use_tool("Bash", "kettle --on"), mock_api::say("It is ready.")]);
//! // … start the program with ANTHROPIC_BASE_URL set to `api.url()` …
//! assert_eq!(api.spent_nanos(), 0);
//! ```
//!
//! It listens only on the loopback address.

mod answer;
mod dialect;
mod history;
mod http;
mod price;
mod reply;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

pub use history::Request;
pub use price::{Usage, nanos_for};
pub use reply::{Reply, refuse, say, use_tool};

/// A server that answers until it is dropped.
pub struct Api {
    address: SocketAddr,
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    rules: Mutex<Vec<Rule>>,
    requests: Mutex<Vec<Request>>,
    is_over: AtomicBool,
}

/// The answers to one prompt.
struct Rule {
    prompt: String,
    replies: Vec<Reply>,
    used: usize,
}

impl Api {
    /// Starts the server on a free port.
    ///
    /// # Panics
    ///
    /// If the system has no free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("no port: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("no address: {error}"));
        let shared = Arc::new(Shared {
            rules: Mutex::default(),
            requests: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || serve(&listener, &serving));
        Self { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers the requests whose newest prompt contains this text: each gets the next reply, and the last is repeated.
    /// Replaces an earlier rule for the same text. If several rules match, the one with the longest text is used.
    pub fn on(&self, prompt: &str, replies: impl IntoIterator<Item = Reply>) -> &Self {
        let rule = Rule { prompt: prompt.to_owned(), replies: replies.into_iter().collect(), used: 0 };
        let mut rules = lock(&self.shared.rules);
        rules.retain(|known| known.prompt != rule.prompt);
        rules.push(rule);
        self
    }

    /// Every request for an answer so far, in the order they came.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// The cost of all answers, in billionths of a dollar.
    pub fn spent_nanos(&self) -> u64 {
        lock(&self.shared.requests).iter().map(Request::nanos).sum()
    }

    pub fn forget_requests(&self) {
        lock(&self.shared.requests).clear();
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The blocked listener notices the end only when a connection arrives, so make one.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Records a request and returns the reply.
    pub(crate) fn take(&self, mut request: Request) -> (usize, Reply) {
        let mut reply = self.next_reply(&request.prompt);
        let mut requests = lock(&self.requests);
        reply.usage.get_or_insert(Usage::of_answer(requests.len() as u64));
        request.answer.clone_from(&reply.name);
        requests.push(request);
        (requests.len() - 1, reply)
    }

    fn next_reply(&self, prompt: &str) -> Reply {
        let mut rules = lock(&self.rules);
        let rule = rules
            .iter_mut()
            .filter(|rule| prompt.contains(&rule.prompt) && !rule.replies.is_empty())
            .max_by_key(|rule| rule.prompt.len());
        let Some(rule) = rule else {
            let start: String = prompt.chars().take(200).collect();
            return refuse(400).because("invalid_request_error", &format!("no rule for the prompt: {start}"));
        };
        let reply = rule.replies[rule.used.min(rule.replies.len() - 1)].clone().sent();
        rule.used += 1;
        reply
    }

    /// Records the tokens that an answer has used so far.
    pub(crate) fn used(&self, request: usize, usage: Usage, is_whole: bool) {
        if let Some(request) = lock(&self.requests).get_mut(request) {
            request.used = usage;
            request.is_whole = is_whole;
        }
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming().flatten() {
        if shared.is_over() {
            return;
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // An error means that the client has disconnected.
            let _ = http::converse(stream, &shared);
        });
    }
}

/// Ignores poisoning: a test that panics while it holds the lock leaves no partial change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
