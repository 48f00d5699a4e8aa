//! Writing YAML: texts as blocks that people can read and edit, everything else on one line.

use raymond_core::frontmatter::yaml::{Field, Node, Value};

/// `key: value` lines; nested values are in the one-line form.
pub fn keys_and_values(fields: &[Field]) -> String {
    fields.iter().map(|field| format!("{}: {}\n", key(&field.key), one_line(&field.node))).collect()
}

/// A key as it is written before the colon.
pub fn key(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { quoted(name) }
}

/// A value in one line.
pub fn one_line(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) if number.is_nan() => ".nan".to_owned(),
        Value::Float(number) if number.is_infinite() => {
            if *number > 0.0 {
                ".inf".to_owned()
            } else {
                "-.inf".to_owned()
            }
        }
        Value::Float(number) => format!("{number:?}"),
        Value::Text(text) => quoted(text),
        Value::List(nodes) => format!("[{}]", nodes.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        Value::Map(fields) => {
            let field = |field: &Field| format!("{}: {}", key(&field.key), one_line(&field.node));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text as a block below its key, which is indented by `indent`; `None` if a block cannot hold it.
pub fn block(text: &str, indent: usize) -> Option<String> {
    if text.is_empty() || !text.chars().all(fits_in_block) {
        return None;
    }
    let body = text.trim_end_matches('\n');
    let ending = match (body.is_empty(), text.len() - body.len()) {
        (true, _) | (_, 2..) => "+",
        (_, 1) => "",
        (_, 0) => "-",
    };
    // If the text begins with white space, the reader cannot find out the indentation from it.
    let indicator = if text.starts_with([' ', '\n', '\t']) { "2" } else { "" };
    let mut block = format!("|{indicator}{ending}\n");
    for line in text.lines() {
        if !line.is_empty() {
            block.extend(std::iter::repeat_n(' ', indent + 2));
            block.push_str(line);
        }
        block.push('\n');
    }
    Some(block)
}

/// A text in double quotes, which can hold everything.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other if fits_in_block(other) => quoted.push(other),
            other => quoted.push_str(&format!("\\U{:08x}", u32::from(other))),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a block can hold a character as it is; to YAML the others are line breaks, or forbidden.
fn fits_in_block(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        '\u{85}' | '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        other => !other.is_control(),
    }
}

/// Whether a word needs no quotes.
fn is_plain(word: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let starts = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let means_something = ["null", "true", "false"].iter().any(|known| word.eq_ignore_ascii_case(known));
    let is_number = word.parse::<f64>().is_ok() || word.starts_with("0x") || word.starts_with("0o");
    word.bytes().all(is_word) && word.as_bytes().first().is_some_and(starts) && !means_something && !is_number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use raymond_core::frontmatter::yaml::parse;

    use super::*;

    fn read_back(document: &str) -> (String, String) {
        let Value::Map(fields) =
            parse(document).unwrap_or_else(|fault| panic!("{fault:?}: {document}")).value
        else {
            panic!("not a map: {document}");
        };
        let Value::Text(text) = &fields[0].node.value else { panic!("not a text: {document}") };
        (fields[0].key.clone(), text.clone())
    }

    #[test]
    fn texts_of_all_endings_are_blocks() {
        for text in [
            "a",
            "a\n",
            "a\n\n",
            "\n",
            "\n\n",
            " a\n b",
            "\na",
            "\ta",
            "a\n\n\nb\n",
            "a\n  \n",
            "#a",
            "---\n",
        ] {
            let document = format!("k: {}", block(text, 0).unwrap());
            assert_eq!(read_back(&document).1, text, "{document}");
        }
        assert_eq!(block("a\r\n", 0), None);
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in "(?s).{0,40}", word in "\\PC{1,12}") {
            let document = format!("{}: {}\n", key(&word), quoted(&text));
            prop_assert_eq!(read_back(&document), (word.clone(), text.clone()));
            if let Some(block) = block(&text, 0) {
                let document = format!("{}: {block}", key(&word));
                prop_assert_eq!(read_back(&document), (word, text));
            }
        }
    }
}
