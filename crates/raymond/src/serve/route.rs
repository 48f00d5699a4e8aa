//! What a route is, and what handlers are given and give back.
//!
//! The table of routes is data (`api::ROUTES`): the router and the description of the API are both made from it.

use std::str::FromStr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::HeaderMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Server;
use super::lanes::Lane;
use super::problem::Problem;
use super::sse::Stream;
use crate::run::caller::Caller;

/// One request that the server answers.
pub struct Route {
    pub method: Method,
    /// As the router takes it: `{name}` stands for one part.
    pub path: &'static str,
    /// One sentence for the description of the API.
    pub about: &'static str,
    /// Parameters behind the question mark.
    pub query: &'static [Param],
    /// The form of the request's body.
    pub body: Option<SchemaOf>,
    pub gives: Gives,
    /// Errors that it may answer with, besides those that any request may get.
    pub errors: &'static [u16],
    /// Whether it is answered without a token.
    pub is_open: bool,
    /// Where its work is done; none if it does not wait for anything.
    pub lane: Option<Lane>,
    pub handler: Handler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

/// Reads what the request asks for. It may wait for the disk, so it runs on a thread of its lane.
pub type Handler = fn(&Arc<Server>, &Call) -> Result<Answer, Problem>;

pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of a type, for the table of routes.
pub fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// What a route answers with if all is well.
#[derive(Clone, Copy)]
pub struct Gives {
    pub status: u16,
    /// The forms it can take; the first is the usual one.
    pub forms: &'static [Form],
}

/// A form of an answer.
#[derive(Clone, Copy)]
pub enum Form {
    Json(SchemaOf),
    /// Server-sent events.
    Events,
    Text(&'static str),
}

/// A parameter behind the question mark.
pub struct Param {
    pub name: &'static str,
    pub kind: Kind,
    pub about: &'static str,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Text,
    Number,
    /// It may be given several times.
    Texts,
}

/// A request that has passed the guard.
#[derive(Debug, Default)]
pub struct Call {
    pub path: Vec<(String, String)>,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The process that asks, as far as that can be told.
    pub caller: Caller,
}

impl Call {
    /// A part of the path, decoded.
    pub fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// A parameter; empty ones count as not given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts(name).next()
    }

    /// All values of a parameter that may be given several times.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let given = self.query.iter().filter(move |(known, value)| known == name && !value.is_empty());
        given.map(|(_, value)| value.as_str())
    }

    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let wrong = |_| Problem::malformed(format!("`{name}` is not a whole number from 0 on"));
        self.text(name).map(|text| text.parse().map_err(wrong)).transpose()
    }

    /// How many things are wanted: the given number, at least 1 and at most so many.
    pub fn limit(&self, usual: usize, most: usize) -> Result<usize, Problem> {
        Ok(self.number::<usize>("limit")?.unwrap_or(usual).clamp(1, most))
    }

    /// The body as the value that it should be.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Problem::malformed(format!("the body cannot be read: {error}")))
    }

    pub fn wants_events(&self) -> bool {
        let accept = self.headers.get(axum::http::header::ACCEPT).and_then(|value| value.to_str().ok());
        accept.is_some_and(|accept| accept.contains("text/event-stream"))
    }
}

/// What a handler gives back.
pub enum Answer {
    Json {
        status: u16,
        body: Vec<u8>,
        location: Option<String>,
    },
    Text {
        kind: &'static str,
        body: Vec<u8>,
        /// The name under which a browser keeps it as a file.
        file_name: Option<String>,
    },
    Stream(Stream),
}

impl Answer {
    pub fn json(value: &impl Serialize) -> Result<Self, Problem> {
        Self::json_with(200, value, None)
    }

    pub fn json_with(status: u16, value: &impl Serialize, location: Option<String>) -> Result<Self, Problem> {
        let body = serde_json::to_vec(value).map_err(Problem::internal)?;
        Ok(Self::Json { status, body, location })
    }
}
