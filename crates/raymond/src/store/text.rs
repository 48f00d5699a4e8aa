//! Unknown bytes made fit for a message.

/// The start of some text, fit for a terminal: control and invisible characters escaped, at most `most` characters.
pub(super) fn excerpt(bytes: &[u8], most: usize) -> String {
    // No character takes more than four bytes, so this is enough text without decoding a huge line.
    let start = &bytes[..bytes.len().min(most * 4)];
    let text = String::from_utf8_lossy(start);
    let mut shown = String::new();
    for character in text.chars().take(most) {
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    if text.chars().nth(most).is_some() || start.len() < bytes.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_clipped_and_escaped() {
        assert_eq!(excerpt(b"{\"a\":1}", 80), "{\"a\":1}");
        assert_eq!(excerpt(b"a\x1b[31mb\0", 80), "a\\u{1b}[31mb\\0");
        assert_eq!(excerpt("ääää".as_bytes(), 3), "äää…");
        assert_eq!(excerpt(b"x\xff", 80), "x\u{fffd}");
    }
}
