//! The text that a script prints, as far as it can be read without running it.
//!
//! It reads `echo`, `printf` and `cat <<EOF` of shell scripts, `echo` of batch files, and the strings in `print(…)`,
//! `console.log(…)`, `Write-Output` and the like of Python, Node and PowerShell. What is computed becomes a placeholder. Text that goes to a file or to stderr is left out.

mod windows;

use crate::tag::{Found, locate};
use crate::workflow::Kind;

/// Text that a script prints, with the place in the script of each of its bytes.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) text: String,
    places: Vec<usize>,
}

impl Printed {
    /// The printed text of a script; `None` for kinds of states that are not read.
    pub(super) fn of(kind: Kind, script: &str) -> Option<Printed> {
        let mut reader = Reader { script, at: 0, printed: Printed::default() };
        match kind {
            Kind::Bash => reader.read_shell(),
            Kind::Python => reader.read_calls(&["print(", "sys.stdout.write("], "#"),
            Kind::Node => reader.read_calls(&["console.log(", "process.stdout.write("], "//"),
            Kind::Batch => reader.read_batch(),
            Kind::PowerShell => reader.read_powershell(),
            Kind::Prompt => return None,
        }
        Some(reader.printed)
    }

    pub(super) fn locate(&self) -> Found {
        locate(&self.text)
    }

    /// The range of the script from which a range of the printed text comes.
    pub(super) fn range_in_script(&self, range: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let place = |at: usize| self.places.get(at).copied().unwrap_or_default();
        place(range.start)..place(range.end.saturating_sub(1).max(range.start)) + 1
    }

    fn push(&mut self, letter: char, place: usize) {
        self.text.push(letter);
        self.places.extend((0..letter.len_utf8()).map(|byte| place + byte));
    }

    /// Adds something that is computed; a value that is computed as a whole may bring its own quotes.
    fn push_computed(&mut self, place: usize, may_be_quoted: bool) {
        let shown = if may_be_quoted && self.text.ends_with('=') { "\"x\"" } else { "x" };
        shown.chars().for_each(|letter| self.push(letter, place));
    }

    fn truncate(&mut self, length: usize) {
        self.text.truncate(length);
        self.places.truncate(length);
    }
}

struct Reader<'s> {
    script: &'s str,
    at: usize,
    printed: Printed,
}

