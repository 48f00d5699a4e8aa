//! Making paths absolute and plain, and names that some systems do not allow.

use std::path::{Component, Path, PathBuf, Prefix};
use std::sync::OnceLock;

/// `path` relative to `base`, without `.` and `..`. `..` removes the name before it; links are not followed.
pub fn normalise(base: &Path, path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// A path as messages show it: relative to the folder in which this program was started, if it is in there.
pub fn shown(path: &Path) -> &Path {
    static STARTED_IN: OnceLock<Option<PathBuf>> = OnceLock::new();
    let started_in = STARTED_IN.get_or_init(|| std::env::current_dir().ok());
    let inside = started_in.as_ref().and_then(|folder| path.strip_prefix(folder).ok());
    inside.filter(|inside| !inside.as_os_str().is_empty()).unwrap_or(path)
}

/// A path as people write it in settings: `~/x` is in their home folder.
#[cfg(unix)]
pub fn without_tilde(path: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    match (path.strip_prefix("~/"), path == "~") {
        (Some(rest), _) => home().map(|home| home.join(rest)),
        (None, true) => home(),
        (None, false) => None,
    }
    .unwrap_or_else(|| PathBuf::from(path))
}

/// Whether a path leads to another machine or to a device that `base` is not on. On Windows, just opening such a path
/// can send the user's credentials to the other machine.
pub fn leads_away(path: &Path, base: &Path) -> bool {
    share_of(path).is_some_and(|share| share_of(base) != Some(share))
}

/// The machine and its share, or the device; `None` for a path on a disk. Only Windows has such paths.
fn share_of(path: &Path) -> Option<String> {
    let Some(Component::Prefix(prefix)) = path.components().next() else { return None };
    let name = match prefix.kind() {
        Prefix::Disk(_) | Prefix::VerbatimDisk(_) => return None,
        Prefix::UNC(machine, share) | Prefix::VerbatimUNC(machine, share) => {
            format!("{}/{}", machine.display(), share.display())
        }
        Prefix::DeviceNS(device) | Prefix::Verbatim(device) => device.display().to_string(),
    };
    Some(name.to_lowercase())
}

/// Whether a name has a special meaning on Windows: a device, a stream of another file, or characters that Windows
/// removes or forbids.
pub fn is_special_on_windows(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_numbered = |device: &str| {
        let number = stem.strip_prefix(device).filter(|number| number.chars().count() == 1);
        number.is_some_and(|number| "123456789¹²³".contains(number))
    };
    name.contains(['<', '>', ':', '"', '|', '?', '*'])
        || name.ends_with(['.', ' '])
        || ["con", "prn", "aux", "nul", "conin$", "conout$"].contains(&stem.as_str())
        || is_numbered("com")
        || is_numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(windows)]
    #[test]
    fn paths_to_other_machines_are_known() {
        let here = Path::new(r"C:\work");
        for path in [r"\\evil\share\wf", r"\\?\UNC\evil\share", r"\\.\pipe\x", "//evil/share"] {
            assert!(leads_away(&normalise(here, Path::new(path)), here), "{path}");
        }
        for path in ["..", "x/y", r"D:\x", r"\x", r"\\?\D:\x"] {
            assert!(!leads_away(&normalise(here, Path::new(path)), here), "{path}");
        }
        let there = Path::new(r"\\Server\Share\work");
        assert!(!leads_away(Path::new(r"\\?\UNC\server\share\wf"), there));
        assert!(leads_away(Path::new(r"\\server\other\wf"), there));
    }

    #[test]
    fn names_that_mean_something_else_are_known() {
        for name in [
            "nul", "NUL.md", "con.sh", "Com1", "lpt9.x.y", "COM².md", "aux ", "a:b.md", "c:x", "a.", "a ",
            "a?",
        ] {
            assert!(is_special_on_windows(name), "{name}");
        }
        for name in
            ["START.md", "console.md", "com", "com10.md", "com0", "null", "a.nul", "lpt.md", "a b.md", "ü.md"]
        {
            assert!(!is_special_on_windows(name), "{name}");
        }
    }

    #[test]
    fn paths_are_made_absolute_and_plain() {
        let cases = [
            ("/a/b", "c", "/a/b/c"),
            ("/a/b", "./c/.", "/a/b/c"),
            ("/a/b", "../c", "/a/c"),
            ("/a/b", "../../../c", "/c"),
            ("/a/b", "/x/../y", "/y"),
            ("/a/b", "", "/a/b"),
        ];
        for (base, path, expected) in cases {
            assert_eq!(normalise(Path::new(base), Path::new(path)), Path::new(expected), "{base} + {path}");
        }
    }
}
