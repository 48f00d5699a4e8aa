//! `raymond inspect`: what a workflow may do.

use std::path::Path;

use raymond_core::workflow::Platform;
use serde::Serialize;

use super::args::trust::InspectArgs;
use super::find::working_folder;
use super::meant::hint_at_what_was_meant;
use super::print::print_stdout;
use super::settings::harmless;
use crate::author::may_do::{May, MayDo};
use crate::error::{ExitKind, UserError};
use crate::paths::shown;
use crate::trust::content::{configs_around, content};
use crate::trust::obeyed::obeyed;
use crate::trust::workflows::Standing;
use crate::view::text::{clean, clean_json};
use crate::workflow::named::Reached;
use crate::workflow::scope::{Located, locate};

pub(super) fn inspect(args: InspectArgs) -> Result<ExitKind, UserError> {
    let located = find(&args.workflow)?;
    let inspected = Inspected::look(located.scope.path())?;
    inspected.print(args.json)?;
    Ok(ExitKind::Completed)
}

pub(super) fn find(workflow: &str) -> Result<Located, UserError> {
    let cwd = working_folder()?;
    locate(workflow, &cwd, Platform::current()).map_err(|error| hint_at_what_was_meant(error, workflow, &cwd))
}

/// A workflow that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Inspected {
    workflow: String,
    /// The hash of its content before it was looked at.
    pub(super) content: String,
    /// Whether it may start by itself.
    pub(super) trusted: bool,
    may: Vec<May>,
    #[serde(skip)]
    text: String,
}

impl Inspected {
    pub(super) fn look(path: &Path) -> Result<Self, UserError> {
        let mut reached = Reached::from(path, Platform::current())?;
        let content = content(&reached)?;
        let configs = reached.scopes.first().map(configs_around).unwrap_or_default();
        // What the project's config file says is listed as it stands there. A broken one is reported by the commands that need it.
        let backend = harmless().unwrap_or_default().raymond.backend;
        let may_do = MayDo::of(&mut reached, &configs, backend.as_deref()).with_obeyed(obeyed(&reached)?);
        Ok(Self {
            workflow: path.display().to_string(),
            content,
            trusted: Standing::of(path).is_trusted(),
            may: may_do.list(),
            text: may_do.text(),
        })
    }

    pub(super) fn print(&self, as_json: bool) -> Result<(), UserError> {
        if as_json {
            let json =
                serde_json::to_string_pretty(self).map_err(|error| UserError::failed(error.to_string()))?;
            return print_stdout(format!("{}\n", clean_json(json)).as_bytes());
        }
        let name = shown(Path::new(&self.workflow)).display().to_string().replace(['\n', '\r'], " ");
        let standing = if self.trusted { ", which is trusted as it is" } else { "" };
        print_stdout(format!("{}{standing}, may:\n{}", clean(&name), self.text).as_bytes())
    }
}
