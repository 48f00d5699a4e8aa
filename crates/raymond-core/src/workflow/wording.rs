//! How error messages quote names, and suggest what was probably meant.
//!
//! Names may come from a model, so quoted text is clipped and cannot control a terminal, and the search for similar
//! names has a limited cost per candidate.

/// How many characters of a wrong text a message shows.
const MAX_QUOTED_CHARS: usize = 80;

/// Names longer than this are not typing errors; nothing is suggested for them.
const MAX_COMPARED_CHARS: usize = 80;

/// More suggestions than this do not help.
const MAX_SUGGESTIONS: usize = 3;

/// The text in backticks, clipped, with control characters escaped.
pub fn quoted(text: &str) -> String {
    format!("`{}`", clipped(text))
}

/// The text as `quoted` shows it, without the backticks.
pub(crate) fn clipped(text: &str) -> String {
    clipped_to(MAX_QUOTED_CHARS, text)
}

/// The text up to so many characters, with control characters escaped.
pub fn clipped_to(length: usize, text: &str) -> String {
    let mut characters = text.chars();
    let mut shown = String::new();
    for character in characters.by_ref().take(length) {
        if controls_a_terminal(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Control characters move the cursor; bidirectional marks can make a name look like another one.
fn controls_a_terminal(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `` `A`, `B` and `C` ``, each clipped.
pub fn quoted_list(items: &[impl AsRef<str>], conjunction: &str) -> String {
    let Some((last, rest)) = items.split_last() else {
        return String::new();
    };
    let last = quoted(last.as_ref());
    if rest.is_empty() {
        return last;
    }
    let rest: Vec<String> = rest.iter().map(|item| quoted(item.as_ref())).collect();
    format!("{} {conjunction} {last}", rest.join(", "))
}

/// `` ; did you mean `A` or `B`? `` to append to a message, or nothing.
pub fn did_you_mean(suggestions: &[impl AsRef<str>]) -> String {
    if suggestions.is_empty() {
        return String::new();
    }
    format!("; did you mean {}?", quoted_list(suggestions, "or"))
}

/// The few candidates that `wanted` is most likely a misspelling of.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let Some(wanted) = folded(wanted) else {
        return Vec::new();
    };
    let limit = ((wanted.chars().count() + 1) / 3).clamp(1, 3);
    let mut found: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| Some((distance_within(limit, &wanted, &folded(candidate)?)?, candidate)))
        .collect();
    found.sort();
    // Names that are less similar than the best are left out.
    let best = found.first().map(|(distance, _)| *distance);
    found.retain(|(distance, _)| Some(*distance) == best);
    found.truncate(MAX_SUGGESTIONS);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Names are compared without case, because wrong case is the most common mistake.
fn folded(name: &str) -> Option<String> {
    // A character has at most four bytes, so this check does not have to read the text.
    if name.is_empty() || name.len() > MAX_COMPARED_CHARS * 4 {
        return None;
    }
    let folded = name.to_lowercase();
    (folded.chars().count() <= MAX_COMPARED_CHARS).then_some(folded)
}

/// The edit distance, where two swapped neighbours count as one edit; `None` if it exceeds the limit.
fn distance_within(limit: usize, left: &str, right: &str) -> Option<usize> {
    let (left, right) = without_common_ends(left, right);
    let lengths = left.chars().count().abs_diff(right.chars().count());
    (lengths <= limit).then(|| strsim::osa_distance(left, right)).filter(|distance| *distance <= limit)
}

/// Removes the common prefix and suffix, so that thousands of long names with one prefix are cheap to compare.
fn without_common_ends<'a>(left: &'a str, right: &'a str) -> (&'a str, &'a str) {
    let common = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(a, b)| a == b).map(|(letter, _)| letter.len_utf8()).sum()
    };
    let prefix = common(&mut left.chars().zip(right.chars()));
    let (left, right) = (&left[prefix..], &right[prefix..]);
    let suffix = common(&mut left.chars().rev().zip(right.chars().rev()));
    (&left[..left.len() - suffix], &right[..right.len() - suffix])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_clips_and_escapes() {
        assert_eq!(quoted("A\u{1b}[2J\0\n"), r"`A\u{1b}[2J\u{0}\n`");
        assert_eq!(quoted("\u{202e}gnp"), r"`\u{202e}gnp`");
        assert_eq!(quoted(&"ü".repeat(81)), format!("`{}…`", "ü".repeat(80)));
        assert_eq!(quoted(&"ü".repeat(80)), format!("`{}`", "ü".repeat(80)));
    }

    #[test]
    fn near_misses() {
        let names = ["REVIEW", "REVISE", "PLAN", "1_START", "BUILD"];
        let cases: [(&str, &[&str]); 8] = [
            ("REVEIW", &["REVIEW"]),
            ("review", &["REVIEW"]),
            ("PLNA", &["PLAN"]),
            ("PLA", &["PLAN"]),
            ("START", &["1_START"]),
            ("XXXXX", &[]),
            ("", &[]),
            ("BUILDS", &["BUILD"]),
        ];
        for (wanted, expected) in cases {
            assert_eq!(nearest(wanted, names), expected, "{wanted}");
        }
        assert!(nearest(&"A".repeat(1_000_000), names).is_empty());
    }

    #[test]
    fn lists_read_like_sentences() {
        assert_eq!(quoted_list(&["A"], "and"), "`A`");
        assert_eq!(quoted_list(&["A", "B", "C"], "and"), "`A`, `B` and `C`");
        assert_eq!(did_you_mean(&["A", "B"]), "; did you mean `A` or `B`?");
    }
}
