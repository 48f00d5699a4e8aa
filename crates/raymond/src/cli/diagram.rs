//! `raymond diagram`

use std::io::{self, IsTerminal};
use std::path::Path;

use raymond_core::diagram::Diagram;
use raymond_core::diagram::{dot::dot, html::html, mermaid::mermaid, svg::svg};
use raymond_core::graph::Graph;

use super::args::author::{DiagramArgs, DiagramFormat};
use super::find::working_folder;
use super::print::{print_stdout, say};
use crate::author::load::{FaultKind, Loaded, load, name_of};
use crate::check::coverage::Coverage;
use crate::error::{ExitKind, UserError};
use crate::files;
use crate::view::text::clean;

pub(super) fn diagram(args: DiagramArgs) -> Result<ExitKind, UserError> {
    let cwd = working_folder()?;
    let format = args.format()?;
    let platform = args.platform();
    let mut loaded = load(&args.path, &cwd, platform).map_err(|fault| UserError::usage(fault.to_string()))?;
    for fault in loaded.faults.iter().filter(|fault| fault.kind != FaultKind::UnknownKey) {
        say(&format!("left out: {fault}"));
    }
    let mut graph = loaded.graph(platform);
    if graph.states.is_empty() {
        return Err(UserError::usage(format!("{}: there is no state to draw", args.path))
            .hint("name the folder, archive or file that holds the states of a workflow"));
    }
    let mut diagram = loaded.diagram(&graph);
    if let Some(file) = &args.coverage {
        mark_coverage(&mut diagram, file, &loaded.path)?;
    }
    let title = name_of(&loaded.path);
    let picture = match format {
        DiagramFormat::Mermaid => mermaid(&diagram),
        DiagramFormat::Dot => dot(&diagram),
        DiagramFormat::Svg => svg(&diagram, &title),
        DiagramFormat::Html => {
            make_readable(&mut graph, &loaded);
            html(&diagram, &graph, &title)
        }
    };
    let Some(file) = &args.output else {
        let shown = if io::stdout().is_terminal() { clean(&picture).into_owned() } else { picture };
        print_stdout(shown.as_bytes())?;
        return Ok(ExitKind::Completed);
    };
    files::write_output(file, picture.as_bytes())
        .map_err(|error| UserError::usage(format!("cannot write {}: {error}", file.display())))?;
    say(&format!("wrote {}", file.display()));
    Ok(ExitKind::Completed)
}

/// Marks what no test has reached.
fn mark_coverage(diagram: &mut Diagram, file: &Path, workflow: &Path) -> Result<(), UserError> {
    let wrong = |error: String| {
        UserError::usage(format!("{}: {error}", file.display()))
            .hint(format!("write it with: raymond test --coverage={}", file.display()))
    };
    let text = files::read_text(file, files::MAX_GIVEN_BYTES).map_err(|error| wrong(error.to_string()))?;
    let coverage: Coverage = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match coverage.mark(diagram, workflow) {
        true => Ok(()),
        false => Err(wrong(format!("the coverage of {} is not in it", workflow.display()))),
    }
}

/// Shows the states of a one-file workflow as they would be written in a folder.
fn make_readable(graph: &mut Graph, loaded: &Loaded) {
    let Some(inside) = &loaded.inside else { return };
    let files = inside.readable();
    for state in &mut graph.states {
        if let Some(bytes) = files.get(state.file.as_str()) {
            state.text = String::from_utf8_lossy(bytes).into_owned();
        }
    }
}
