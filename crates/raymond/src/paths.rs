//! Paths as text: absolute and without `.` and `..`.

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

#[cfg(test)]
mod tests {
    use super::*;

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
