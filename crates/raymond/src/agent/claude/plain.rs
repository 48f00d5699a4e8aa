//! Makes sure that values in a prompt are only text for the program.
//!
//! Two things in a prompt are more than text for the program: a `/` at the very start makes the prompt one of the
//! program's commands, and `@path` after white space makes the program read that file or list that folder. An author
//! may write both. A value may come from a model or from an unknown person, so it must stay text. The smallest change
//! that works, tested with the real program, is a space before the slash and an invisible character before the `@`.
//! An `@` that names nothing (`@dataclass`, `@types/node`) is left as it is.

use std::path::{Path, PathBuf};

use super::super::{Filled, Plain};

/// ZERO WIDTH SPACE. The program does not treat it as white space, so an `@` after it is plain text.
const INVISIBLE: char = '\u{200B}';
/// The program's mark for one of its own agents.
const AGENT: &str = "agent-";
/// How many paths are looked for. If a prompt names more, each `@` that could begin one is changed.
const MOST_LOOKUPS: usize = 20_000;
/// Longer paths do not exist.
const LONGEST_PATH: usize = 4096;
/// How many changes are reported, and how many characters of each.
const MOST_REPORTED: usize = 100;

/// The prompt with its values changed where the program would act on them.
pub fn plain(filled: &Filled<'_>) -> Plain {
    let Filled { text, values, .. } = *filled;
    let mut plain = Plain { text: String::with_capacity(text.len()), changed: Vec::new() };
    let mut files = Files { filled, home: home(), lookups: 0 };
    let mut copied_to = 0;
    let mut change = |plain: &mut Plain, at: usize, with: char, what: String| {
        plain.text.push_str(text.get(copied_to..at).unwrap_or_default());
        plain.text.push(with);
        copied_to = at;
        if plain.changed.len() < MOST_REPORTED {
            plain.changed.push(what);
        }
    };
    if text.starts_with('/') && values.iter().any(|value| value.contains(&0)) {
        change(&mut plain, 0, ' ', word(text));
    }
    for value in values {
        let inside = text.get(value.clone()).unwrap_or_default();
        for at in memchr::memchr_iter(b'@', inside.as_bytes()).map(|at| value.start + at) {
            let previous = text.get(..at).and_then(|before| before.chars().next_back());
            let after = text.get(at + 1..).unwrap_or_default();
            if previous.is_none_or(is_boundary) && files.are_named_by(after) {
                change(&mut plain, at, INVISIBLE, word(text.get(at..).unwrap_or_default()));
            }
        }
    }
    plain.text.push_str(text.get(copied_to..).unwrap_or_default());
    plain
}

/// Whether `@path` may begin after this character: after all kinds of white space, and after some punctuation of other
/// scripts. The program accepts less punctuation than this, but the set differs between releases.
fn is_boundary(character: char) -> bool {
    let is_foreign_sign = !character.is_ascii() && !character.is_alphanumeric() && character != INVISIBLE;
    character.is_whitespace() || is_foreign_sign
}

/// Everything up to the next white space, for reports.
fn word(text: &str) -> String {
    text.chars().take_while(|character| !character.is_whitespace()).take(MOST_REPORTED).collect()
}

fn home() -> Option<PathBuf> {
    std::env::var_os(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from)
}

/// The files and folders that the program could read because a prompt names them.
struct Files<'f> {
    filled: &'f Filled<'f>,
    home: Option<PathBuf>,
    lookups: usize,
}

