//! The socket: which address is taken, and how long a connection may be stalled.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};
use tower_service::Service;

use super::Server;
use super::answer::{finish, refuse};
use crate::error::UserError;
use crate::run::caller::Caller;

/// The port that is taken if none was asked for, and how many are tried behind it.
const USUAL_PORT: u16 = 7878;
const PORTS_TRIED: u16 = 100;
/// How long a connection may be idle between two requests, or take to send the head of a later one. Of the first one, `door`
/// says it.
const HEADER_PATIENCE: Duration = Duration::from_secs(60);
/// How long a reader may take nothing although there is something for it. A stream sends something every 15 s.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// How much of a request's headers is held. The guard refuses less than that with words.
const MAX_HEAD_BYTES: usize = 128 * 1024;
const MAX_HEADERS: usize = 256;

/// Takes the address that was asked for, or the first free port from the usual one on.
pub async fn bind(asked: Option<SocketAddr>) -> Result<TcpListener, UserError> {
    if let Some(address) = asked {
        let cannot = |error| UserError::usage(format!("cannot listen on {address}: {error}"));
        return TcpListener::bind(address)
            .await
            .map_err(cannot)
            .map_err(|error| error.hint("give another address or port: --listen ADDR:PORT; port 0 is any"));
    }
    for port in USUAL_PORT..USUAL_PORT + PORTS_TRIED {
        match TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(UserError::usage(format!("cannot listen on 127.0.0.1:{port}: {error}")));
            }
        }
    }
    let last = USUAL_PORT + PORTS_TRIED - 1;
    Err(UserError::usage(format!("all ports from {USUAL_PORT} to {last} are taken"))
        .hint("let the system choose one: --listen 127.0.0.1:0"))
}

/// Answers requests for ever.
pub async fn accept(listener: TcpListener, server: Arc<Server>, router: Router) {
    loop {
        let (stream, caller) = match listener.accept().await {
            Ok((stream, peer)) => {
                let caller = stream.local_addr().map(|own| Caller::connected(peer, own));
                (stream, caller.unwrap_or_default())
            }
            Err(error) => {
                // For example, no file may be opened any more. Waiting gives others time to close theirs.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(pass) = server.door.enter().await.map(Arc::new) else { return };
        let (server, router) = (Arc::clone(&server), router.clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let io = TokioIo::new(Patient::new(stream));
            let of_requests = Arc::clone(&pass);
            let service = service_fn(move |mut request: Request<Incoming>| {
                of_requests.has_asked(server.guard.is_known(request.headers()));
                request.extensions_mut().insert(caller);
                answer(Arc::clone(&server), router.clone(), request.map(Body::new))
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_PATIENCE)
                .max_buf_size(MAX_HEAD_BYTES)
                .max_headers(MAX_HEADERS)
                .serve_connection(io, service);
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                },
                () = pass.must_leave() => tracing::debug!("a connection was closed that has shown no token"),
            }
        });
    }
}

/// Answers one request: first the guard, then the routes.
async fn answer(
    server: Arc<Server>,
    mut router: Router,
    request: Request<Body>,
) -> Result<axum::response::Response, std::convert::Infallible> {
    let path = request.uri().path().to_owned();
    let checked = server.guard.check(request.method(), request.uri(), request.headers());
    let response = match checked {
        Err(problem) => refuse(&problem),
        Ok(()) => match router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
    };
    Ok(finish(response, &path))
}

/// A connection that is closed if the other side takes nothing for too long.
struct Patient {
    stream: TcpStream,
    /// Set while something waits to be written.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream) -> Self {
        Self { stream, deadline: None }
    }

    /// Gives up on a write that has been pending for too long.
    fn judge<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.deadline = None;
            return result;
        }
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + WRITE_PATIENCE)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut_off() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stalled = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut stream = Patient::new(listener.accept().await.unwrap().0);
        let begin = Instant::now();
        let written = async {
            loop {
                stream.write_all(&[0; 64 * 1024]).await?;
            }
        };
        let result: io::Result<()> = written.await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() >= WRITE_PATIENCE);
        drop(stalled);
    }
}
