//! Paths as text: absolute and without `.` and `..`; names that some systems cannot have.

use std::path::{Component, Path, PathBuf};

/// `path` seen from `base`, without `.`, and with `..` taken back by name, not by following links.
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

/// Whether a plain name means something else to Windows than a file of this name: a device, a part of another file,
/// another spelling.
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
