//! Workflows below the roots: what they are, how they are drawn, what is wrong with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use raymond_core::diagnostic::Severity;
use raymond_core::diagram::svg::arrange;
use raymond_core::diagram::{Shape, Style};
use raymond_core::named_inputs::{DeclaredInput, InputKind};
use raymond_core::workflow::Platform;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::author::check::{Around, Found as Finding, check};
use crate::author::load::load;
use crate::author::report;
use crate::serve::Server;
use crate::serve::discover::Found;
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::serve::story::node_of_workflow;
use crate::workflow::manifest::{InputMode, Manifest};
use crate::workflow::scope::{Form, Scope, locate};
use crate::workflow::scopes::declared_inputs;

/// All workflows.
#[derive(Serialize, JsonSchema)]
pub struct Workflows<'a> {
    workflows: Vec<&'a WorkflowObject>,
}

/// A workflow, as its manifest describes it.
#[derive(Serialize, JsonSchema)]
pub struct WorkflowObject {
    id: String,
    /// An absolute path.
    path: String,
    form: &'static str,
    name: Option<String>,
    description: Option<String>,
    input: InputObject,
    /// Named inputs, in the order of the manifest.
    #[serde(serialize_with = "in_order")]
    #[schemars(with = "BTreeMap<String, NamedInput>")]
    inputs: Vec<(String, NamedInput)>,
    backend: Option<String>,
    default_budget: Option<f64>,
    schedule: Option<String>,
    /// The state that a run begins with.
    entry: Option<String>,
    states: Vec<String>,
    findings: Findings,
    /// Why it does not load.
    error: Option<String>,
}

/// Which input a run needs.
#[derive(Serialize, JsonSchema)]
struct InputObject {
    /// `required`, `optional` or `none`.
    mode: &'static str,
    label: Option<String>,
    description: Option<String>,
}

/// An input that is given by its name.
#[derive(Serialize, JsonSchema)]
struct NamedInput {
    /// `string`, `integer`, `number`, `boolean`, `choice` or `file`.
    #[serde(rename = "type")]
    kind: &'static str,
    required: bool,
    default: Option<String>,
    description: Option<String>,
    choices: Option<Vec<String>>,
}

/// Pairs as an object whose fields keep their order.
fn in_order<S: Serializer>(pairs: &[(String, NamedInput)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().map(|(name, input)| (name, input)))
}

fn named_input(declared: &DeclaredInput) -> (String, NamedInput) {
    let (kind, choices) = match &declared.kind {
        InputKind::String => ("string", None),
        InputKind::Integer => ("integer", None),
        InputKind::Number => ("number", None),
        InputKind::Boolean => ("boolean", None),
        InputKind::Choice(choices) => ("choice", Some(choices.clone())),
        InputKind::File => ("file", None),
    };
    let input = NamedInput {
        kind,
        required: declared.required,
        default: declared.default.clone(),
        description: declared.description.clone(),
        choices,
    };
    (declared.name.clone(), input)
}

/// How many findings there are.
#[derive(Serialize, JsonSchema)]
struct Findings {
    errors: usize,
    warnings: usize,
}

/// What was read of a workflow: what the API tells of it, and what is wrong with it.
pub struct Read {
    object: WorkflowObject,
    findings: Vec<Finding>,
}

fn read(server: &Server, found: &Found) -> Arc<Read> {
    server.readings.get(found, || {
        let findings = findings(server, found);
        Read { object: object(found, &findings), findings }
    })
}

pub fn list(server: &Arc<Server>, _: &Call) -> Result<Answer, Problem> {
    let all: Vec<Arc<Read>> = server.workflows.list().all.iter().map(|found| read(server, found)).collect();
    Answer::json(&Workflows { workflows: all.iter().map(|read| &read.object).collect() })
}

pub fn one(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    Answer::json(&read(server, &find(server, call)?).object)
}

