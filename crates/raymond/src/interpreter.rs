//! How each kind of script is run.

use std::ffi::OsString;
use std::path::Path;

use raymond_core::workflow::{Kind, Platform};

/// The program that runs a script, and its arguments. A prompt has none.
pub fn command_line(kind: Kind, file: &Path, platform: Platform) -> Option<(OsString, Vec<OsString>)> {
    let file = file.as_os_str().to_owned();
    let (program, args): (&str, Vec<OsString>) = match (kind, platform) {
        (Kind::Prompt, _) => return None,
        (Kind::Bash, _) => ("/bin/bash", vec![file]),
        (Kind::Batch, _) => ("cmd.exe", vec!["/c".into(), file]),
        (Kind::PowerShell, _) => ("pwsh", vec!["-NoProfile".into(), "-File".into(), file]),
        (Kind::Python, Platform::Unix) => ("python3", vec![file]),
        (Kind::Python, Platform::Windows) => ("python", vec![file]),
        (Kind::Node, _) => ("node", vec![file]),
    };
    Some((program.into(), args))
}
