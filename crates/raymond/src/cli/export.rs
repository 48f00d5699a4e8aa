//! `raymond export`

use std::io::{self, IsTerminal};

use super::args::Place;
use super::args::serve::ExportArgs;
use super::choose::{Intent, choose};
use super::find::{project_folder, state_dir, store, working_folder};
use super::print::{print_stdout, say};
use super::settings::of_looking;
use crate::agent::registry::Backends;
use crate::error::{ExitKind, UserError};
use crate::serve::{Settings, export as export_run};
use crate::trust::Area;

pub(super) fn export(args: ExportArgs) -> Result<ExitKind, UserError> {
    let run = choose(&*store(&args.place)?, args.run.as_deref(), Intent::Look)?;
    if args.output.is_none() && io::stdout().is_terminal() {
        return Err(UserError::usage("a page is of no use on a terminal").hint(format!(
            "write it to a file: raymond export {} -o {}.html",
            run.id(),
            run.id()
        )));
    }
    let page = export_run(looking(&args.place)?, run.id())?;
    let Some(file) = &args.output else {
        print_stdout(page.as_bytes())?;
        return Ok(ExitKind::Completed);
    };
    crate::files::write_output(file, page.as_bytes())
        .map_err(|error| UserError::usage(format!("cannot write {}: {error}", file.display())))?;
    say(&format!("wrote {}", file.display()));
    Ok(ExitKind::Completed)
}

/// The settings of a server that only looks at the runs here.
pub(super) fn looking(place: &Place) -> Result<Settings, UserError> {
    let project = project_folder(&working_folder()?);
    Ok(Settings {
        listen: None,
        token_file: None,
        allowed_hosts: Vec::new(),
        state: state_dir(place)?,
        roots: vec![project.clone()],
        project,
        workflow_paths: of_looking(Area::Places).unwrap_or_default().raymond.workflow_paths.clone(),
        state_dir: None,
        schedules: false,
        skip_permissions: false,
        backends: Backends::built_in(),
    })
}
