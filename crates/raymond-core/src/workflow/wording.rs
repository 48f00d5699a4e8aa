//! How error messages quote what they complain of, and find what was probably meant.
//!
//! Names may come from a model, so whatever is quoted is clipped and cannot steer a terminal,
//! and looking for near misses costs a bounded amount per candidate.

/// How many characters of an offending text a message shows.
const MAX_QUOTED_CHARS: usize = 80;

/// Names longer than this are garbage rather than slips of the finger; nothing is suggested for them.
const MAX_COMPARED_CHARS: usize = 80;

/// More suggestions than this help nobody.
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
pub(crate) fn clipped_to(length: usize, text: &str) -> String {
    let mut characters = text.chars();
    let mut shown = String::new();
    for character in characters.by_ref().take(length) {
        if steers_a_terminal(character) {
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

/// Control characters move the cursor; the bidirectional marks make a name look like another one.
fn steers_a_terminal(character: char) -> bool {
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
    let limit = ((wanted.len() + 1) / 3).clamp(1, 3);
    let mut found: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| Some((distance_within(limit, &wanted, &folded(candidate)?)?, candidate)))
        .collect();
    found.sort();
    // Anything farther away than the best would only distract from it.
    let best = found.first().map(|(distance, _)| *distance);
    found.retain(|(distance, _)| Some(*distance) == best);
    found.truncate(MAX_SUGGESTIONS);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Names compare without regard to case, because a wrong case is the commonest slip.
fn folded(name: &str) -> Option<Vec<char>> {
    // Four bytes are the longest character, so this bound needs no look at the text.
    if name.is_empty() || name.len() > MAX_COMPARED_CHARS * 4 {
        return None;
    }
    let folded: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    (folded.len() <= MAX_COMPARED_CHARS).then_some(folded)
}

/// The edit distance, or `None` as soon as it is known to exceed the limit.
fn distance_within(limit: usize, left: &[char], right: &[char]) -> Option<usize> {
    if left.len().abs_diff(right.len()) > limit {
        return None;
    }
    let (left, right) = without_common_ends(left, right);
    let mut before_previous: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for (row, &letter) in left.iter().enumerate() {
        let swappable = row.checked_sub(1).and_then(|above| left.get(above)).copied();
        let current = next_row(row, letter, swappable, right, &previous, &before_previous);
        if current.iter().min().is_none_or(|&least| least > limit) {
            return None;
        }
        before_previous = std::mem::replace(&mut previous, current);
    }
    previous.last().copied().filter(|&distance| distance <= limit)
}

/// What differs between the two, so that thousands of long names with one prefix stay cheap to compare.
fn without_common_ends<'a>(left: &'a [char], right: &'a [char]) -> (&'a [char], &'a [char]) {
    let common = |pairs: &mut dyn Iterator<Item = (&char, &char)>| pairs.take_while(|(a, b)| a == b).count();
    let prefix = common(&mut left.iter().zip(right));
    let (left, right) = (left.split_at(prefix).1, right.split_at(prefix).1);
    let suffix = common(&mut left.iter().rev().zip(right.iter().rev()));
    (left.split_at(left.len() - suffix).0, right.split_at(right.len() - suffix).0)
}

/// One row of the edit-distance table; two swapped neighbours count as one edit.
fn next_row(
    row: usize,
    letter: char,
    letter_above: Option<char>,
    right: &[char],
    previous: &[usize],
    before_previous: &[usize],
) -> Vec<usize> {
    let cost = |costs: &[usize], at: Option<usize>| at.and_then(|at| costs.get(at)).copied();
    let mut current = vec![row + 1];
    for (column, &other) in right.iter().enumerate() {
        let replaced = cost(previous, Some(column)).map(|cost| cost + usize::from(letter != other));
        let removed = cost(previous, Some(column + 1)).map(|cost| cost + 1);
        let added = current.last().map(|cost| cost + 1);
        let neighbour = column.checked_sub(1).and_then(|at| right.get(at)).copied();
        let is_swap = neighbour == Some(letter) && letter_above == Some(other);
        let swapped = cost(before_previous, column.checked_sub(1).filter(|_| is_swap)).map(|cost| cost + 1);
        let least = [replaced, removed, added, swapped].into_iter().flatten().min();
        current.push(least.unwrap_or(usize::MAX / 2));
    }
    current
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
