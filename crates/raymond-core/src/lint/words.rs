//! Searching for words in texts.

use memchr::memmem;

/// Whether a text contains a word, not only as a part of a longer word.
pub(super) fn mentions(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    !word.is_empty()
        && memmem::find_iter(bytes, word).any(|at| {
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            !is_part(before) && !is_part(bytes.get(at + word.len()))
        })
}

/// Like [`mentions`], ignoring ASCII case.
pub(super) fn mentions_in_any_case(text: &str, word: &str) -> bool {
    mentions(&text.to_ascii_lowercase(), &word.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_longer_words_do_not_count() {
        assert!(mentions("go to REVIEW.", "REVIEW"));
        assert!(mentions("`REVIEW.md`", "REVIEW"));
        assert!(!mentions("PREVIEW REVIEWS 1_REVIEW", "REVIEW"));
        assert!(mentions_in_any_case("give a Result", "result"));
    }
}
