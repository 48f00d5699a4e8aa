//! What a worker is called for people.

use std::collections::BTreeMap;

use crate::limits::MAX_TITLE_CHARS;
use crate::variable::looks_secret;

/// The attribute that names a worker. It is a variable like any other.
const TITLE: &str = "title";

/// How much of a value is looked at.
const MOST_READ_CHARS: usize = 8 * MAX_TITLE_CHARS;

/// The title of a worker with these attributes: its `title`, or else the values of all of them, in the order of their
/// names. Nothing if they say nothing. It is made of the attributes whenever it is needed, so that it takes no memory.
///
/// Values of variables that look secret are left out.
pub fn title(attributes: &BTreeMap<String, String>) -> Option<String> {
    let given = attributes.get(TITLE).and_then(|text| brief([text.as_str()].into_iter()));
    given.or_else(|| {
        let told = attributes.iter().filter(|(name, _)| !looks_secret(name));
        brief(told.map(|(_, value)| value.as_str()))
    })
}

/// The texts on one line, without control characters, cut to the length of a title.
fn brief<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut title = String::new();
    for text in texts {
        let text = beginning(text.trim_start());
        let mut separator = if title.is_empty() { "" } else { ", " };
        for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty())
        {
            title.push_str(separator);
            // Of a very long word no more is needed than what shows that it is too long.
            title.extend(word.chars().take(MAX_TITLE_CHARS + 1));
            if let Some((end, _)) = title.char_indices().nth(MAX_TITLE_CHARS) {
                return Some(cut(&title[..end]));
            }
            separator = " ";
        }
    }
    (!title.is_empty()).then_some(title)
}

/// As much of a text as a title can need. Values may be long, and the live view makes titles after every commit.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(MOST_READ_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// A title that is too long, with a mark in place of its last character.
fn cut(title: &str) -> String {
    let end = title.char_indices().next_back().map_or(0, |(last, _)| last);
    format!("{}…", title[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(attributes: &[(&str, &str)]) -> Option<String> {
        title(&attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_worker_is_called_by_its_title_or_by_its_values() {
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[("title", " Mend\n the  login "), ("file", "a.rs")]).as_deref(),
            Some("Mend the login")
        );
        assert_eq!(of(&[("title", " \t"), ("file", "a.rs"), ("by", "me")]).as_deref(), Some("me, a.rs"));
        assert_eq!(of(&[("a", ""), ("b", "x"), ("c", " ")]).as_deref(), Some("x"));
        assert_eq!(of(&[("api_key", "sesame"), ("n", "1")]).as_deref(), Some("1"));
        assert_eq!(of(&[("title", "a\x1b[31mred\x07")]).as_deref(), Some("a [31mred"));
    }

    #[test]
    fn a_title_has_at_most_sixty_characters() {
        let most = "é".repeat(60);
        assert_eq!(of(&[("title", &most)]), Some(most.clone()));
        let cut = of(&[("title", &format!("{most}é"))]).unwrap();
        assert_eq!((cut.chars().count(), cut.chars().last()), (60, Some('…')));
        let words = of(&[("a", &"word ".repeat(100)), ("b", "x")]).unwrap();
        assert!(words.chars().count() <= 60 && words.ends_with("word…"), "{words}");
        let long = of(&[("a", &"x".repeat(90_000)), ("b", &"y".repeat(90_000))]).unwrap();
        assert_eq!(long.chars().count(), 60);
    }
}
