//! Which requests are let in: the right host, the right origin, the right token.
//!
//! A page on another site can make a browser send requests here, and can make its own name lead to this machine. So the
//! name that a request uses for this server is checked before anything else, and no cookie is ever used. Browsers send
//! cookies to every port of a machine, but the token only where the page's own script puts it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, Uri};

use super::problem::Problem;
use super::token::Token;

/// How many wrong tokens a minute are answered at once.
const WRONG_TOKENS: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// How long a further one waits.
const PENALTY: Duration = Duration::from_secs(2);
/// How long the address and all headers of a request may be.
const MAX_ADDRESS_BYTES: usize = 16 * 1024;
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// A name that requests may use for this server.
#[derive(Debug)]
struct Name {
    /// With its port, unless that is left out.
    text: String,
    /// Whether a proxy is in front of it, which may speak `https`.
    is_proxied: bool,
}

pub struct Guard {
    names: Vec<Name>,
    token: Token,
    /// When wrong tokens came in the last minute.
    wrong: Mutex<VecDeque<Instant>>,
}

impl Guard {
    pub fn new(address: SocketAddr, allowed: &[String], token: Token) -> Self {
        let own = [address.to_string(), format!("localhost:{}", address.port())];
        let own = own.into_iter().map(|text| Name { text, is_proxied: false });
        // A browser leaves out the port that is usual for the scheme.
        let usual = ["localhost".to_owned(), bare(address)];
        let usual = usual.into_iter().filter(|_| address.port() == 80);
        let usual = usual.map(|text| Name { text, is_proxied: false });
        let allowed = allowed.iter().map(|text| Name { text: text.clone(), is_proxied: true });
        let names = own.chain(usual).chain(allowed).collect();
        Self { names, token, wrong: Mutex::default() }
    }

    /// Checks what can be checked before it is known what a request asks for.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        if uri.to_string().len() > MAX_ADDRESS_BYTES {
            return Err(Problem::new(414, "the address is longer than 16 KiB"));
        }
        let length: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if length > MAX_HEADER_BYTES {
            return Err(Problem::new(431, "the headers are longer than 64 KiB"));
        }
        let name = self.host(uri, headers)?;
        if is_reading(method) {
            return Ok(());
        }
        check_origin(name, headers)
    }

    /// The name that the request uses for this server, if it may.
    fn host(&self, uri: &Uri, headers: &HeaderMap) -> Result<&Name, Problem> {
        let mut given = headers.get_all(HOST).iter();
        let host = match (given.next(), given.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            (None, _) => return Err(wrong_host("a request names its Host")),
            (Some(_), Some(_)) => return Err(Problem::malformed("a request names one Host")),
        };
        // An address with a host of its own must not differ from the header.
        let in_address = uri.authority().map(|authority| authority.as_str());
        if in_address.is_some_and(|authority| !authority.eq_ignore_ascii_case(host)) {
            return Err(wrong_host("the address names another host than the header"));
        }
        let found = self.names.iter().find(|name| name.text.eq_ignore_ascii_case(host));
        found.ok_or_else(|| {
            wrong_host("this server does not answer to that Host; --allow-host NAME[:PORT] permits another")
        })
    }

    /// Whether the request has the right token.
    pub fn is_known(&self, headers: &HeaderMap) -> bool {
        given_token(headers).is_some_and(|given| self.token.is(given))
    }

    /// Checks the token. The right one is never made to wait.
    pub async fn check_token(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(given) = given_token(headers) else {
            return Err(no_token("give the token: Authorization: Bearer TOKEN"));
        };
        if self.token.is(given) {
            return Ok(());
        }
        if self.count_wrong() <= WRONG_TOKENS {
            return Err(no_token("this is not the token"));
        }
        // However many wait: those who have not shown the right token share few connections (`door`), and leave them to
        // newcomers. Nothing is counted up and down here, because a client may go away while it waits.
        tokio::time::sleep(PENALTY).await;
        Err(Problem::new(429, "there were too many wrong tokens; wait a minute"))
    }

    /// How many wrong tokens came in the last minute, with this one.
    fn count_wrong(&self) -> usize {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        wrong.push_back(now);
        while wrong.len() > 2 * WRONG_TOKENS
            || wrong.front().is_some_and(|time| now.duration_since(*time) > MINUTE)
        {
            wrong.pop_front();
        }
        wrong.len()
    }
}

/// The address without its port.
fn bare(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

pub fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn wrong_host(detail: &str) -> Problem {
    Problem::new(403, detail)
}

fn no_token(detail: &str) -> Problem {
    Problem::new(401, detail)
}

fn given_token(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(AUTHORIZATION).map(|value| value.as_bytes()).and_then(bearer)
}

/// What follows the word `Bearer`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token.trim_ascii())
}

