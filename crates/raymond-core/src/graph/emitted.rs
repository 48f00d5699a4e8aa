//! Finds calls of `raymond emit` in shell scripts, and the tags that they print.

use std::ops::Range;

use crate::tag::{Content, Located, Tag, TagName};

/// How a script calls the program.
const PROGRAMS: [&str; 5] = ["raymond", "$RAYMOND", "${RAYMOND}", "\"$RAYMOND\"", "\"${RAYMOND}\""];

/// Options with a value that becomes an attribute.
const OPTIONS: [&str; 6] = ["next", "return", "input", "cd", "delay", "title"];

/// The tags that calls of `raymond emit` in this text print, with the places of the words.
pub(super) fn emitted(text: &str) -> Vec<Located> {
    let calls = text.match_indices("emit").filter(|(at, _)| is_call(text, *at));
    calls.filter_map(|(at, word)| tag_of(text, at, Words { text, at: at + word.len() }.collect())).collect()
}

fn is_call(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t']);
    let program = PROGRAMS.iter().find_map(|program| before.strip_suffix(program));
    let begins =
        |rest: &str| !rest.ends_with(|letter: char| letter.is_alphanumeric() || "_-.".contains(letter));
    before.len() < at
        && program.is_some_and(begins)
        && text[at + "emit".len()..].starts_with([' ', '\t', '\\'])
}

/// A word of a command, without its quotes.
struct Word {
    text: String,
    range: Range<usize>,
}

fn tag_of(text: &str, start: usize, words: Vec<Word>) -> Option<Located> {
    let mut words = words.into_iter();
    let first = words.next()?;
    let name = TagName::from_name(&first.text)?;
    let mut end = first.range.end;
    let mut content: Option<Word> = None;
    let mut attributes = Vec::new();
    let mut places = Vec::new();
    while let Some(word) = words.next() {
        end = word.range.end;
        let option = word.text.strip_prefix("--");
        if let Some((option, value)) = option.map(|option| option.split_once('=').unwrap_or((option, ""))) {
            if !OPTIONS.contains(&option) {
                return None;
            }
            let value = match word.text.contains('=') {
                true => Word { text: value.to_owned(), range: word.range.end - value.len()..word.range.end },
                false => words.next()?,
            };
            end = value.range.end;
            attributes.push((option.to_owned(), value.text));
            places.push((word.range.start..word.range.end, value.range));
        } else if content.is_none() {
            content = Some(word);
        } else {
            let (attribute, value) = word.text.split_once('=')?;
            let name_end = (word.range.start + attribute.len()).min(word.range.end);
            places.push((word.range.start..name_end, (name_end + 1).min(word.range.end)..word.range.end));
            attributes.push((attribute.to_owned(), value.to_owned()));
        }
    }
    let takes_text = matches!(name.facts().content, Content::Text { .. });
    let content = match content {
        Some(word) => word,
        None if takes_text => Word { text: String::new(), range: end..end },
        None => return None,
    };
    let start = text[..start].rfind(['\n', ';']).map_or(0, |at| at + 1);
    let start = start + text[start..].len() - text[start..].trim_start().len();
    let range = start..end;
    Some(Located {
        tag: Tag { name, attributes, content: content.text },
        range,
        content: content.range,
        attributes: places,
    })
}

