//! `raymond convert`

use std::io::Write;

use super::args::ConvertArgs;
use super::find::working_folder;
use crate::author::convert;
use crate::error::{ExitKind, UserError};
use crate::paths::normalise;

pub(super) fn convert(args: ConvertArgs) -> Result<ExitKind, UserError> {
    let cwd = working_folder()?;
    let (from, to) = (normalise(&cwd, &args.from), normalise(&cwd, &args.to));
    let count = convert::convert(&from, &to, args.force)?;
    let files = if count == 1 { "file" } else { "files" };
    let _ = writeln!(anstream::stderr(), "wrote {} ({count} {files})", args.to.display());
    Ok(ExitKind::Completed)
}
