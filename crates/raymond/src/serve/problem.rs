//! Errors as `application/problem+json`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::UserError;
use crate::store::StoreError;

/// An error of the API: what went wrong, and what to do.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Problem {
    pub status: u16,
    pub title: &'static str,
    pub detail: String,
    /// What programs may want to know besides, such as the findings of a workflow that does not load.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Problem {
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        Self { status, title: title_of(status), detail: detail.into(), more: Map::new() }
    }

    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(400, detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, detail)
    }

    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(409, detail)
    }

    /// The engine that carries out the run is not there now. The same request may be made again later.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(503, detail)
    }

    /// Something went wrong here, not with the request.
    pub fn internal(detail: impl ToString) -> Self {
        Self::new(500, detail.to_string())
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }
}

/// The statuses that the API answers with, besides those of success.
const TITLES: [(u16, &str); 15] = [
    (400, "Malformed request"),
    (401, "A token is needed"),
    (403, "Forbidden"),
    (404, "Not found"),
    (405, "Method not allowed"),
    (408, "The request took too long"),
    (409, "Conflict"),
    (410, "Gone"),
    (413, "Too large"),
    (414, "The address is too long"),
    (415, "Not JSON"),
    (422, "Cannot be loaded"),
    (429, "Too many requests"),
    (431, "The headers are too large"),
    (503, "The engine does not answer"),
];

fn title_of(status: u16) -> &'static str {
    let found = TITLES.iter().find(|(known, _)| *known == status);
    found.map_or("Internal error", |(_, title)| *title)
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::Unknown { .. } | StoreError::Missing { .. } | StoreError::Empty { .. } => 404,
            StoreError::BadId(_) => 400,
            StoreError::Exists { .. } | StoreError::Held { .. } => 409,
            // Neither the request nor the server is wrong. A person has to look at the files of the run.
            error if error.is_about_files_of_run() => 409,
            _ => 500,
        };
        Self::new(status, error.to_string())
    }
}

impl From<UserError> for Problem {
    fn from(error: UserError) -> Self {
        let hints = error.hints.iter().map(|hint| format!("; {hint}"));
        Self::new(422, std::iter::once(error.message.clone()).chain(hints).collect::<String>())
    }
}