/// Splits a command into words as a shell does, up to the end of the command. What `$(…)` gives is not known; it stays
/// as it is written, which makes the word one that is not a plain name.
struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl Words<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            let continued = if rest[blanks..].starts_with("\\\n") { 2 } else { 0 };
            self.at += blanks + continued;
            if blanks + continued == 0 {
                return;
            }
        }
    }

    fn take(&mut self) -> Word {
        let start = self.at;
        let mut text = String::new();
        while let Some(letter) = self.rest().chars().next() {
            match letter {
                '\'' => text.push_str(&self.quoted('\'')),
                '"' => text.push_str(&self.quoted('"')),
                '$' if self.rest().starts_with("$(") => text.push_str(&self.substitution()),
                '\\' => {
                    self.at += 1;
                    text.extend(self.step());
                }
                ' ' | '\t' | '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>' | '`' => break,
                _ => text.extend(self.step()),
            }
        }
        Word { text, range: start..self.at }
    }

    fn step(&mut self) -> Option<char> {
        let letter = self.rest().chars().next()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    fn quoted(&mut self, quote: char) -> String {
        self.at += 1;
        let mut text = String::new();
        while let Some(letter) = self.step() {
            match letter {
                _ if letter == quote => break,
                '\\' if quote == '"' => text.extend(self.step()),
                '$' if quote == '"' && self.rest().starts_with('(') => {
                    self.at -= 1;
                    text.push_str(&self.substitution());
                }
                _ => text.push(letter),
            }
        }
        text
    }

    /// From `$(` to its end.
    fn substitution(&mut self) -> String {
        let start = self.at;
        let mut depth = 0;
        while let Some(letter) = self.step() {
            match letter {
                '(' => depth += 1,
                ')' if depth == 1 => break,
                ')' => depth -= 1,
                _ => {}
            }
        }
        self.text[start..self.at].to_owned()
    }
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        loop {
            self.skip_blanks();
            match self.rest().chars().next()? {
                '\n' | ';' | '|' | '&' | '(' | ')' | '`' | '#' => return None,
                // A redirection: its file is not a word of the command.
                '<' | '>' => {
                    while self.rest().starts_with(['<', '>', '&']) {
                        self.at += 1;
                    }
                    self.skip_blanks();
                    if self.take().range.is_empty() {
                        return None;
                    }
                }
                _ => {
                    let word = self.take();
                    let is_descriptor = word.text.bytes().all(|byte| byte.is_ascii_digit())
                        && self.rest().starts_with(['<', '>']);
                    if !is_descriptor {
                        return Some(word);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> Vec<String> {
        let one = |located: &Located| {
            let attributes: String =
                located.tag.attributes.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            format!("{}{attributes}>{}", located.tag.name, located.tag.content)
        };
        emitted(text).iter().map(one).collect()
    }

    #[test]
    fn calls_are_found_as_a_shell_reads_them() {
        let cases: [(&str, &[&str]); 12] = [
            ("raymond emit goto NEXT", &["goto>NEXT"]),
            (
                "x=1; \"$RAYMOND\" emit goto 'NEXT' --input \"$(date; (x))\" | cat",
                &["goto input=$(date; (x))>NEXT"],
            ),
            (
                "raymond emit fork W file=\"$f\" --next=N; raymond emit goto B",
                &["fork file=$f next=N>W", "goto>B"],
            ),
            ("raymond emit result < \"$file\"", &["result>"]),
            ("raymond emit result 2>/dev/null \"a b\"", &["result>a b"]),
            ("$RAYMOND emit call A \\\n  --return B\nraymond emit gotoo X", &["call return=B>A"]),
            ("raymond emit goto $X", &["goto>$X"]),
            ("if x; then raymond emit goto A; else raymond emit goto B; fi", &["goto>A", "goto>B"]),
            ("raymond emit --json < lines", &[]),
            ("myraymond emit goto A; raymond emits goto A; emit goto A", &[]),
            ("raymond emit goto", &[]),
            ("raymond emit join END # then", &["join>END"]),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "ä; raymond emit call \"PLAN\" --return BACK x=1";
        let [call] = emitted(text).try_into().unwrap();
        assert_eq!(&text[call.range.clone()], "raymond emit call \"PLAN\" --return BACK x=1");
        assert_eq!(&text[call.content.clone()], "\"PLAN\"");
        let value = |number: usize| &text[call.attributes[number].1.clone()];
        assert_eq!((value(0), value(1)), ("BACK", "1"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(raymond emit (goto|fork|result)|[ -~ä\n]{0,12}){0,8}") {
            for located in emitted(&text) {
                prop_assert!(text.get(located.range.clone()).is_some());
                prop_assert!(text.get(located.content.clone()).is_some());
                for (name, value) in located.attributes {
                    prop_assert!(text.get(name).is_some() && text.get(value).is_some());
                }
            }
        }
    }
}
