//! `raymond serve`

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use super::args::serve::ServeArgs;
use super::find::{project_folder, state_dir, working_folder};
use super::foreign::warn_of_foreign;
use super::settings::of_looking;
use super::show::backends;
use crate::agent::registry::Backends;
use crate::error::{ExitKind, UserError};
use crate::paths::normalise;
use crate::serve::{Settings, serve as serve_runs};
use crate::store::FolderStore;
use crate::trust::Area;

pub(super) fn serve(args: ServeArgs) -> Result<ExitKind, UserError> {
    let cwd = working_folder()?;
    let project = project_folder(&cwd);
    // A broken config file is reported by the commands that need it.
    let config = of_looking(Area::Places).unwrap_or_default();
    let roots = match args.root.is_empty() {
        true => vec![project.clone()],
        false => args.root.iter().map(|root| existing_folder(&cwd, root)).collect::<Result<_, _>>()?,
    };
    let state = state_dir(&args.place)?;
    warn_of_foreign(&FolderStore::new(state.clone()));
    serve_runs(Settings {
        roots,
        project,
        workflow_paths: config.raymond.workflow_paths.clone(),
        listen: args.listen.as_deref().map(parse_address).transpose()?,
        token_file: args.token_file.map(|file| cwd.join(file)),
        allowed_hosts: args.allow_host,
        state,
        state_dir: args.place.state_dir.as_deref().map(|dir| normalise(&cwd, dir)),
        schedules: args.schedules,
        skip_permissions: args.dangerously_skip_permissions,
        // What is wrong with the config file is said by the runs that need it.
        backends: backends().unwrap_or_else(|_| Backends::built_in()),
    })
}

/// An address with its port. `localhost` is this machine.
fn parse_address(text: &str) -> Result<SocketAddr, UserError> {
    let is_local = text.strip_prefix("localhost:").is_some();
    let found = match is_local {
        true => text.replace("localhost", "127.0.0.1").to_socket_addrs().ok().and_then(|mut all| all.next()),
        false => text.parse().ok(),
    };
    found.ok_or_else(|| {
        UserError::usage(format!("`{}` is not an address to listen on", text.escape_debug()))
            .hint("write it as 127.0.0.1:7878, [::1]:7878 or localhost:7878; port 0 means any")
    })
}

/// A root must be there: a mistyped one would just show nothing.
fn existing_folder(cwd: &Path, root: &Path) -> Result<PathBuf, UserError> {
    let path = normalise(cwd, root);
    match path.is_dir() {
        true => Ok(path),
        false => Err(UserError::usage(format!("there is no folder {}", root.display()))
            .hint("--root names a folder with workflows in it or below it")),
    }
}
