//! `raymond convert`

use super::args::ConvertArgs;
use super::find::working_folder;
use super::print::say;
use crate::author::convert;
use crate::error::{ExitKind, UserError};
use crate::paths::normalise;

pub(super) fn convert(args: ConvertArgs) -> Result<ExitKind, UserError> {
    let cwd = working_folder()?;
    let (from, to) = (normalise(&cwd, &args.from), normalise(&cwd, &args.to));
    let count = convert::convert(&from, &to, args.force, args.bundle)?;
    let files = if count == 1 { "file" } else { "files" };
    say(&format!("wrote {} ({count} {files})", args.to.display()));
    Ok(ExitKind::Completed)
}
