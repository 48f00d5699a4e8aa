//! The part of HTTP/1.1 that an agent program needs.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Shared;
use crate::answer;
use crate::dialect::Dialect;
use crate::history::Request;

/// Longer than any conversation.
const LONGEST_BODY: u64 = 256 * 1024 * 1024;

pub(crate) struct Asked {
    method: String,
    path: String,
    body: Vec<u8>,
}

/// Answers one request after the other until the client disconnects.
pub(crate) fn converse(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while !shared.is_over() {
        let Some(asked) = read(&mut reader)? else { return Ok(()) };
        let path = asked.path.split('?').next().unwrap_or_default();
        match (asked.method.as_str(), path) {
            ("POST", "/v1/messages") => {
                let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
                let request = Request::read(&body);
                let is_streamed = request.is_streamed;
                let model = request.model.clone();
                let (number, reply) = shared.take(request);
                let mut answer = answer::Answer { writer: &mut writer, shared, number, model, reply };
                if !answer.send(is_streamed)? {
                    return Ok(());
                }
            }
            ("POST", path) if Dialect::of(path).is_some() => {
                let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
                let answered =
                    Dialect::of(path).map(|dialect| dialect.answer(&mut writer, shared, path, &body));
                if !answered.transpose()?.unwrap_or(true) {
                    return Ok(());
                }
            }
            ("POST", "/v1/messages/count_tokens") => {
                send_json(&mut writer, 200, &[], &json!({ "input_tokens": asked.body.len() / 4 + 1 }))?;
            }
            ("HEAD", _) => send(&mut writer, 200, &[], "text/plain", b"")?,
            _ => {
                let error = json!({ "type": "not_found_error", "message": "there is nothing here" });
                send_json(&mut writer, 404, &[], &json!({ "type": "error", "error": error }))?;
            }
        }
    }
    Ok(())
}

/// The next request, unless the client has disconnected.
fn read(reader: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Ok(None);
        }
        let Some((name, value)) = line.split_once(':') else { break };
        match (name.to_ascii_lowercase().as_str(), value.trim()) {
            ("content-length", value) => length = value.parse().map_err(io::Error::other)?,
            ("transfer-encoding", value) => is_chunked = value.contains("chunked"),
            ("content-encoding", value) if value != "identity" => {
                return Err(io::Error::other(format!("a body in {value} cannot be read")));
            }
            _ => {}
        }
    }
    let body = if is_chunked { read_chunks(reader)? } else { read_bytes(reader, length)? };
    Ok(Some(Asked { method, path, body }))
}

fn read_bytes(reader: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    reader.take(length.min(LONGEST_BODY)).read_to_end(&mut body)?;
    // If the client is killed in the middle of a request, there is no request.
    if (body.len() as u64) < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
        body.extend(read_bytes(reader, size)?);
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(body);
        }
    }
}

pub(crate) fn send_json(
    writer: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    body: &Value,
) -> io::Result<()> {
    send(writer, status, headers, "application/json", body.to_string().as_bytes())
}

fn send(
    writer: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    kind: &str,
    body: &[u8],
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", body.len());
    writer.write_all(head.as_bytes())?;
    writer.write_all(body)?;
    writer.flush()
}

/// Starts an answer of unknown length.
pub(crate) fn open_stream(writer: &mut impl Write, headers: &[(String, String)]) -> io::Result<()> {
    let mut head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n".to_owned();
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    writer.write_all(head.as_bytes())?;
    writer.flush()
}

/// Sends a chunk of it; an empty chunk ends it.
pub(crate) fn send_chunk(writer: &mut impl Write, text: &str) -> io::Result<()> {
    writer.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())?;
    writer.flush()
}

/// Waits until the client disconnects.
pub(crate) fn wait_for_hangup(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut byte = [0];
    while !shared.is_over() {
        match stream.peek(&mut byte) {
            Ok(0) => break,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
            Ok(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    Ok(())
}
