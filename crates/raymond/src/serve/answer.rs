//! From a route and a request to a response.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{Query, RawPathParams, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{MethodFilter, any, on};

use super::api::ROUTES;
use super::assets;
use super::guard::{HEADERS, check_type};
use super::problem::Problem;
use super::route::{Answer, Call, Method, Route};
use super::{API, Server};
use crate::run::caller::Caller;

/// How long the body of a request may be, and how long it may take.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;
const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// The parts of an address, or why they cannot be read.
type PathParams = Result<RawPathParams, RawPathParamsRejection>;

/// All routes.
pub fn router(server: &Arc<Server>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
        };
        let server = Arc::clone(server);
        let handler = move |path: PathParams, request: Request| {
            let server = Arc::clone(&server);
            async move { handle(server, route, path, request).await }
        };
        router = router.route(route.path, on(filter, handler));
    }
    let otherwise = |status: u16| {
        let server = Arc::clone(server);
        move |request: Request| {
            let server = Arc::clone(&server);
            // The body is not needed, and could not be held while the token is checked.
            let (parts, _) = request.into_parts();
            async move { nothing_here(&server, &parts, status).await }
        }
    };
    router
        .route("/", any(assets::serve))
        .route("/page/{file}", any(assets::serve))
        .method_not_allowed_fallback(otherwise(405))
        .fallback(otherwise(404))
}

/// There is no such route, or not with this method. Without the token not even that is told.
async fn nothing_here(server: &Server, request: &Parts, status: u16) -> Response {
    if is_api(request.uri.path()) {
        let is_health = request.uri.path() == format!("{API}/health");
        if let Err(problem) = server.guard.check_token(&request.headers).await
            && !is_health
        {
            return refuse(&problem);
        }
    }
    let detail = match status {
        405 => format!("{} is not a method of this address", request.method),
        _ => "there is nothing at this address; /api/v1/openapi.json lists what there is".to_owned(),
    };
    refuse(&Problem::new(status, detail))
}

fn is_api(path: &str) -> bool {
    path.starts_with("/api") || path == "/metrics"
}

async fn handle(server: Arc<Server>, route: &'static Route, path: PathParams, request: Request) -> Response {
    match tried(server, route, path, request).await {
        Ok(answer) => respond(answer),
        Err(problem) => refuse(&problem),
    }
}

async fn tried(
    server: Arc<Server>,
    route: &'static Route,
    path: PathParams,
    request: Request,
) -> Result<Answer, Problem> {
    if !route.is_open {
        server.guard.check_token(request.headers()).await?;
    }
    let (parts, body) = request.into_parts();
    let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
        .map_err(|error| Problem::malformed(format!("the parameters cannot be read: {error}")))?;
    let path = path.map_err(|error| Problem::malformed(format!("the address cannot be read: {error}")))?;
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let body = match route.method {
        Method::Get => Default::default(),
        Method::Post => {
            check_type(&parts.headers)?;
            read_body(&parts.headers, body).await?
        }
    };
    let caller = parts.extensions.get::<Caller>().copied().unwrap_or_default();
    let call = Call { path, query: query.0, headers: parts.headers, body, caller };
    let Some(lane) = route.lane else { return (route.handler)(&server, &call) };
    // What is asked for is on the disk, and other requests must not wait for it.
    let worker = Arc::clone(&server);
    server.lanes.work(lane, move || (route.handler)(&worker, &call)).await?
}

async fn read_body(headers: &HeaderMap, body: Body) -> Result<axum::body::Bytes, Problem> {
    let too_large = || Problem::new(413, "a body may be 8 MiB long");
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > MAX_BODY_BYTES) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_PATIENCE, to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        // The other reason is a connection that broke, and then the answer reaches no one.
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(Problem::new(408, "the body did not arrive in time")),
    }
}

fn respond(answer: Answer) -> Response {
    match answer {
        Answer::Json { status, body, location } => {
            let mut response = with_type(status, "application/json", Body::from(body));
            if let Some(location) = location.and_then(|location| HeaderValue::try_from(location).ok()) {
                response.headers_mut().insert(LOCATION, location);
            }
            response
        }
        Answer::Text { kind, body, file_name } => {
            let mut response = with_type(200, kind, Body::from(body));
            let name = file_name.map(|name| format!("attachment; filename=\"{name}\""));
            if let Some(name) = name.and_then(|name| HeaderValue::try_from(name).ok()) {
                response.headers_mut().insert(CONTENT_DISPOSITION, name);
            }
            response
        }
        Answer::Stream(stream) => with_type(200, "text/event-stream", stream.into_body()),
    }
}

/// A problem as a response.
pub fn refuse(problem: &Problem) -> Response {
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let mut response = with_type(problem.status, "application/problem+json", Body::from(body));
    if problem.status == 401 {
        response
            .headers_mut()
            .insert(axum::http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

pub fn with_type(status: u16, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Adds the headers that every response has.
pub fn finish(mut response: Response, path: &str) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if is_api(path) || !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