fn find(server: &Server, call: &Call) -> Result<Found, Problem> {
    let id = call.part("id");
    server
        .workflows
        .find(id)
        .ok_or_else(|| Problem::not_found("there is no workflow of this id below the roots"))
}

fn object(found: &Found, findings: &[Finding]) -> WorkflowObject {
    let opened = Scope::open(&found.path, Platform::current());
    let error = opened.as_ref().err().map(|error| error.message.clone());
    let none = Manifest::default();
    let manifest = opened.as_ref().map_or(&none, |scope| scope.manifest());
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    WorkflowObject {
        id: found.id.clone(),
        path: found.path.to_string_lossy().into_owned(),
        form: match found.form {
            Form::Folder => "folder",
            Form::Archive => "archive",
            Form::OneFile => "file",
        },
        name: manifest.name.clone(),
        description: manifest.description.clone(),
        input: InputObject {
            mode: match manifest.input.mode {
                InputMode::Required => "required",
                InputMode::Optional => "optional",
                InputMode::None => "none",
            },
            label: manifest.input.label.clone(),
            description: manifest.input.description.clone(),
        },
        inputs: opened.iter().flat_map(declared_inputs).map(|input| named_input(&input)).collect(),
        backend: manifest.backend.clone(),
        default_budget: manifest.default_budget,
        schedule: manifest.schedule.clone(),
        entry: opened.as_ref().ok().and_then(|scope| scope.entry().ok()).map(|entry| entry.to_string()),
        states: opened.iter().flat_map(|scope| scope.states()).map(|state| state.to_string()).collect(),
        findings: Findings { errors: count(Severity::Error), warnings: count(Severity::Warning) },
        error,
    }
}

/// What `raymond lint` says of a workflow.
pub fn findings(server: &Server, found: &Found) -> Vec<Finding> {
    let around = Around {
        cwd: &server.project,
        platform: Platform::current(),
        project: &server.project,
        workflow_paths: &server.workflow_paths,
    };
    let below = found.path.strip_prefix(&server.project).unwrap_or(&found.path);
    let given = if below.as_os_str().is_empty() { "." } else { &*below.to_string_lossy() };
    check(given, around)
}

pub fn lint(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let read = read(server, &find(server, call)?);
    Ok(Answer::Json { status: 200, body: report::json(&read.findings).into_bytes(), location: None })
}

/// A finding, as `raymond lint --format json` prints it. Only for the description.
#[derive(Serialize, JsonSchema)]
pub struct FindingObject {
    code: String,
    severity: String,
    message: String,
    file: String,
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
    help: Option<String>,
}

/// The text of a state.
#[derive(Serialize, JsonSchema)]
pub struct StateObject {
    name: String,
    /// `prompt` or `script`.
    kind: &'static str,
    text: String,
}

pub fn state(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let found = find(server, call)?;
    let mut scope = Scope::open(&found.path, Platform::current())?;
    let given = call.part("name");
    let state = scope.states().find(|state| state.as_str() == given || state.name() == given);
    let state = state.ok_or_else(|| Problem::not_found("the workflow has no state of this name"))?;
    let source = scope.read(&state).map_err(|error| Problem::new(422, error))?;
    let kind = if state.kind() == raymond_core::workflow::Kind::Prompt { "prompt" } else { "script" };
    let text = String::from_utf8_lossy(&source.bytes).into_owned();
    Answer::json(&StateObject { name: state.to_string(), kind, text })
}

/// A workflow as it is drawn. Positions are those of the centres.
#[derive(Serialize, JsonSchema)]
pub struct GraphObject {
    width: f64,
    height: f64,
    nodes: Vec<NodeObject>,
    edges: Vec<EdgeObject>,
}