/// A browser names the site whose page makes a request that changes something. It must be the page of this server.
fn check_origin(name: &Name, headers: &HeaderMap) -> Result<(), Problem> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let is_same = |origin: &[u8]| {
        let schemes: &[&str] = if name.is_proxied { &["http", "https"] } else { &["http"] };
        schemes
            .iter()
            .any(|scheme| format!("{scheme}://{}", name.text).as_bytes().eq_ignore_ascii_case(origin))
    };
    match origins.all(|origin| is_same(origin.as_bytes())) {
        true => Ok(()),
        false => Err(Problem::new(403, "the Origin is not this server")),
    }
}

/// A form on another site can send anything but JSON without being asked.
pub fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            Err(Problem::new(415, "a request that changes something is `Content-Type: application/json`"))
        }
    }
}

/// The headers of every answer. They keep a page from being framed, guessed at, or made to load from anywhere else.
pub const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allowed: &[&str]) -> Guard {
        let folder = tempfile::tempdir().unwrap();
        let token = Token::keep(&folder.path().join("t")).unwrap();
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        Guard::new("127.0.0.1:7878".parse().unwrap(), &allowed, token)
    }

    fn status(guard: &Guard, method: Method, uri: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        guard.check(&method, &uri.parse().unwrap(), &map).map_or_else(|problem| problem.status, |()| 200)
    }

    #[test]
    fn only_names_of_this_server_are_answered_to() {
        let guard = guard(&["proxy.example", "other:8443"]);
        let get = |host: &str| status(&guard, Method::GET, "/", &[("host", host)]);
        for host in ["127.0.0.1:7878", "localhost:7878", "LOCALHOST:7878", "proxy.example", "other:8443"] {
            assert_eq!(get(host), 200, "{host}");
        }
        for host in ["", "evil", "evil:7878", "127.0.0.1", "localhost", "localhost:80", "proxy.example:7878"]
        {
            assert_eq!(get(host), 403, "{host}");
        }
        let two = [("host", "localhost:7878"), ("host", "evil")];
        assert_eq!(status(&guard, Method::GET, "/", &two), 400);
        assert_eq!(status(&guard, Method::GET, "/", &[two[0], two[0]]), 400);
        assert_eq!(status(&guard, Method::GET, "/", &[]), 403);
        assert_eq!(status(&guard, Method::GET, "http://evil/", &two[..1]), 403);
        assert_eq!(status(&guard, Method::GET, &format!("/{}", "x".repeat(20_000)), &two[..1]), 414);
        let long = "x".repeat(70_000);
        assert_eq!(status(&guard, Method::GET, "/", &[two[0], ("x-long", &long)]), 431);
    }

    #[test]
    fn a_change_comes_from_the_same_origin_and_is_json() {
        let guard = guard(&["proxy.example"]);
        let post = |host: &str, origin: Option<&str>, kind: &str| {
            let mut headers = vec![("host", host), ("content-type", kind)];
            headers.extend(origin.map(|origin| ("origin", origin)));
            let mut map = HeaderMap::new();
            map.insert(CONTENT_TYPE, kind.parse().unwrap());
            let by_type = check_type(&map).map_or_else(|problem| problem.status, |()| 200);
            status(&guard, Method::POST, "/x", &headers).max(by_type)
        };
        const JSON: &str = "application/json";
        assert_eq!(post("localhost:7878", None, JSON), 200);
        assert_eq!(post("localhost:7878", None, "application/json; charset=utf-8"), 200);
        assert_eq!(post("localhost:7878", Some("http://localhost:7878"), JSON), 200);
        assert_eq!(post("proxy.example", Some("https://proxy.example"), JSON), 200);
        for origin in ["http://localhost:3000", "https://localhost:7878", "null", "http://127.0.0.1:7878"] {
            assert_eq!(post("localhost:7878", Some(origin), JSON), 403, "{origin}");
        }
        for kind in ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"] {
            assert_eq!(post("localhost:7878", None, kind), 415, "{kind}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_wait_and_the_right_one_never() {
        let guard = guard(&[]);
        let ask = async |token: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            let before = tokio::time::Instant::now();
            let status = guard.check_token(&headers).await.map_or_else(|problem| problem.status, |()| 200);
            (status, before.elapsed() >= PENALTY)
        };
        let right = guard.token.as_str().to_owned();
        for _ in 0..WRONG_TOKENS {
            assert_eq!(ask("wrong").await, (401, false));
        }
        assert_eq!(ask("wrong").await, (429, true));
        assert_eq!(ask(&right).await, (200, false));
        // Those who go away while they wait change nothing for those who come later.
        for _ in 0..200 {
            let aborted = tokio::time::timeout(Duration::from_millis(1), ask("wrong")).await;
            assert!(aborted.is_err(), "it waits");
        }
        assert_eq!(ask("wrong").await, (429, true));
        assert_eq!(ask(&right).await, (200, false));
    }
}
