//! `raymond schema`

use super::args::author::SchemaArgs;
use super::print::print_stdout;
use crate::author::schema::schema;
use crate::error::{ExitKind, UserError};

pub(super) fn print_schema(args: SchemaArgs) -> Result<ExitKind, UserError> {
    let schema = schema(args.subject);
    print_stdout(format!("{:#}\n", schema.as_value()).as_bytes())?;
    Ok(ExitKind::Completed)
}