#[derive(Serialize, JsonSchema)]
struct NodeObject {
    /// The state's file, as events name it; other nodes have names in brackets.
    name: String,
    label: String,
    /// `prompt`, `script`, `start`, `end`, `missing`, `workflow` or `anywhere`.
    kind: &'static str,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    /// Whether a run begins here.
    start: bool,
    /// Whether there is such a state.
    exists: bool,
    /// Whether a run may reach it.
    reached: bool,
    /// What `lint` finds in it.
    findings: usize,
    /// The workflow that it comes from, if that is one that this one extends.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct EdgeObject {
    from: String,
    to: String,
    /// The tags that lead there.
    tag: String,
    label: String,
    /// `plain`, `call`, `return` or `fork`.
    style: &'static str,
    /// Which of the ways it is that a run has taken.
    way: String,
    /// From the start to the end; a loop has none.
    points: Vec<[f64; 2]>,
    label_at: Option<[f64; 2]>,
    /// Whether the states say so. Events may show others.
    declared: bool,
}

pub fn graph(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let found = find(server, call)?;
    Answer::json(&draw(&found.path, &read(server, &found).findings)?)
}

/// What an edge of a graph and a way that a run has taken have in common if they are the same.
pub fn way_key(from: &str, to: &str, style: Style) -> String {
    format!("{from} {style} {to}")
}

/// The drawing of the workflow at a path.
pub fn draw(path: &std::path::Path, findings: &[Finding]) -> Result<GraphObject, Problem> {
    let platform = Platform::current();
    let given = path.to_string_lossy();
    let mut loaded = load(&given, std::path::Path::new("/"), platform)
        .map_err(|fault| Problem::new(422, fault.to_string()))?;
    let graph = loaded.graph(platform);
    let diagram = loaded.diagram(&graph);
    let (sizes, layout) = arrange(&diagram);
    let entry = graph.entry.as_ref().ok().copied();
    let name_of = |number: usize| {
        diagram.nodes.get(number).map_or_else(String::new, |node| match node.shape {
            Shape::State(..) | Shape::Missing => node.label.clone(),
            Shape::Start => "[start]".to_owned(),
            Shape::End => "[end]".to_owned(),
            Shape::Workflow | Shape::Anywhere => format!("[{}]", node.label),
        })
    };
    let is_in = |finding: &&Finding, state: &str| {
        finding.file.file_name().is_some_and(|file| file.to_string_lossy() == state)
    };
    let nodes = diagram.nodes.iter().zip(&sizes).zip(&layout.nodes).enumerate();
    let nodes = nodes.map(|(number, ((node, size), at))| NodeObject {
        name: name_of(number),
        label: node.label.clone(),
        kind: node.class(),
        x: at.x,
        y: at.y,
        width: size.width,
        height: size.height,
        start: matches!(node.shape, Shape::State(state, _) if Some(state) == entry),
        exists: node.shape != Shape::Missing,
        reached: node.is_reached,
        findings: findings.iter().filter(|finding| is_in(finding, &node.label)).count(),
        from: node.base.clone(),
    });
    let workflow_at = |name: &str| {
        let located = locate(name, path, platform).ok()?;
        Some(node_of_workflow(&located.scope.path().to_string_lossy()))
    };
    // Events call a workflow by its path, and states as they like.
    let node_of = |number: usize| match diagram.nodes.get(number) {
        Some(node) if node.shape == Shape::Workflow => workflow_at(&node.label),
        _ => None,
    };
    let node_of = |number: usize| node_of(number).unwrap_or_else(|| name_of(number));
    let edges = diagram.edges.iter().zip(&layout.edges).map(|(edge, course)| EdgeObject {
        way: way_key(&node_of(edge.from), &node_of(edge.to), edge.style),
        from: name_of(edge.from),
        to: name_of(edge.to),
        tag: edge.label.clone(),
        label: edge.label.clone(),
        style: edge.style.as_str(),
        points: course.points.iter().map(|point| [point.x, point.y]).collect(),
        label_at: course.label.map(|point| [point.x, point.y]),
        declared: true,
    });
    Ok(GraphObject {
        width: layout.size.width,
        height: layout.size.height,
        nodes: nodes.collect(),
        edges: edges.collect(),
    })
}
