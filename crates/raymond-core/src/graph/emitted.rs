//! Finds calls of `raymond emit` in scripts, and the tags that they print. In shell scripts a call is a command; in Python and Node
//! it is a list of words (`[raymond, "emit", "goto", "NEXT"]`). The lines of `emit --json` are objects in the script's text.

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

/// Reads calls of `emit` in Python and Node, where the words are items of a list and `"emit"` is one of them.
pub(super) fn emitted_by_list(text: &str) -> Vec<Located> {
    let calls = ["\"emit\"", "'emit'"].into_iter().flat_map(|word| text.match_indices(word));
    let tag = |(at, word): (usize, &str)| {
        let words: Vec<Word> = Items { text, at: at + word.len() }.collect();
        let start = words.first()?.range.start;
        let found = tag_of(text, start, words)?;
        Some(Located { range: at..found.range.end, ..found })
    };
    calls.filter_map(tag).collect()
}

/// The items of a list behind one of them, up to the end of the list.
struct Items<'t> {
    text: &'t str,
    at: usize,
}

impl Iterator for Items<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        let mut reader = Literals { text: self.text, at: self.at };
        reader.skip_blanks();
        if reader.next()? != ',' {
            return None;
        }
        reader.skip_blanks();
        if matches!(reader.peek()?, ']' | ')') {
            return None;
        }
        let value = reader.value()?;
        self.at = reader.at;
        Some(value)
    }
}

/// The most objects of a script that are read, so that the time does not grow with the square of its length.
const MAX_OBJECTS: usize = 1000;

/// The tags of objects such as `{"tag": "fork", "target": "WORK"}`, which `raymond emit --json` reads.
pub(super) fn emitted_as_json(text: &str) -> Vec<Located> {
    if !(text.contains("emit") && text.contains("--json")) {
        return Vec::new();
    }
    let objects = text.match_indices('{').take(MAX_OBJECTS);
    objects.filter_map(|(at, _)| tag_of_object(at, &Literals { text, at }.object()?)).collect()
}

/// The fields of an object, and where it ends.
struct Object {
    fields: Vec<(Word, Field)>,
    end: usize,
}

enum Field {
    Value(Word),
    Object(Object),
}

fn tag_of_object(start: usize, object: &Object) -> Option<Located> {
    let value = |wanted: &str| {
        object.fields.iter().find_map(|(name, field)| match field {
            Field::Value(value) if name.text == wanted => Some(value),
            _ => None,
        })
    };
    let name = TagName::from_name(&value("tag")?.text)?;
    let takes_text = matches!(name.facts().content, Content::Text { .. });
    let content = value(if takes_text { "text" } else { "target" })?;
    let mut tag = Tag { name, attributes: Vec::new(), content: content.text.clone() };
    let mut places = Vec::new();
    let mut add = |name: &Word, value: &Word| {
        tag.attributes.push((name.text.clone(), value.text.clone()));
        places.push((name.range.clone(), value.range.clone()));
    };
    for (name, field) in &object.fields {
        match field {
            Field::Value(value) if OPTIONS.contains(&name.text.as_str()) => add(name, value),
            Field::Object(attributes) if name.text == "attributes" => {
                for (name, field) in &attributes.fields {
                    if let Field::Value(value) = field {
                        add(name, value);
                    }
                }
            }
            Field::Value(_) | Field::Object(_) => {}
        }
    }
    Some(Located { tag, range: start..object.end, content: content.range.clone(), attributes: places })
}

/// Reads the literals that JSON, Python, Node and `jq` have in common, also with escaped quotes, as in a quoted text.
struct Literals<'t> {
    text: &'t str,
    at: usize,
}

