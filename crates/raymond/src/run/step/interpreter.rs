//! How each kind of script is run.

use std::ffi::OsString;
use std::path::Path;

use raymond_core::workflow::{Kind, Platform};

/// The names of PowerShell, the current version first.
const POWER_SHELLS: [&str; 2] = ["pwsh", "powershell"];

/// The program that runs a script, and its arguments. A prompt has none.
///
/// A batch file is its own program: it has to be run by `cmd.exe`, which parses its command line by special rules. The
/// standard library follows these rules when it starts a batch file.
pub fn command_line(kind: Kind, file: &Path, platform: Platform) -> Option<(OsString, Vec<OsString>)> {
    let file = file.as_os_str().to_owned();
    let (program, args): (&str, Vec<OsString>) = match (kind, platform) {
        (Kind::Prompt, _) => return None,
        (Kind::Bash, _) => ("/bin/bash", vec![file]),
        (Kind::Batch, _) => return Some((file, Vec::new())),
        (Kind::PowerShell, _) => (power_shell(is_on_path), power_shell_arguments(file)),
        (Kind::Python, Platform::Unix) => ("python3", vec![file]),
        // Without this it prints in the code page of the machine, which is rarely UTF-8.
        (Kind::Python, Platform::Windows) => ("python", vec!["-X".into(), "utf8".into(), file]),
        (Kind::Node, _) => ("node", vec![file]),
    };
    Some((program.into(), args))
}

/// The first one that is installed. If there is none, the error names the one to install.
fn power_shell(is_there: impl Fn(&str) -> bool) -> &'static str {
    POWER_SHELLS.into_iter().find(|name| is_there(name)).unwrap_or(POWER_SHELLS[0])
}

/// A person's own profile and the system's prompts must not keep a state from running.
fn power_shell_arguments(file: OsString) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        ["-NoLogo", "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File"]
            .map(OsString::from)
            .to_vec();
    arguments.push(file);
    arguments
}

#[cfg(windows)]
fn is_on_path(name: &str) -> bool {
    crate::process::find_program(name).is_some()
}

/// Such a state never runs on this platform.
#[cfg(not(windows))]
fn is_on_path(_name: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: Kind, platform: Platform) -> String {
        let (program, args) = command_line(kind, Path::new("/wf/A B"), platform).unwrap();
        let words = [program].into_iter().chain(args);
        words.map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn every_kind_of_script_has_an_interpreter() {
        let cases = [
            (Kind::Bash, Platform::Unix, "/bin/bash|/wf/A B"),
            (Kind::Python, Platform::Unix, "python3|/wf/A B"),
            (Kind::Node, Platform::Unix, "node|/wf/A B"),
            (Kind::Batch, Platform::Windows, "/wf/A B"),
            (Kind::Python, Platform::Windows, "python|-X|utf8|/wf/A B"),
            (Kind::Node, Platform::Windows, "node|/wf/A B"),
        ];
        for (kind, platform, expected) in cases {
            assert_eq!(shown(kind, platform), expected);
        }
        assert_eq!(command_line(Kind::Prompt, Path::new("A.md"), Platform::Unix), None);
    }

    #[test]
    fn a_power_shell_script_runs_with_the_newest_installed_version() {
        assert_eq!(power_shell(|_| true), "pwsh");
        assert_eq!(power_shell(|name| name == "powershell"), "powershell");
        assert_eq!(power_shell(|_| false), "pwsh");
        let expected = "|-NoLogo|-NoProfile|-NonInteractive|-ExecutionPolicy|Bypass|-File|/wf/A B";
        let shown = shown(Kind::PowerShell, Platform::Windows);
        assert!(shown.ends_with(expected), "{shown}");
    }
}
