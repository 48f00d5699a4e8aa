//! Tokens in words.

use raymond_core::tokens::{Context, Tokens};

/// What was read and written: `1,200 in, 34 out, cache 500 read, 100 written`.
pub fn in_words(tokens: Tokens) -> String {
    let Tokens { input, output, cache_write, cache_read } = tokens;
    let cache = match (cache_read, cache_write) {
        (0, 0) => String::new(),
        _ => format!(", cache {} read, {} written", count(cache_read), count(cache_write)),
    };
    format!("{} in, {} out{cache}", count(input), count(output))
}

/// How full the model's window was: `12,000 of 200,000 (6 %)`.
pub fn fullness(context: Context) -> String {
    let Context { used, window } = context;
    let percent = used.saturating_mul(100) / window.max(1);
    format!("{} of {} ({percent} %)", count(used), count(window))
}

/// A number with commas.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas_and_an_empty_cache_is_not_told() {
        let tokens = Tokens { input: 1_234_567, output: 89, ..Tokens::default() };
        assert_eq!(in_words(tokens), "1,234,567 in, 89 out");
        let tokens = Tokens { cache_read: 1000, ..tokens };
        assert_eq!(in_words(tokens), "1,234,567 in, 89 out, cache 1,000 read, 0 written");
        assert_eq!(fullness(Context { used: 50_000, window: 200_000 }), "50,000 of 200,000 (25 %)");
    }
}
