//! The table of routes. Each row is a request that the server answers; the handlers are in the files beside it.

pub(super) mod changes;
mod events;
pub(super) mod export;
pub mod inbox;
mod metrics;
mod overview;
mod runs;
mod steps;
pub(super) mod workflows;

use schemars::JsonSchema;
use serde::Serialize;

use super::lanes::Lane;
use super::openapi;
use super::problem::Problem;
use super::route::{Answer, Call, Form, Gives, Kind, Method, Param, Route, schema};
use super::{API, Server};
use std::sync::Arc;

const fn text(name: &'static str, about: &'static str) -> Param {
    Param { name, kind: Kind::Text, about }
}

const fn number(name: &'static str, about: &'static str) -> Param {
    Param { name, kind: Kind::Number, about }
}

const fn texts(name: &'static str, about: &'static str) -> Param {
    Param { name, kind: Kind::Texts, about }
}

const LIMIT: Param = number("limit", "How many at most");
const AT: Param = number("at", "Show it as it was after the event of this number, or after its batch");

/// A route that only reads, with what most of them have in common.
const READS: Route = Route {
    method: Method::Get,
    path: "",
    about: "",
    query: &[],
    body: None,
    gives: Gives { status: 200, forms: &[] },
    errors: &[],
    is_open: false,
    lane: Some(Lane::Reads),
    handler: |_, _| Err(Problem::internal("no handler")),
};

/// A route that changes something.
const CHANGES: Route = Route { method: Method::Post, lane: Some(Lane::Starts), ..READS };

/// A route that reads much.
const READS_MUCH: Route = Route { lane: Some(Lane::LongReads), ..READS };

