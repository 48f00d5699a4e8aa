//! Commands that Raymond proposes to people.

use std::path::PathBuf;
use std::sync::OnceLock;

/// The folder of `--state-dir`, as it was given to this process. A command without it would not find the run.
static STATE_DIR: OnceLock<PathBuf> = OnceLock::new();

/// Makes all proposed commands name this folder.
pub fn repeat_state_dir(folder: PathBuf) {
    let _ = STATE_DIR.set(folder);
}

/// A command of this program, such as `resume RUN`, as people should type it.
pub fn command(words: &str) -> String {
    let Some(folder) = STATE_DIR.get() else { return format!("raymond {words}") };
    let folder = quoted(&folder.to_string_lossy());
    // A run's id that begins with a dash is written after `--`, where there can be no option.
    match words.split_once(" -- ") {
        Some((command, rest)) => format!("raymond {command} --state-dir {folder} -- {rest}"),
        None => format!("raymond {words} --state-dir {folder}"),
    }
}

/// A word as a shell needs it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%\\".contains(c) && !(cfg!(unix) && c == '\\');
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_special_characters_are_quoted() {
        for (word, expected) in
            [("a/b-c.d", "a/b-c.d"), ("my runs", "'my runs'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(quoted(word), expected);
        }
    }
}