/// A here-document that begins after the current line.
struct Heredoc {
    end: String,
    is_literal: bool,
    strips_tabs: bool,
    is_printed: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &str {
        self.script.get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    fn skip_to(&mut self, end: &str) {
        self.at += self.rest().find(end).unwrap_or(self.rest().len());
    }

    // Shell scripts.

    fn read_shell(&mut self) {
        let mut heredocs = Vec::new();
        while self.peek().is_some() {
            self.read_command(&mut heredocs);
            if self.next() == Some('\n') {
                for heredoc in heredocs.drain(..) {
                    self.read_heredoc(&heredoc);
                }
            }
        }
    }

    /// Reads one simple command, up to the character that ends it.
    fn read_command(&mut self, heredocs: &mut Vec<Heredoc>) {
        let before = self.printed.text.len();
        let mut words: Vec<String> = Vec::new();
        let mut goes_elsewhere = false;
        let first_heredoc = heredocs.len();
        loop {
            while self.rest().starts_with([' ', '\t']) {
                self.next();
            }
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | '(' | ')') => break,
                Some('#') => self.skip_to("\n"),
                Some('<') if self.rest().starts_with("<<") && !self.rest().starts_with("<<<") => {
                    heredocs.extend(self.read_heredoc_start());
                }
                Some('>') => {
                    let is_stderr = words.last().is_some_and(|word| word == "2");
                    goes_elsewhere |= !is_stderr;
                    self.next();
                    if self.peek() == Some('&') {
                        self.next();
                    }
                }
                Some('<') => {
                    self.next();
                }
                Some(_) => {
                    let is_printed = matches!(words.first().map(String::as_str), Some("echo" | "printf"));
                    let word = self.read_word(is_printed);
                    // A reserved word is followed by a command.
                    let is_reserved =
                        matches!(word.as_str(), "do" | "then" | "else" | "{" | "!" | "if" | "while");
                    if !(words.is_empty() && is_reserved) {
                        words.push(word);
                    }
                }
            }
        }
        if goes_elsewhere {
            self.printed.truncate(before);
        } else if self.printed.text.len() > before {
            self.printed.push('\n', self.at);
        }
        let is_cat = words.first().is_some_and(|word| word == "cat");
        for heredoc in heredocs.iter_mut().skip(first_heredoc) {
            heredoc.is_printed = is_cat && !goes_elsewhere;
        }
    }

    /// Reads one word with its quotes, and adds what it stands for to the printed text.
    fn read_word(&mut self, is_printed: bool) -> String {
        let before = self.printed.text.len();
        while let Some(letter) = self.peek() {
            let place = self.at;
            match letter {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    self.next();
                    while let Some(letter) = self.peek().filter(|letter| *letter != '\'') {
                        self.printed.push(letter, self.at);
                        self.next();
                    }
                    self.next();
                }
                '"' => {
                    self.next();
                    self.read_expanded(Some('"'));
                }
                '\\' => {
                    self.next();
                    if let Some(letter) = self.next() {
                        self.printed.push(letter, place);
                    }
                }
                '$' | '`' => self.read_expansion(),
                _ => {
                    self.printed.push(letter, place);
                    self.next();
                }
            }
        }
        let word = self.printed.text.get(before..).unwrap_or_default().to_owned();
        if is_printed {
            self.printed.push(' ', self.at);
        } else {
            self.printed.truncate(before);
        }
        word
    }

    /// Reads text in which variables are expanded, up to a quote or to the end.
    fn read_expanded(&mut self, end: Option<char>) {
        while let Some(letter) = self.peek() {
            let place = self.at;
            match letter {
                _ if Some(letter) == end => {
                    self.next();
                    return;
                }
                '\\' => {
                    self.next();
                    match self.peek() {
                        Some(escaped @ ('$' | '`' | '\\' | '\n')) => self.printed.push(escaped, place),
                        Some('"') if end.is_some() => self.printed.push('"', place),
                        _ => {
                            self.printed.push('\\', place);
                            continue;
                        }
                    }
                    self.next();
                }
                '$' | '`' => self.read_expansion(),
                _ => {
                    self.printed.push(letter, place);
                    self.next();
                }
            }
        }
    }

    /// Skips `$name`, `${…}`, `$(…)` or a command in backticks.
    fn read_expansion(&mut self) {
        let place = self.at;
        if self.next() == Some('`') {
            self.skip_to("`");
            self.next();
            return self.printed.push_computed(place, true);
        }
        match self.peek() {
            Some('(') => {
                self.skip_nested('(', ')');
                self.printed.push_computed(place, true);
            }
            Some('{') => {
                self.skip_nested('{', '}');
                let is_quoted = self.script.get(place..self.at).is_some_and(|text| text.contains('@'));
                self.printed.push_computed(place, is_quoted);
            }
            Some('\'') => {
                self.next();
                self.skip_to("'");
                self.next();
                self.printed.push_computed(place, true);
            }
            Some(first) if first.is_ascii_alphanumeric() || "_?#@*!-$".contains(first) => {
                self.next();
                while first.is_ascii_alphabetic()
                    && self.peek().is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_')
                {
                    self.next();
                }
                self.printed.push_computed(place, false);
            }
            _ => self.printed.push('$', place),
        }
    }

    /// Skips brackets with what is in them; quotes in them are respected.
    fn skip_nested(&mut self, open: char, close: char) {
        let mut depth = 0_usize;
        while let Some(letter) = self.next() {
            match letter {
                '\\' => {
                    self.next();
                }
                '\'' | '"' => self.skip_quoted(letter),
                _ if letter == open => depth += 1,
                _ if letter == close => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    /// Skips the rest of a quoted text.
    fn skip_quoted(&mut self, quote: char) {
        while let Some(letter) = self.next() {
            match letter {
                '\\' if quote != '\'' => {
                    self.next();
                }
                '$' if quote == '"' && self.peek() == Some('(') => self.skip_nested('(', ')'),
                _ if letter == quote => return,
                _ => {}
            }
        }
    }

    fn read_heredoc_start(&mut self) -> Option<Heredoc> {
        self.at += 2;
        let strips_tabs = self.peek() == Some('-');
        if strips_tabs {
            self.next();
        }
        while self.peek() == Some(' ') {
            self.next();
        }
        let start = self.at;
        let end = self.read_word(false);
        let is_literal = self.script.get(start..self.at)?.contains(['\'', '"', '\\']);
        (!end.is_empty()).then_some(Heredoc { end, is_literal, strips_tabs, is_printed: false })
    }

    fn read_heredoc(&mut self, heredoc: &Heredoc) {
        let start = self.at;
        let mut end = self.script.len();
        while self.at < self.script.len() {
            let line_start = self.at;
            self.skip_to("\n");
            let line = self.script.get(line_start..self.at).unwrap_or_default();
            let line = if heredoc.strips_tabs { line.trim_start_matches('\t') } else { line };
            self.next();
            if line.trim_end_matches('\r') == heredoc.end {
                end = line_start;
                break;
            }
        }
        if !heredoc.is_printed {
            return;
        }
        let after = self.at;
        let body = self.script.get(..end).unwrap_or_default();
        let mut reader = Reader { script: body, at: start, printed: std::mem::take(&mut self.printed) };
        if heredoc.is_literal {
            while let Some(letter) = reader.peek() {
                reader.printed.push(letter, reader.at);
                reader.next();
            }
        } else {
            reader.read_expanded(None);
        }
        self.printed = reader.printed;
        self.at = after;
    }

    // Python and Node.

    fn read_calls(&mut self, calls: &[&str], comment: &str) {
        while let Some(letter) = self.peek() {
            let before = self.script.get(..self.at).unwrap_or_default();
            let is_word_start =
                !before.ends_with(|letter: char| letter.is_alphanumeric() || "_.".contains(letter));
            if self.rest().starts_with(comment) {
                self.skip_to("\n");
            } else if "'\"`".contains(letter) {
                let before = self.printed.text.len();
                self.read_string();
                self.printed.truncate(before);
            } else if let Some(call) =
                calls.iter().find(|call| is_word_start && self.rest().starts_with(**call))
            {
                self.at += call.len();
                self.read_arguments();
            } else {
                self.next();
            }
        }
    }

    /// Reads the arguments of a call: its strings, with a placeholder for everything else.
    fn read_arguments(&mut self) {
        let before = self.printed.text.len();
        let (start, mut is_code_pending) = (self.at, false);
        while let Some(letter) = self.peek() {
            let place = self.at;
            match letter {
                ')' => break,
                '\'' | '"' | '`' => {
                    if std::mem::take(&mut is_code_pending) {
                        self.printed.push_computed(place, true);
                    }
                    self.read_string();
                }
                '(' => self.skip_nested('(', ')'),
                '[' => self.skip_nested('[', ']'),
                ',' => {
                    self.printed.push(' ', place);
                    self.next();
                }
                _ => {
                    // The prefix of a string is not code.
                    let is_prefix = "fFrRbBuU".contains(letter)
                        && self
                            .rest()
                            .trim_start_matches(|letter| "fFrRbBuU".contains(letter))
                            .starts_with(['\'', '"']);
                    is_code_pending |= !letter.is_whitespace() && !is_prefix;
                    self.next();
                }
            }
        }
        self.next();
        let arguments = self.script.get(start..self.at).unwrap_or_default();
        if arguments.contains("file=") {
            self.printed.truncate(before);
        } else {
            self.printed.push('\n', self.at);
        }
    }

    /// Reads a string, in which `{…}` of Python's f-strings and `${…}` of Node's templates are computed.
    fn read_string(&mut self) {
        let before = self.script.get(..self.at).unwrap_or_default();
        let prefix_start = before.trim_end_matches(|letter| "fFrRbBuU".contains(letter)).len();
        let prefix = before.get(prefix_start..).unwrap_or_default();
        let Some(quote) = self.peek() else { return };
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        let end = if quote != '`' && self.rest().starts_with(&triple) { triple } else { quote.to_string() };
        self.at += end.len();
        let is_raw = prefix.contains(['r', 'R']);
        let is_formatted = prefix.contains(['f', 'F']);
        while let Some(letter) = self.peek() {
            let place = self.at;
            if self.rest().starts_with(&end) {
                self.at += end.len();
                return;
            }
            if letter == '\n' && end.len() == 1 && quote != '`' {
                return;
            }
            if letter == '\\' && !is_raw {
                self.next();
                let escaped = self.next().unwrap_or('\\');
                self.printed.push(if escaped == 'n' { '\n' } else { escaped }, place);
            } else if is_formatted && letter == '{' && !self.rest().starts_with("{{") {
                self.skip_nested('{', '}');
                self.printed.push_computed(place, true);
            } else if quote == '`' && self.rest().starts_with("${") {
                self.next();
                self.skip_nested('{', '}');
                self.printed.push_computed(place, true);
            } else {
                self.printed.push(letter, place);
                self.next();
            }
        }
    }
}

#[cfg(test)]
mod tests;
