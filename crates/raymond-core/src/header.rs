//! Directives in the first comments of a script: `# raymond: timeout=30s retry=3`.

use serde::{Deserialize, Serialize};
use std::time::Duration;

use crate::duration::{self, Limit};
use crate::limits::{MAX_EXCLUSIVE_NAME_BYTES, MAX_HEADER_LINES, MAX_RETRIES, MAX_WARNINGS};
use crate::workflow::Kind;
use crate::workflow::source::{Position, SourceError, SourceWarning, saturated};
use crate::workflow::wording::{did_you_mean, nearest, quoted};

/// The settings of a script; all are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Time without output.
    pub timeout: Option<Limit>,
    /// Time in all.
    pub max_time: Option<Limit>,
    /// How often to run again after a failure.
    pub retry: u32,
    /// How long to wait before running again.
    pub backoff: Option<Duration>,
    pub max_visits: Option<u64>,
    pub fatal: Option<Fatal>,
    /// Steps with the same name never run at the same time.
    pub exclusive: Option<String>,
}

/// What stops when a script fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fatal {
    #[default]
    Run,
    Agent,
}

/// Where and why a directive cannot be understood.
pub type HeaderError = SourceError;

/// Reads a value into one field of the header.
type Setter = fn(&mut Header, &str) -> Result<(), String>;

/// The table of settings, in the order the documentation gives them.
const SETTINGS: [(&str, Setter); 7] = [
    ("timeout", |header, value| limit(value).map(|limit| header.timeout = Some(limit))),
    ("max_time", |header, value| limit(value).map(|limit| header.max_time = Some(limit))),
    ("retry", |header, value| retry(value).map(|retry| header.retry = retry)),
    ("backoff", |header, value| backoff(value).map(|backoff| header.backoff = backoff)),
    ("max_visits", |header, value| max_visits(value).map(|visits| header.max_visits = visits)),
    ("fatal", |header, value| fatal(value).map(|fatal| header.fatal = Some(fatal))),
    ("exclusive", |header, value| exclusive_name(value).map(|name| header.exclusive = Some(name))),
];

/// The names of all settings.
pub fn setting_names() -> impl Iterator<Item = &'static str> {
    SETTINGS.into_iter().map(|(name, _)| name)
}

/// The word after the comment marker that makes a comment a directive.
const DIRECTIVE: &str = "raymond:";

/// Reads the directives of a script; a prompt has none.
pub fn parse(kind: Kind, text: &str) -> Result<(Header, Vec<SourceWarning>), HeaderError> {
    read(kind, text).map(|reader| (reader.header, reader.warnings))
}

/// The keys that a script's directives set; none if the directives are invalid.
pub fn keys(kind: Kind, text: &str) -> Vec<&'static str> {
    read(kind, text).map(|reader| reader.seen).unwrap_or_default()
}

fn read(kind: Kind, text: &str) -> Result<Reader, HeaderError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::default();
    for (index, line) in text.lines().take(MAX_HEADER_LINES).enumerate() {
        if let Some(settings) = directive(kind, line) {
            reader.read_line(saturated(index + 1), line, settings)?;
        }
    }
    Ok(reader)
}

/// The text after `raymond:`, if the line is a directive.
fn directive(kind: Kind, line: &str) -> Option<&str> {
    let line = line.trim_start();
    // In a batch file `@` switches off the echo of a single line.
    let line = if kind == Kind::Batch { line.strip_prefix('@').unwrap_or(line) } else { line };
    let comment = kind.comment_markers().iter().find_map(|marker| after_marker(line, marker))?;
    comment.trim_start().strip_prefix(DIRECTIVE)
}

fn after_marker<'l>(line: &'l str, marker: &str) -> Option<&'l str> {
    let (start, comment) = line.split_at_checked(marker.len())?;
    let is_word = marker.ends_with(|last: char| last.is_ascii_alphabetic());
    let ends_there = !is_word || comment.starts_with(char::is_whitespace);
    (start.eq_ignore_ascii_case(marker) && ends_there).then_some(comment)
}

#[derive(Default)]
struct Reader {
    header: Header,
    seen: Vec<&'static str>,
    warnings: Vec<SourceWarning>,
}

impl Reader {
    fn read_line(&mut self, line_number: u32, line: &str, settings: &str) -> Result<(), HeaderError> {
        // Without any `key=` it is a sentence about Raymond.
        if !settings.contains('=') {
            return Ok(());
        }
        // The settings are the end of the line, so the length of the text before them is the difference of the lengths.
        let before = line.get(..line.len().saturating_sub(settings.len())).unwrap_or_default();
        let mut column = before.chars().count() + 1;
        for word in settings.split([' ', '\t', ',']) {
            let position = Position { line: line_number, column: saturated(column) };
            if !word.is_empty() {
                let fail = |message| SourceError { position, message, source_line: line.to_owned() };
                self.read_word(word, position).map_err(fail)?;
            }
            column += word.chars().count() + 1;
        }
        Ok(())
    }