impl Literals<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    /// White space, and the backslash before a quote.
    fn skip_blanks(&mut self) {
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start().len();
        let is_escape = rest[blanks..].starts_with("\\\"") || rest[blanks..].starts_with("\\'");
        self.at += blanks + usize::from(is_escape);
    }

    fn object(mut self) -> Option<Object> {
        self.read_object()
    }

    fn read_object(&mut self) -> Option<Object> {
        if self.next()? != '{' {
            return None;
        }
        let mut fields = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek()? {
                '}' => {
                    self.next();
                    return Some(Object { fields, end: self.at });
                }
                ',' => drop(self.next()),
                _ => {
                    let name = self.name()?;
                    self.skip_blanks();
                    if self.next()? != ':' {
                        return None;
                    }
                    self.skip_blanks();
                    let field = match (self.peek()?, name.text.as_str()) {
                        ('{', "attributes") => Field::Object(self.read_object()?),
                        _ => Field::Value(self.value()?),
                    };
                    fields.push((name, field));
                }
            }
        }
    }

    fn name(&mut self) -> Option<Word> {
        if matches!(self.peek()?, '"' | '\'') {
            return self.literal();
        }
        let start = self.at;
        while self.peek().is_some_and(|letter| letter.is_alphanumeric() || "_-".contains(letter)) {
            self.next();
        }
        let text = self.text[start..self.at].to_owned();
        (!text.is_empty()).then_some(Word { text, range: start..self.at })
    }

    /// A literal, or in braces an expression whose value is not known.
    fn value(&mut self) -> Option<Word> {
        let start = self.at;
        let is_prefix = |letter: char| "fFrRbBuU".contains(letter);
        let prefix = self.rest().len() - self.rest().trim_start_matches(is_prefix).len();
        let is_literal = self.rest()[prefix..].starts_with(['"', '\'', '`']);
        if is_literal {
            self.at += prefix;
            let literal = self.literal()?;
            let after = self.at;
            self.skip_blanks();
            if matches!(self.peek(), None | Some(',' | '}' | ']' | ')')) {
                self.at = after;
                return Some(literal);
            }
        }
        self.at = start;
        self.skip_expression();
        let written = self.text[start..self.at].trim_end();
        (!written.is_empty())
            .then(|| Word { text: format!("{{{written}}}"), range: start..start + written.len() })
    }

    /// A text in quotes, without them. In a quoted text they are escaped.
    fn literal(&mut self) -> Option<Word> {
        let quote = self.next()?;
        let start = self.at;
        let is_escaped = self.text[..start].ends_with(&format!("\\{quote}"));
        let mut text = String::new();
        loop {
            let end = self.at;
            match self.next()? {
                '\n' if quote != '`' => return None,
                '\\' if is_escaped && self.peek() == Some(quote) => {
                    self.next();
                    return Some(Word { text, range: start..end });
                }
                '\\' if !is_escaped => text.extend(self.next()),
                letter if letter == quote => {
                    return Some(Word { text, range: start..end });
                }
                letter => text.push(letter),
            }
        }
    }

    /// Up to the comma or bracket that ends it.
    fn skip_expression(&mut self) {
        let mut depth = 0_usize;
        while let Some(letter) = self.peek() {
            match letter {
                ',' if depth == 0 => return,
                ']' | ')' | '}' if depth == 0 => return,
                '[' | '(' | '{' => depth += 1,
                ']' | ')' | '}' => depth -= 1,
                '"' | '\'' | '`' => {
                    if self.literal().is_none() {
                        return;
                    }
                    continue;
                }
                _ => {}
            }
            self.next();
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

    fn shown_all(found: &[Located]) -> Vec<String> {
        let one = |located: &Located| {
            let attributes: String =
                located.tag.attributes.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            format!("{}{attributes}>{}", located.tag.name, located.tag.content)
        };
        found.iter().map(one).collect()
    }

    #[test]
    fn lists_of_words_are_calls_too() {
        for (text, expected) in [
            ("run([\"raymond\", \"emit\", \"goto\", \"NEXT\"])", &["goto>NEXT"][..]),
            (
                "run([env['RAYMOND'], 'emit', 'fork', 'W', f'file={name}', '--next=N'])",
                &["fork file={name} next=N>W"],
            ),
            (
                "execFileSync(process.env.RAYMOND, [\n  \"emit\", \"call\", \"A\",\n  \"--return\", \"B\",\n])",
                &["call return=B>A"],
            ),
            ("run([raymond, 'emit', 'goto', target])", &["goto>{target}"]),
            ("run([raymond, 'emit', 'goto', 'A' + suffix])", &["goto>{'A' + suffix}"]),
            ("run([raymond, 'emit', 'result'], input=text)", &["result>"]),
            ("run([raymond, 'emit', '--json'], input=lines)", &[]),
            ("words = ['emit']", &[]),
            ("'emit', 'gotoo', 'X'", &[]),
        ] {
            assert_eq!(shown_all(&emitted_by_list(text)), expected, "{text}");
        }
    }

    #[test]
    fn objects_are_tags_where_json_is_emitted() {
        for (text, expected) in [
            ("echo '{\"tag\":\"goto\",\"target\":\"NEXT\"}' | raymond emit --json", &["goto>NEXT"][..]),
            (
                "echo \"{\\\"tag\\\":\\\"goto\\\",\\\"target\\\":\\\"$X\\\"}\" | raymond emit --json",
                &["goto>$X"],
            ),
            (
                "jq -c '.[] | {tag:\"fork\",target:\"WORK\",attributes:{file:.name},next:\"N\"}' | raymond emit --json",
                &["fork file={.name} next=N>WORK"],
            ),
            (
                "raymond emit --json <<END\n{\"tag\": \"fork\", \"target\": \"A\"}\n{\"tag\": \"join\", \"target\": \"B\"}\nEND",
                &["fork>A", "join>B"],
            ),
            (
                "t = [{'tag': 'fork', 'target': 'W', 'attributes': {'file': f}} for f in files]\nrun(['raymond', 'emit', '--json'])",
                &["fork file={f}>W"],
            ),
            (
                "const t = { tag: 'call', target: `A`, return: next }; // emit --json",
                &["call return={next}>A"],
            ),
            ("{\"tag\": \"result\", \"text\": \"a, b\"} emit --json", &["result>a, b"]),
            ("{\"tag\": \"goto\", \"target\": \"NEXT\"}", &[]),
            ("emit --json {\"tag\": \"goto\"} {\"tag\": \"goat\", \"target\": \"X\"} {\"tag\"", &[]),
        ] {
            assert_eq!(shown_all(&emitted_as_json(text)), expected, "{text}");
        }
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
        fn any_text_is_read(text in "(raymond emit (goto|fork|result)|'emit', 'goto',|--json|\\{'tag':'goto','target':|[ -~ä\n]{0,12}){0,8}") {
            for located in emitted(&text).into_iter().chain(emitted_by_list(&text)).chain(emitted_as_json(&text)) {
                prop_assert!(text.get(located.range.clone()).is_some());
                prop_assert!(text.get(located.content.clone()).is_some());
                for (name, value) in located.attributes {
                    prop_assert!(text.get(name).is_some() && text.get(value).is_some());
                }
            }
        }
    }
}
