//! Where a program is.

use std::path::{Path, PathBuf};

/// A program on `PATH`, or at its own path.
pub fn program_on_path(program: &str) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return is_program(path).then(|| path.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    let endings: &[&str] = if cfg!(windows) { &["", ".exe", ".cmd"] } else { &[""] };
    std::env::split_paths(&folders)
        .flat_map(|folder| endings.iter().map(move |ending| folder.join(format!("{program}{ending}"))))
        .find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    #[cfg(unix)]
    let can_be_executed = rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    #[cfg(not(unix))]
    let can_be_executed = true;
    path.is_file() && can_be_executed
}