    fn read_word(&mut self, word: &str, position: Position) -> Result<(), String> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let Some((known, set)) = SETTINGS.into_iter().find(|(known, _)| *known == key) else {
            self.warn(position, key);
            return Ok(());
        };
        if value.is_empty() {
            return Err(format!("{} has no value; write it as `key=value` without spaces", quoted(key)));
        }
        if self.seen.contains(&known) {
            return Err(format!("{} is set twice", quoted(key)));
        }
        self.seen.push(known);
        set(&mut self.header, value)
    }

    fn warn(&mut self, position: Position, key: &str) {
        if self.warnings.len() < MAX_WARNINGS {
            let keys = SETTINGS.map(|(known, _)| known);
            let meant = did_you_mean(&nearest(key, keys));
            let message = format!("unknown setting {} is ignored{meant}", quoted(key));
            self.warnings.push(SourceWarning { position, message });
        }
    }
}

impl Header {
    /// Sets one value by its key, for the one-file form. Returns whether the key exists.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match SETTINGS.into_iter().find(|(known, _)| *known == key) {
            Some((_, set)) => set(self, value).map(|()| true),
            None => Ok(false),
        }
    }
}

fn limit(value: &str) -> Result<Limit, String> {
    Limit::parse(value).map_err(|error| error.to_string())
}

fn backoff(value: &str) -> Result<Option<Duration>, String> {
    duration::parse(value).map(Some).map_err(|error| error.to_string())
}

fn retry(value: &str) -> Result<u32, String> {
    whole_number(value)
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number <= MAX_RETRIES)
        .ok_or_else(|| format!("{} is not a whole number from 0 to {MAX_RETRIES} for `retry`", quoted(value)))
}

fn max_visits(value: &str) -> Result<Option<u64>, String> {
    match whole_number(value) {
        Some(number) if number > 0 => Ok(Some(number)),
        _ => Err(format!("{} is not a whole number from 1 on for `max_visits`", quoted(value))),
    }
}

