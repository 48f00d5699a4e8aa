//! Which labels a run may have, whoever gives them: the command line or the API.

use std::collections::BTreeMap;

/// The label of runs that were started by their schedule.
pub const SCHEDULE_LABEL: &str = "schedule";

/// How many labels a run may have, and how long they may be.
pub const MOST_LABELS: usize = 100;
pub const MAX_KEY_BYTES: usize = 128;
pub const MAX_VALUE_BYTES: usize = 4096;

/// Why a run cannot have this label. It is written KEY=VALUE in many places, so no other key may look like this one.
pub fn check_label(key: &str, value: &str) -> Result<(), String> {
    if key.is_empty() {
        return Err("a label is written KEY=VALUE".to_owned());
    }
    if key.len() > MAX_KEY_BYTES {
        return Err(format!("the key of a label may be {MAX_KEY_BYTES} bytes long"));
    }
    if key.contains('=') || key.chars().any(char::is_control) {
        let key = key.escape_debug();
        return Err(format!("the key of the label `{key}` holds a `=` or a control character"));
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(format!("the value of the label `{key}` is longer than {MAX_VALUE_BYTES} bytes"));
    }
    if value.contains('\0') {
        return Err(format!("the value of the label `{key}` holds a zero byte"));
    }
    Ok(())
}

/// The same for all labels of a run.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    if labels.len() > MOST_LABELS {
        return Err(format!("a run may have {MOST_LABELS} labels"));
    }
    labels.iter().try_for_each(|(key, value)| check_label(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_and_its_key_is_what_stands_before_the_first_sign() {
        for (key, value) in [("team", "core"), ("a b", ""), ("Ü", "x=y"), ("k", "two\nlines")] {
            assert_eq!(check_label(key, value), Ok(()), "{key}");
        }
        let long = "x".repeat(MAX_VALUE_BYTES + 1);
        let wrong = [("", "x"), ("a=b", "c"), ("a\nb", "c"), (&long, ""), ("k", &long), ("k", "\0")];
        for (key, value) in wrong {
            assert!(check_label(key, value).is_err(), "{key:?}");
        }
        let many = (0..=MOST_LABELS).map(|number| (number.to_string(), String::new())).collect();
        assert!(check_labels(&many).is_err());
    }
}
