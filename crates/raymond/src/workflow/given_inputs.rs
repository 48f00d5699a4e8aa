//! Values that a workflow is given for its inputs, as far as they are on disk.

use std::path::Path;

use crate::files::open_plain;
use crate::paths::{leads_away, normalise};

/// The absolute path of a file that can be read; `base` is where relative paths start.
pub fn readable_file(base: &Path, written: &str) -> Result<String, String> {
    let path = normalise(base, Path::new(written));
    if leads_away(&path, base) {
        return Err(format!("`{}` leads to another machine or a device", written.escape_debug()));
    }
    let shown = path.display();
    match path.metadata() {
        Ok(data) if data.is_dir() => return Err(format!("{shown} is a folder, not a file")),
        Ok(data) if !data.is_file() => return Err(format!("{shown} is not a plain file")),
        Ok(_) => {}
        Err(error) => return Err(format!("cannot read {shown}: {error}")),
    }
    open_plain(&path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    path.to_str().map(str::to_owned).ok_or_else(|| format!("the path {shown} is not valid UTF-8"))
}