/// The standard library's parser also accepts a sign, which is not wanted here.
fn whole_number(value: &str) -> Option<u64> {
    value.parse().ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name that `exclusive` gives, in headers and frontmatter.
pub(crate) fn exclusive_name(value: &str) -> Result<String, String> {
    match value.len() <= MAX_EXCLUSIVE_NAME_BYTES && !value.contains(char::is_control) {
        true => Ok(value.to_owned()),
        false => Err(format!(
            "the name for `exclusive` is longer than {MAX_EXCLUSIVE_NAME_BYTES} bytes or holds control characters"
        )),
    }
}

/// What stops when a script fails, in headers and manifests.
pub fn fatal(value: &str) -> Result<Fatal, String> {
    match value {
        "run" => Ok(Fatal::Run),
        "agent" => Ok(Fatal::Agent),
        _ => Err(format!("{} is neither `run` nor `agent` for `fatal`", quoted(value))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(kind: Kind, text: &str) -> Header {
        parse(kind, text).unwrap().0
    }

    #[test]
    fn all_settings_are_read() {
        let text = "#!/bin/bash\r\n# raymond: timeout=30s max_time=10m,retry=3, backoff=5s\r\n\
                    \r\n  #raymond:\tmax_visits=100 fatal=agent exclusive=git\r\necho hi\r\n";
        let expected = Header {
            timeout: Some(Limit::After(Duration::from_secs(30))),
            max_time: Some(Limit::After(Duration::from_secs(600))),
            retry: 3,
            backoff: Some(Duration::from_secs(5)),
            max_visits: Some(100),
            fatal: Some(Fatal::Agent),
            exclusive: Some("git".to_owned()),
        };
        assert_eq!(parse(Kind::Bash, text), Ok((expected, Vec::new())));
    }

    #[test]
    fn every_kind_has_its_comments() {
        let cases = [
            (Kind::Bash, "# raymond: retry=1", 1),
            (Kind::Bash, "\u{feff}# raymond: retry=1", 1),
            (Kind::Bash, "// raymond: retry=1", 0),
            (Kind::Bash, "echo # raymond: retry=1", 0),
            (Kind::Bash, "# Raymond: retry=1", 0),
            (Kind::Bash, "# raymond retry=1", 0),
            (Kind::Bash, "# raymond: polls for new issues, with retry", 0),
            (Kind::Python, "# raymond: retry=1", 1),
            (Kind::PowerShell, "# raymond: retry=1", 1),
            (Kind::Node, "// raymond: retry=1", 1),
            (Kind::Node, "//raymond:retry=1", 1),
            (Kind::Node, "# raymond: retry=1", 0),
            (Kind::Batch, "REM raymond: retry=1", 1),
            (Kind::Batch, "@rem raymond: retry=1", 1),
            (Kind::Batch, ":: raymond: retry=1", 1),
            (Kind::Batch, "remraymond: retry=1", 0),
            (Kind::Batch, "# raymond: retry=1", 0),
            (Kind::Batch, "é", 0),
            (Kind::Prompt, "# raymond: retry=1", 0),
        ];
        for (kind, text, retry) in cases {
            assert_eq!(header(kind, text).retry, retry, "{text}");
        }
    }

    #[test]
    fn only_the_first_lines_count() {
        let at = |line: usize| "\n".repeat(line - 1) + "# raymond: retry=1";
        assert_eq!(header(Kind::Bash, &at(MAX_HEADER_LINES)).retry, 1);
        assert_eq!(header(Kind::Bash, &at(MAX_HEADER_LINES + 1)).retry, 0);
    }

    #[test]
    fn zero_is_no_limit() {
        let unlimited =
            Header { timeout: Some(Limit::Unlimited), max_time: Some(Limit::Unlimited), ..Header::default() };
        assert_eq!(header(Kind::Bash, "# raymond: timeout=0 max_time=0 retry=0"), unlimited);
    }

    #[test]
    fn errors_have_a_place() {
        let cases = [
            ("# raymond: retry=x", 12, "`x` is not a whole number from 0 to 1000 for `retry`"),
            ("# raymond: retry=1001", 12, "`1001` is not a whole number from 0 to 1000 for `retry`"),
            ("# raymond: retry=+1", 12, "`+1` is not a whole number from 0 to 1000 for `retry`"),
            ("# raymond: retry=1 retry=1", 20, "`retry` is set twice"),
            ("# raymond: ü, retry=", 15, "`retry` has no value; write it as `key=value` without spaces"),
            (
                "# raymond: timeout = 30s",
                12,
                "`timeout` has no value; write it as `key=value` without spaces",
            ),
            (
                "# raymond: exclusive=a\u{7}",
                12,
                "the name for `exclusive` is longer than 64 bytes or holds control characters",
            ),
            ("# raymond: exclusive=", 12, "`exclusive` has no value; write it as `key=value` without spaces"),
            ("# raymond: fatal=all", 12, "`all` is neither `run` nor `agent` for `fatal`"),
            ("# raymond: max_visits=0", 12, "`0` is not a whole number from 1 on for `max_visits`"),
        ];
        for (line, column, message) in cases {
            let error = parse(Kind::Bash, &format!("\n{line}\r\n")).unwrap_err();
            assert_eq!((error.position, error.message.as_str()), (Position { line: 2, column }, message));
            assert_eq!(error.source_line, line);
        }
        let error = parse(Kind::Node, "// raymond: timeout=5").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1, column 13: `5` has no unit; write `5s` for 5 seconds, in `// raymond: timeout=5`"
        );
        assert!(parse(Kind::Bash, "# raymond: retry=1\n# raymond: retry=2").is_err());
    }

    #[test]
    fn settings_can_be_given_one_by_one() {
        let mut header = Header::default();
        assert_eq!(header.set("retry", "2"), Ok(true));
        assert_eq!(header.set("colour", "red"), Ok(false));
        assert!(header.set("retry", "many").is_err());
        assert_eq!(header, Header { retry: 2, ..Header::default() });
    }

    #[test]
    fn unknown_settings_are_warned_of() {
        let (header, warnings) = parse(Kind::Bash, "# raymond: timeuot=5s retry=2 colour=red").unwrap();
        assert_eq!(header.retry, 2);
        let warnings: Vec<String> = warnings.iter().map(SourceWarning::to_string).collect();
        assert_eq!(
            warnings,
            [
                "line 1, column 12: unknown setting `timeuot` is ignored; did you mean `timeout`?",
                "line 1, column 31: unknown setting `colour` is ignored",
            ]
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).*", settings in "([a-z_]{0,8}|timeout|retry)(=|,| |\\PC){0,3}[0-9a-z]{0,9}") {
            for kind in Kind::ALL {
                let _ = parse(kind, &text);
                let _ = parse(kind, &format!("# raymond: {settings}"));
                let _ = parse(kind, &format!("REM raymond:{settings}{text}"));
            }
        }
    }
}
