//! Server-sent events: answers that do not end.
//!
//! A stream is a task that reads journals or debug files and writes into a short queue, from which the connection takes.
//! If the other side does not read, the queue is full and the task waits. The connection is closed after a while, and
//! the reader goes on later from the last event that it has seen.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::Frame;
use raymond_core::event::Body as EventBody;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::Server;
use super::feed::{Cursor, Piece};
use super::lanes::Lane;
use super::problem::Problem;
use crate::store::{Events, Payloads, RunHandle, Start, StoreError};
use crate::view::json::event_line;

/// How many streams there are at the same time.
pub const MAX_STREAMS: usize = 512;
/// How many pieces wait for the connection.
const QUEUE: usize = 8;
/// How long a piece becomes. A longer event is a piece of its own.
const PIECE_BYTES: usize = 64 * 1024;
/// How often something is sent where nothing happens.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// The body of an answer that does not end.
pub struct Stream {
    pieces: mpsc::Receiver<Bytes>,
    /// The place among all streams that it takes.
    _place: OwnedSemaphorePermit,
}

/// Where a task puts what is to be sent.
pub type Sender = mpsc::Sender<Bytes>;

impl Stream {
    /// Starts a task that writes a stream, if there is room for one more.
    pub fn start<F: Future<Output = ()> + Send + 'static>(
        server: &Arc<Server>,
        write: impl FnOnce(Arc<Server>, Sender) -> F,
    ) -> Result<Self, Problem> {
        let place = Arc::clone(&server.streams)
            .try_acquire_owned()
            .map_err(|_| Problem::new(429, format!("{MAX_STREAMS} streams are open already")))?;
        let (sender, pieces) = mpsc::channel(QUEUE);
        tokio::spawn(write(Arc::clone(server), sender));
        Ok(Self { pieces, _place: place })
    }

    pub fn into_body(self) -> Body {
        Body::new(self)
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// An event of a stream. The data is one line.
pub fn frame(id: Option<&str>, name: Option<&str>, data: &str) -> String {
    let mut text = String::with_capacity(data.len() + 64);
    for (field, value) in [("id", id), ("event", name), ("data", Some(data))] {
        if let Some(value) = value {
            text.push_str(field);
            text.push_str(": ");
            text.push_str(value);
            text.push('\n');
        }
    }
    text.push('\n');
    text
}

pub const COMMENT: &str = ": still here\n\n";

/// The events of one run as they come, behind the one of this number.
pub async fn run_events(server: Arc<Server>, run: Arc<dyn RunHandle>, after: u64, sender: Sender) {
    let mut ticks = server.feed.subscribe();
    server.wake.notify_one();
    let mut reader = Some(RunReader { payloads: run.payloads(), events: None, after, run });
    // So that the reader knows at once that the stream is open.
    let _ = sender.send(Bytes::from_static(COMMENT.as_bytes())).await;
    loop {
        let Some(mut own) = reader.take() else { return };
        let read = server.lanes.work(Lane::Streams, move || {
            let piece = own.next_piece();
            (own, piece)
        });
        let Ok((own, piece)) = read.await else { return };
        let (id, after) = (own.run.id().to_owned(), own.after);
        reader = Some(own);
        match piece {
            Ok(piece) if !piece.is_empty() => {
                if sender.send(Bytes::from(piece)).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(_) => {}
            Err(error) => {
                let detail = serde_json::Value::String(error.to_string()).to_string();
                let _ = sender.send(Bytes::from(frame(None, Some("error"), &detail))).await;
                return;
            }
        }
        let news = async {
            loop {
                if ticks.changed().await.is_err() || server.feed.last_seq(&id) > after {
                    return;
                }
            }
        };
        tokio::select! {
            () = sender.closed() => return,
            waited = timeout(HEARTBEAT, news) => {
                if waited.is_err() && sender.send(Bytes::from_static(COMMENT.as_bytes())).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Reads the events of a run piece by piece.
struct RunReader {
    run: Arc<dyn RunHandle>,
    payloads: Payloads,
    events: Option<Box<dyn Events>>,
    /// The last event that was given out.
    after: u64,
}

impl RunReader {
    fn next_piece(&mut self) -> Result<String, StoreError> {
        let mut text = String::new();
        let events = match &mut self.events {
            Some(events) => events,
            none => none.insert(self.run.events(Start::After(self.after))?),
        };
        while text.len() < PIECE_BYTES {
            let Some(batch) = events.next_batch()? else { break };
            for event in batch {
                self.after = event.seq;
                if matches!(event.body, EventBody::Snapshot { .. }) {
                    // Old events were deleted before they could be sent.
                    let detail = format!("{{\"seq\":{}}}", event.seq);
                    text.push_str(&frame(Some(&event.seq.to_string()), Some("reset"), &detail));
                } else if let Some(line) = event_line(&event, &self.payloads) {
                    text.push_str(&frame(Some(&event.seq.to_string()), None, &line));
                }
            }
        }
        Ok(text)
    }
}

/// The events of all runs as they come: behind a place, or from now on.
pub async fn all_events(server: Arc<Server>, given: Option<String>, sender: Sender) {
    let mut ticks = server.feed.subscribe();
    server.wake.notify_one();
    let worker = Arc::clone(&server);
    // The feed is as new as the journals before the reader's place is looked up in it.
    let opened = server.lanes.work(Lane::Streams, move || worker.feed.update(&worker.index, None)).await;
    if !matches!(opened, Ok(Ok(()))) {
        return;
    }
    let mut at = match given.as_deref().map(|text| server.feed.read(text)) {
        Some(Some(cursor)) => cursor,
        None => server.feed.end(),
        Some(None) => {
            if send_reset(&server, &sender).await.is_err() {
                return;
            }
            server.feed.end()
        }
    };
    let hello = format!("id: {}\n\n", server.feed.write(&at));
    if sender.send(Bytes::from(hello)).await.is_err() {
        return;
    }
    loop {
        ticks.mark_unchanged();
        match next_piece(&server, &at).await {
            None => {
                at = server.feed.end();
                if send_reset(&server, &sender).await.is_err() {
                    return;
                }
            }
            Some((piece, behind)) if !piece.is_empty() => {
                at = behind;
                if sender.send(piece).await.is_err() {
                    return;
                }
                continue;
            }
            Some(_) => {}
        }
        tokio::select! {
            () = sender.closed() => return,
            waited = timeout(HEARTBEAT, ticks.changed()) => {
                if waited.is_err() && sender.send(Bytes::from_static(COMMENT.as_bytes())).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Tells a reader that its place is not known any more: it has to read everything anew.
async fn send_reset(server: &Server, sender: &Sender) -> Result<(), mpsc::error::SendError<Bytes>> {
    let id = server.feed.write(&server.feed.end());
    sender.send(Bytes::from(frame(Some(&id), Some("reset"), "{}"))).await
}

/// What follows a place, and the place behind it; none if it was dropped. Of many readers at the same place, only one
/// reads it.
async fn next_piece(server: &Arc<Server>, at: &Cursor) -> Option<(Bytes, Cursor)> {
    let mut last = server.feed.last_piece.lock().await;
    if let Some(piece) = last.as_ref().filter(|piece| piece.behind == *at) {
        return Some((piece.text.clone(), piece.end.clone()));
    }
    let (text, end) = read_piece(server, at).await?;
    let text = Bytes::from(text);
    if !text.is_empty() {
        *last = Some(Piece { behind: at.clone(), end: end.clone(), text: text.clone() });
    }
    Some((text, end))
}

async fn read_piece(server: &Arc<Server>, at: &Cursor) -> Option<(String, Cursor)> {
    let (worker, at) = (Arc::clone(server), at.clone());
    let read = server.lanes.work(Lane::Streams, move || {
        let found = worker.feed.behind(&at, &worker.index, PIECE_BYTES)?;
        let mut text = String::new();
        let mut place = at;
        for (cursor, line) in found {
            text.push_str(&frame(Some(&worker.feed.write(&cursor)), None, &line));
            place = cursor;
        }
        Some((text, place))
    });
    read.await.ok().flatten()
}