/// All requests that the server answers, besides the files of the page.
pub static ROUTES: &[Route] = &[
    Route {
        path: "/api/v1/health",
        about: "Tell that the server works, and which version it is",
        gives: Gives { status: 200, forms: &[Form::Json(schema::<Health>)] },
        is_open: true,
        lane: None,
        handler: health,
        ..READS
    },
    Route {
        path: "/api/v1/openapi.json",
        about: "This description",
        gives: Gives {
            status: 200,
            forms: &[Form::Json(schema::<serde_json::Map<String, serde_json::Value>>)],
        },
        handler: |_, _| Answer::json(&openapi::document()),
        lane: None,
        ..READS
    },
    Route {
        path: "/api/v1/runs",
        about: "All runs, the one that was active last first",
        query: &[
            text("status", "Only runs of this status"),
            text("workflow", "Only runs of this workflow: its path, its last part, or its id"),
            texts("label", "Only runs with this label, KEY=VALUE"),
            text("q", "Only runs in whose id, workflow, labels or result this text is"),
            LIMIT,
            text("before", "The `next` of the window before"),
        ],
        gives: Gives { status: 200, forms: &[Form::Json(schema::<runs::Runs>)] },
        errors: &[400],
        handler: runs::list,
        ..READS
    },
    Route {
        path: "/api/v1/runs/{run}",
        about: "A run: its agents, its open questions, what it has cost",
        query: &[AT],
        gives: Gives { status: 200, forms: &[Form::Json(schema::<runs::RunObject>)] },
        errors: &[400, 404, 410],
        handler: runs::one,
        ..READS
    },
    Route {
        path: "/api/v1/runs/{run}/events",
        about: "What happened in a run; as server-sent events, also what happens from now on",
        query: &[number("after", "Begin behind the event of this number"), LIMIT],
        gives: Gives { status: 200, forms: &[Form::Json(schema::<events::Window>), Form::Events] },
        errors: &[400, 404, 410],
        handler: events::of_run,
        ..READS
    },
    Route {
        path: "/api/v1/events",
        about: "What happens in all runs from now on, or behind the place of `Last-Event-ID`",
        gives: Gives { status: 200, forms: &[Form::Events] },
        query: &[texts("output", "Also the output of this step while it runs, RUN/STEP")],
        errors: &[400],
        handler: events::of_all,
        ..READS
    },
    Route {
        path: "/api/v1/runs/{run}/steps",
        about: "Steps of a run, in order",
        query: &[
            number("from", "Begin with the step of this number"),
            LIMIT,
            text("agent", "Only steps of this agent"),
            AT,
        ],
        gives: Gives { status: 200, forms: &[Form::Json(schema::<steps::Steps>)] },
        errors: &[400, 404],
        handler: steps::list,
        ..READS
    },
    Route {
        path: "/api/v1/runs/{run}/steps/{n}",
        about: "A step: its prompt and reply, or what it wrote, as far as that is kept",
        gives: Gives { status: 200, forms: &[Form::Json(schema::<steps::StepDetail>)] },
        errors: &[404],
        handler: steps::one,
        ..READS
    },
    Route {
        path: "/api/v1/runs/{run}/steps/{n}/output",
        about: "What a step writes while it runs, until it ends",
        gives: Gives { status: 200, forms: &[Form::Events] },
        errors: &[404],
        handler: steps::output,
        ..READS
    },
    Route {
        path: "/api/v1/runs/{run}/overview",
        about: "A whole run at a glance: money, states, ways, agents over time",
        query: &[AT, number("buckets", "How many points in time at most")],
        gives: Gives { status: 200, forms: &[Form::Json(schema::<overview::Overview>)] },
        errors: &[400, 404, 410],
        handler: overview::overview,
        ..READS
    },
    Route {
        path: "/api/v1/runs/{run}/graph",
        about: "The workflows that a run was in as they are drawn, and how often each way was taken",
        query: &[AT],
        gives: Gives { status: 200, forms: &[Form::Json(schema::<overview::RunGraph>)] },
        errors: &[400, 404, 410],
        handler: overview::graph,
        ..READS
    },
    Route {
        path: "/api/v1/runs/{run}/export",
        about: "A run as one HTML file, which opens without a network",
        gives: Gives { status: 200, forms: &[Form::Text("text/html; charset=utf-8")] },
        errors: &[404],
        handler: export::export,
        ..READS_MUCH
    },
    Route {
        path: "/api/v1/runs",
        about: "Start a run",
        body: Some(schema::<changes::NewRun>),
        gives: Gives { status: 201, forms: &[Form::Json(schema::<changes::StartedRun>)] },
        errors: &[404, 409, 422],
        handler: changes::start,
        ..CHANGES
    },
    Route {
        path: "/api/v1/runs/{run}/answers",
        about: "Answer a question; a run that was stopped goes on",
        body: Some(schema::<changes::NewAnswer>),
        gives: Gives { status: 200, forms: &[Form::Json(schema::<changes::Taken>)] },
        errors: &[404, 409, 422, 503],
        lane: Some(Lane::Answers),
        handler: changes::answer,
        ..CHANGES
    },
    Route {
        path: "/api/v1/runs/{run}/stop",
        about: "Ask a run to stop; it can be resumed",
        body: Some(schema::<changes::Stopping>),
        gives: Gives { status: 202, forms: &[Form::Json(schema::<changes::StartedRun>)] },
        errors: &[404, 409, 503],
        lane: Some(Lane::Messages),
        handler: changes::stop,
        ..CHANGES
    },
    Route {
        path: "/api/v1/runs/{run}/resume",
        about: "Continue a run where it was",
        body: Some(schema::<changes::Resuming>),
        gives: Gives { status: 202, forms: &[Form::Json(schema::<changes::StartedRun>)] },
        errors: &[404, 409, 422, 503],
        handler: changes::resume,
        ..CHANGES
    },
    Route {
        path: "/api/v1/runs/{run}/branches",
        about: "Make a run that goes on from a step of this one, which is not touched",
        body: Some(schema::<changes::NewBranch>),
        gives: Gives { status: 201, forms: &[Form::Json(schema::<changes::StartedRun>)] },
        errors: &[404, 409, 410, 422],
        handler: changes::branch,
        ..CHANGES
    },
    Route {
        path: "/api/v1/inbox",
        about: "What needs a person: open questions, failures, runs without money, silent steps",
        query: &[number("silent", "After how many seconds a step that writes nothing is told of")],
        gives: Gives { status: 200, forms: &[Form::Json(schema::<inbox::Inbox>)] },
        errors: &[400],
        handler: inbox::inbox,
        ..READS
    },
    Route {
        path: "/metrics",
        about: "Numbers for Prometheus",
        gives: Gives { status: 200, forms: &[Form::Text("text/plain; version=0.0.4; charset=utf-8")] },
        handler: metrics::metrics,
        ..READS
    },
    Route {
        path: "/api/v1/workflows",
        about: "All workflows below the roots",
        gives: Gives { status: 200, forms: &[Form::Json(schema::<workflows::Workflows<'static>>)] },
        handler: workflows::list,
        ..READS_MUCH
    },
    Route {
        path: "/api/v1/workflows/{id}",
        about: "A workflow, as its manifest describes it",
        gives: Gives { status: 200, forms: &[Form::Json(schema::<workflows::WorkflowObject>)] },
        errors: &[404],
        handler: workflows::one,
        ..READS_MUCH
    },
    Route {
        path: "/api/v1/workflows/{id}/graph",
        about: "A workflow as it is drawn",
        gives: Gives { status: 200, forms: &[Form::Json(schema::<workflows::GraphObject>)] },
        errors: &[404, 422],
        handler: workflows::graph,
        ..READS_MUCH
    },
    Route {
        path: "/api/v1/workflows/{id}/lint",
        about: "What `raymond lint --format json` says of a workflow",
        gives: Gives { status: 200, forms: &[Form::Json(schema::<Vec<workflows::FindingObject>>)] },
        errors: &[404],
        handler: workflows::lint,
        ..READS_MUCH
    },
    Route {
        path: "/api/v1/workflows/{id}/states/{name}",
        about: "The text of a state",
        gives: Gives { status: 200, forms: &[Form::Json(schema::<workflows::StateObject>)] },
        errors: &[404, 422],
        handler: workflows::state,
        ..READS_MUCH
    },
];

/// What the program that is asked says about itself.
#[derive(Serialize, JsonSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
}

fn health(_: &Arc<Server>, _: &Call) -> Result<Answer, Problem> {
    Answer::json(&Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// The address of a run.
fn address_of_run(run: &str) -> String {
    format!("{API}/runs/{run}")
}