impl Files<'_> {
    /// Whether the text after an `@` names something that the program would bring in.
    fn are_named_by(&mut self, after: &str) -> bool {
        if let Some(quoted) = after.strip_prefix('"') {
            let path = quoted.split(['"', '\n']).next().unwrap_or_default();
            return self.exist(path) || self.is_named_by_word(quoted);
        }
        self.is_named_by_word(after)
    }

    fn is_named_by_word(&mut self, after: &str) -> bool {
        let up_to = |is_end: fn(char) -> bool| {
            let end = after.char_indices().find(|(at, c)| is_end(*c) || *at > LONGEST_PATH);
            after.get(..end.map_or(after.len(), |(at, _)| at)).unwrap_or_default()
        };
        let word = up_to(char::is_whitespace);
        // A resource of an MCP server is written `@server:address`.
        let is_resource = word.split_once("://").is_some_and(|(server, _)| server.contains(':'));
        if word.starts_with(AGENT) || is_resource {
            return true;
        }
        // What follows a path and is not part of it: a sign of another script, after which the next path may begin, a
        // range of lines, and punctuation at the end of the word.
        let short = up_to(is_boundary);
        let path = short.split('#').next().unwrap_or_default();
        self.begin(word) || self.begin(short) || self.begin(path)
    }

    /// Whether a path exists, or what is left of it without some of the punctuation at its end. For the program that
    /// is everything but ASCII letters, digits and `_`.
    fn begin(&mut self, path: &str) -> bool {
        let mut rest = path;
        loop {
            if self.exist(rest) {
                return true;
            }
            let shorter = rest.strip_suffix(|last: char| !last.is_ascii_alphanumeric() && last != '_');
            let Some(shorter) = shorter.filter(|shorter| !shorter.is_empty()) else { return false };
            rest = shorter;
        }
    }

    fn exist(&mut self, path: &str) -> bool {
        if path.is_empty() {
            return false;
        }
        self.lookups += 1;
        if self.lookups > MOST_LOOKUPS {
            return true;
        }
        if let Some(below_home) = path.strip_prefix('~') {
            let below = below_home.trim_start_matches(['/', '\\']);
            return self.home.as_ref().is_some_and(|home| home.join(below).exists());
        }
        let folders =
            std::iter::once(self.filled.cwd).chain(self.filled.folders.iter().map(PathBuf::as_path));
        folders.into_iter().any(|folder: &Path| folder.join(path).exists())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    /// The prompt `before` + `value` + `after` in a folder with a few files.
    fn sent(folder: &Path, before: &str, value: &str, after: &str) -> Plain {
        let text = format!("{before}{value}{after}");
        let value = before.len()..before.len() + value.len();
        plain(&Filled { text: &text, values: std::slice::from_ref(&value), cwd: folder, folders: &[] })
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b.txt", "sp ace"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("sub")).unwrap();
        folder
    }

    #[test]
    fn only_commands_and_names_of_files_are_changed() {
        let folder = folder();
        let absolute = format!("@{}", folder.path().join("a").display());
        let values = [
            ("", ""),
            ("/cost", " /cost"),
            (" /cost", " /cost"),
            ("a/b", "a/b"),
            ("@a", "\u{200B}@a"),
            ("x@a", "x@a"),
            (
                "npm i @types/node @dataclass\n@app.route('/a')",
                "npm i @types/node @dataclass\n@app.route('/a')",
            ),
            ("x @a (@b.txt) \"@a\"\n@sub", "x \u{200B}@a (@b.txt) \"@a\"\n\u{200B}@sub"),
            (
                "@b.txt, @b.txt#L1-2 @b.txt:3 @b.txt.",
                "\u{200B}@b.txt, \u{200B}@b.txt#L1-2 @b.txt:3 \u{200B}@b.txt.",
            ),
            ("@\"sp ace\" @\"no\"", "\u{200B}@\"sp ace\" @\"no\""),
            ("@sub.route(x) @b.txt日本 @b.txt/", "@sub.route(x) \u{200B}@b.txt日本 \u{200B}@b.txt/"),
            ("5 @ 3", "5 @ 3"),
            ("@./a @../nothing @sub/", "\u{200B}@./a @../nothing \u{200B}@sub/"),
            ("x\u{A0}@a\u{3002}@a\u{FEFF}@a", "x\u{A0}\u{200B}@a\u{3002}\u{200B}@a\u{FEFF}\u{200B}@a"),
            ("@agent-x", "\u{200B}@agent-x"),
            (&absolute, &format!("\u{200B}{absolute}")),
            ("/@a", " /@a"),
            ("ä@a", "ä@a"),
        ];
        let inside_text = [
            ("see ", "/cost", "", "see /cost"),
            ("/", "cost", "", "/cost"),
            ("see ", "@a", "", "see \u{200B}@a"),
            ("see @", "a", "", "see @a"),
            ("see:", "@a", "", "see:@a"),
            ("", "ends with @b.", "txt", "ends with \u{200B}@b.txt"),
            ("", "ends with @b.", " txt", "ends with @b. txt"),
        ];
        let alone = values.iter().map(|(value, expected)| ("", *value, "", *expected));
        for (before, value, after, expected) in alone.chain(inside_text) {
            assert_eq!(
                sent(folder.path(), before, value, after).text,
                expected,
                "{value:?} after {before:?}"
            );
        }
        assert_eq!(sent(folder.path(), "", "/x @b.txt, @c", "").changed, ["/x", "@b.txt,"]);
    }

    #[test]
    fn files_in_further_folders_and_at_home_count() {
        let (folder, empty) = (folder(), tempfile::tempdir().unwrap());
        let folders = [folder.path().to_owned()];
        let values = std::slice::from_ref(&(0..2));
        let filled = Filled { text: "@a", values, cwd: empty.path(), folders: &folders };
        assert_eq!(plain(&filled).changed, ["@a"]);
        assert_eq!(plain(&Filled { folders: &[], ..filled }).changed, [""; 0]);
        assert_eq!(sent(empty.path(), "", "@~/ and @~", "").changed, ["@~/", "@~"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_twice_is_once(value in "[/@ a\n.]{0,12}") {
            let folder = folder();
            let once = sent(folder.path(), "", &value, "").text;
            prop_assert_eq!(&sent(folder.path(), "", &once, "").text, &once);
            let visible: String = once.chars().filter(|character| *character != INVISIBLE).collect();
            prop_assert_eq!(visible.strip_prefix(' ').filter(|_| value.starts_with('/')).unwrap_or(&visible), value);
        }
    }
}
