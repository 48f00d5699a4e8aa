//! A `raymond serve` under test, and a small client for it. Every answer is held against the description of the API.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use test_kit::rig::{Live, Rig, wait_until};

/// How long a test waits for something that should come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub struct Site {
    pub address: String,
    pub token: String,
    pub live: Live,
    description: Value,
}

/// An answer that has ended.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Site {
    /// Starts a server on any free port.
    pub fn start(rig: &Rig) -> Site {
        Site::start_with(rig, &["--listen", "127.0.0.1:0"])
    }

    pub fn start_with(rig: &Rig, options: &[&str]) -> Site {
        let args: Vec<&str> = ["serve"].iter().chain(options).copied().collect();
        let live = rig.start(&args);
        wait_until("the login link", || live.stdout().ends_with('\n'));
        let stdout = live.stdout();
        let link = stdout.trim_end();
        assert_eq!(link.lines().count(), 1, "nothing else is on stdout");
        let (address, token) = link.strip_prefix("http://").unwrap().split_once("/#token=").unwrap();
        let mut site =
            Site { address: address.to_owned(), token: token.to_owned(), live, description: Value::Null };
        site.description = site.send("GET", "/api/v1/openapi.json", &[], "").json();
        site
    }

    /// A request with exactly these headers and the usual ones that are not among them.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let bearer = format!("Bearer {}", self.token);
        let mut all = vec![("Host", self.address.as_str()), ("Authorization", bearer.as_str())];
        if method == "POST" {
            all.push(("Content-Type", "application/json"));
        }
        all.retain(|(name, _)| !headers.iter().any(|(given, _)| given == name));
        all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in all {
            text += &format!("{name}: {value}\r\n");
        }
        if method != "GET" || !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        self.raw(&format!("{text}\r\n{body}"))
    }

    /// What comes back for these bytes.
    pub fn raw(&self, request: &str) -> Response {
        let mut stream = self.connect();
        // A server that refuses a long request may close before it has all of it.
        let _ = stream.write_all(request.as_bytes());
        read_response(&mut BufReader::new(stream))
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Reads something, and checks that the description of the API allows what comes back.
    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        let response = self.send("GET", path, &[], "");
        self.check("get", path, &response);
        response
    }

    #[track_caller]
    pub fn get_json(&self, path: &str) -> Value {
        let response = self.get(path);
        assert_eq!(response.status, 200, "{path}: {response:?}");
        response.json()
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Response {
        let response = self.send("POST", path, &[], &body.to_string());
        self.check("post", path, &response);
        response
    }

    /// Holds an answer against the description.
    #[track_caller]
    pub fn check(&self, method: &str, path: &str, response: &Response) {
        let path = path.split('?').next().unwrap();
        let paths = self.description["paths"].as_object().unwrap();
        let fits = |pattern: &&String| {
            let (pattern, path): (Vec<&str>, Vec<&str>) =
                (pattern.split('/').collect(), path.split('/').collect());
            pattern.len() == path.len()
                && pattern
                    .iter()
                    .zip(&path)
                    .all(|(pattern, part)| pattern == part || pattern.starts_with('{'))
        };
        let exact = paths.keys().find(|pattern| *pattern == path);
        let pattern =
            exact.or_else(|| paths.keys().find(fits)).unwrap_or_else(|| panic!("{path} is not described"));
        let kind = response.header("content-type").unwrap();
        let escape = |text: &str| text.replace('~', "~0").replace('/', "~1");
        let pointer = format!(
            "/paths/{}/{method}/responses/{}/content/{}/schema",
            escape(pattern),
            response.status,
            escape(kind)
        );
        assert!(self.description.pointer(&pointer).is_some(), "not described: {pointer} {response:?}");
        if kind.ends_with("json") {
            let mut schema = self.description.clone();
            let address = pointer.replace('{', "%7B").replace('}', "%7D");
            schema["$ref"] = json!(format!("#{address}"));
            let validator = jsonschema::validator_for(&schema).unwrap();
            let body = response.json();
            let wrong: Vec<String> = validator
                .iter_errors(&body)
                .map(|error| format!("{} {error}", error.instance_path()))
                .collect();
            assert!(wrong.is_empty(), "{pointer}: {wrong:?}\n{body}");
        }
    }

    /// Opens a stream.
    pub fn stream(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut stream = self.connect();
        let mut text = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n",
            self.address, self.token
        );
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{text}\r\n").as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader);
        assert_eq!(status, 200, "{headers:?}");
        Events { reader, text: String::new() }
    }
}

/// A stream of server-sent events.
pub struct Events {
    reader: BufReader<TcpStream>,
    text: String,
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    pub name: Option<String>,
    pub data: Option<Value>,
}

impl Events {
    /// The next event that is more than a comment; none when the stream has ended.
    pub fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let mut event = Event::default();
                for line in block.lines().filter(|line| !line.starts_with(':')) {
                    match line.split_once(": ") {
                        Some(("id", id)) => event.id = Some(id.to_owned()),
                        Some(("event", name)) => event.name = Some(name.to_owned()),
                        Some(("data", data)) => event.data = Some(serde_json::from_str(data).unwrap()),
                        _ => {}
                    }
                }
                if event != Event::default() {
                    return Some(event);
                }
            }
            let piece = read_chunk(&mut self.reader)?;
            self.text.push_str(&piece);
        }
    }

    /// The next event of this kind that has data.
    #[track_caller]
    pub fn next_data(&mut self) -> (Option<String>, Value) {
        loop {
            let event = self.next().expect("the stream goes on");
            if let Some(data) = event.data {
                return (event.id, data);
            }
        }
    }
}

fn read_head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {line:?}")).parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => return (status, headers),
        }
    }
}

fn read_response(reader: &mut BufReader<TcpStream>) -> Response {
    let (status, headers) = read_head(reader);
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let mut body = String::new();
    if is_chunked {
        while let Some(piece) = read_chunk(reader) {
            body.push_str(&piece);
        }
    } else {
        let mut bytes = Vec::new();
        let _ = reader.read_to_end(&mut bytes);
        body = String::from_utf8_lossy(&bytes).into_owned();
    }
    Response { status, headers, body }
}

fn read_chunk(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim_end(), 16).ok()?;
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(length);
    (length > 0).then(|| String::from_utf8(bytes).unwrap())
}
