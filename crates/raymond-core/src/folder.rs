//! Folders that tags name with `cd`, and the patterns of such folders in policies.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A folder that a tag names, looked up on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Folder {
    /// Its path, absolute.
    pub path: String,
    /// Why an agent must not choose it by itself; nothing if it is inside a permitted folder.
    pub outside: Option<String>,
    /// The `cd` patterns of the state's policy that it matches.
    pub matches: BTreeSet<String>,
}

impl Folder {
    /// A folder that an agent may choose.
    pub fn permitted(path: impl Into<String>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }
}

/// Whether a pattern stands for more than one folder.
pub fn has_wildcards(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// Compares the names of a pattern with those of a path: `*` is any part of a name, `?` one character, and the name
/// `**` any number of names.
pub fn matches(pattern: &[&str], path: &[&str]) -> bool {
    // What is left to try if the names after the last `**` do not match: it takes one name more.
    let mut again: Option<(&[&str], &[&str])> = None;
    let (mut pattern, mut path) = (pattern, path);
    loop {
        match (pattern, path) {
            ([], []) => return true,
            ([first, rest @ ..], _) if *first == "**" => {
                again = Some((rest, path));
                pattern = rest;
                continue;
            }
            ([first, pattern_rest @ ..], [name, path_rest @ ..]) if name_matches(first, name) => {
                (pattern, path) = (pattern_rest, path_rest);
                continue;
            }
            _ => {}
        }
        let Some((rest, [_, left @ ..])) = again else { return false };
        again = Some((rest, left));
        (pattern, path) = (rest, left);
    }
}

fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut pattern, mut name) = (pattern.as_slice(), name.as_slice());
    let mut again: Option<(&[char], &[char])> = None;
    loop {
        match (pattern, name) {
            ([], []) => return true,
            (['*', rest @ ..], _) => {
                again = Some((rest, name));
                pattern = rest;
                continue;
            }
            ([wanted, pattern_rest @ ..], [found, name_rest @ ..]) if *wanted == '?' || wanted == found => {
                (pattern, name) = (pattern_rest, name_rest);
                continue;
            }
            _ => {}
        }
        let Some((rest, [_, left @ ..])) = again else { return false };
        again = Some((rest, left));
        (pattern, name) = (rest, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_within_a_name_and_two_stars_do_not() {
        let cases = [
            ("a/sub/*", "a/sub/x", true),
            ("a/sub/*", "a/sub", false),
            ("a/sub/*", "a/sub/x/y", false),
            ("a/sub/**", "a/sub/x/y", true),
            ("a/sub/**", "a/sub", true),
            ("a/**/z", "a/b/z/c/z", true),
            ("a/**/z", "a/b/z/c", false),
            ("**", "a/b", true),
            ("a/x-*-?", "a/x-one-two-3", true),
            ("a/x-*-?", "a/x-one-two", false),
            ("a/?", "a/ü", true),
            ("a", "a", true),
            ("a", "b", false),
            ("a/b", "a", false),
            ("a/*b*b*b*b*c", "a/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", false),
        ];
        for (pattern, path, expected) in cases {
            let names = |text: &'static str| text.split('/').collect::<Vec<_>>();
            assert_eq!(matches(&names(pattern), &names(path)), expected, "{pattern} {path}");
        }
    }
}
