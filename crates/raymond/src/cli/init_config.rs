//! `raymond --init-config`

use std::io::{ErrorKind, Write};

use super::find::{found_home, working_folder};
use super::print::say;
use crate::config::TEMPLATE;
use crate::error::{ExitKind, UserError};

pub(super) fn init_config() -> Result<ExitKind, UserError> {
    let failed = |error: std::io::Error| UserError::usage(format!("cannot write the config file: {error}"));
    let dir = found_home(&working_folder()?)?;
    dir.create_home().map_err(failed)?;
    let file = dir.home().unwrap_or(dir.path()).join("config.toml");
    match crate::files::open_plain_as(crate::files::private_options().write(true).create_new(true), &file) {
        Ok(mut open) => open.write_all(TEMPLATE.as_bytes()).map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(UserError::usage(format!("{} exists already", file.display()))
                .hint("move it away to get a fresh one"));
        }
        Err(error) => return Err(failed(error)),
    }
    say(&format!("wrote {}", file.display()));
    Ok(ExitKind::Completed)
}
