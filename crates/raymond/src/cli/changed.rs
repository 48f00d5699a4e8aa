//! `raymond resume --diff`: the state files that changed since a run last used them.

use std::collections::BTreeMap;
use std::path::Path;

use raymond_core::run::Run;
use raymond_core::workflow::{Platform, StateFile};

use super::print::print_stdout;
use crate::error::{ExitKind, UserError};
use crate::paths::shown;
use crate::view::text::clean;
use crate::workflow::scope::Scope;

/// Prints one line for each file that is not as it was. Nothing is run.
pub(super) fn show_changes(run: &Run) -> Result<ExitKind, UserError> {
    let mut scopes: BTreeMap<String, Option<Scope>> = BTreeMap::new();
    let mut lines = String::new();
    for (place, hash) in &run.hashes {
        let (path, state) = place.rsplit_once('/').unwrap_or((&run.scope, place));
        let scope = scopes
            .entry(path.to_owned())
            .or_insert_with(|| Scope::open(Path::new(path), Platform::current()).ok());
        let word = match (scope, StateFile::new(state)) {
            (Some(scope), Some(state)) => match scope.read(&state) {
                Ok(source) if source.hash() == *hash => continue,
                Ok(_) => "changed",
                Err(_) => "gone",
            },
            _ => "gone",
        };
        let file = Path::new(path).join(state);
        lines.push_str(&format!("{word:8} {}\n", clean(&shown(&file).display().to_string())));
    }
    if lines.is_empty() {
        lines.push_str("no state file has changed since it was last used\n");
    }
    print_stdout(lines.as_bytes())?;
    Ok(ExitKind::Completed)
}
