//! `{{name}}` in the text of a prompt, and `{{name.field.0}}` for a field of a value that is JSON.
//!
//! One pass over the text: inserted values are not searched again, so a value cannot bring in placeholders.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

/// Replaces the placeholders that `lookup` knows; everything else stays as written.
pub fn render<'v>(text: &str, lookup: impl Fn(&str) -> Option<Cow<'v, str>>) -> String {
    render_marked(text, lookup).0
}

/// Like [`render`], with the places of the values in the rendered text, in bytes.
pub fn render_marked<'v>(
    text: &str,
    lookup: impl Fn(&str) -> Option<Cow<'v, str>>,
) -> (String, Vec<Range<usize>>) {
    let mut rendered = String::with_capacity(text.len());
    let mut values = Vec::new();
    let mut copied_to = 0;
    for placeholder in placeholders(text) {
        rendered.push_str(text.get(copied_to..placeholder.range.start).unwrap_or_default());
        copied_to = placeholder.range.start;
        if let Some(value) = lookup(placeholder.name) {
            let start = rendered.len();
            rendered.push_str(&value);
            values.push(start..rendered.len());
            copied_to = placeholder.range.end;
        }
    }
    rendered.push_str(text.get(copied_to..).unwrap_or_default());
    (rendered, values)
}

/// The names of all placeholders in the order of the text, with repetitions.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    placeholders(text).map(|placeholder| placeholder.name)
}

/// One `{{name}}` and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder<'t> {
    pub name: &'t str,
    /// In bytes, braces included.
    pub range: Range<usize>,
}

/// All placeholders in the order of the text.
pub fn placeholders(text: &str) -> impl Iterator<Item = Placeholder<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let opening = from + memmem::find(text.as_bytes().get(from..)?, b"{{")?;
            if let Some(placeholder) = placeholder_at(text, opening) {
                from = placeholder.range.end;
                return Some(placeholder);
            }
            // The next opening may overlap this one, as in `{{{name}}`.
            from = opening + 1;
        }
    })
}

/// The name of a placeholder and, behind its first dot, the fields that lead to a part of its value.
pub fn name_and_path(name: &str) -> (&str, Option<&str>) {
    name.split_once('.').map_or((name, None), |(name, path)| (name, Some(path)))
}

/// The part of a JSON value that a path leads to: names of fields and numbers of items, counted from 0, with dots in
/// between. A text is itself; anything else is written as JSON.
pub fn part_of(value: &serde_json::Value, path: &str) -> Option<String> {
    let part = path.split('.').try_fold(value, |value, step| match value {
        serde_json::Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        serde_json::Value::Object(fields) => fields.get(step),
        _ => None,
    })?;
    Some(match part {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

/// The placeholder whose braces open at this byte. A name contains no brace, so the search takes linear time.
fn placeholder_at(text: &str, opening: usize) -> Option<Placeholder<'_>> {
    let start = opening + 2;
    let rest = text.get(start..)?;
    let length =
        rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte)).count();
    let (name, after) = rest.split_at_checked(length)?;
    if name.is_empty()
        || name.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '.'))
        || !after.starts_with("}}")
        || name.ends_with('.')
        || name.contains("..")
    {
        return None;
    }
    Some(Placeholder { name, range: opening..start + length + 2 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rendered(text: &str) -> String {
        render(text, |name| match name {
            "a" => Some("1".into()),
            "_b2" => Some("two".into()),
            "nested" => Some("{{a}}".into()),
            "open" => Some("{{".into()),
            "empty" => Some("".into()),
            _ => None,
        })
    }

    #[test]
    fn placeholders_are_replaced_once() {
        let cases = [
            ("", ""),
            ("{{a}}", "1"),
            ("x{{a}}y{{_b2}}z", "x1ytwoz"),
            ("{{a}}{{a}}", "11"),
            ("{{{{a}}}}", "{{1}}"),
            ("{{{a}}}", "{1}"),
            ("{{ a }}", "{{ a }}"),
            ("{{a", "{{a"),
            ("{{a}", "{{a}"),
            ("{{", "{{"),
            ("{{}}", "{{}}"),
            ("{{unknown}} {{a}}", "{{unknown}} 1"),
            ("{{2a}}", "{{2a}}"),
            ("{{a-b}}", "{{a-b}}"),
            ("{{ä}}{{a}}ö", "{{ä}}1ö"),
            ("{{nested}}", "{{a}}"),
            ("{{open}}a}}", "{{a}}"),
            ("{{a{{a}}", "{{a1"),
            ("[{{empty}}]", "[]"),
        ];
        for (text, expected) in cases {
            assert_eq!(rendered(text), expected, "{text}");
        }
    }

    #[test]
    fn a_path_leads_to_a_part_of_a_value() {
        let value = serde_json::json!({
            "a": { "b": "text", "n": 1.5, "none": null, "list": [10, { "c": true }] }, "0": "zero",
        });
        let cases = [
            ("a.b", Some("text")),
            ("a.n", Some("1.5")),
            ("a.none", Some("null")),
            ("a.list", Some(r#"[10,{"c":true}]"#)),
            ("a.list.0", Some("10")),
            ("a.list.1.c", Some("true")),
            ("0", Some("zero")),
            ("a.list.2", None),
            ("a.list.-1", None),
            ("a.b.c", None),
            ("A", None),
            ("", None),
        ];
        for (path, expected) in cases {
            assert_eq!(part_of(&value, path).as_deref(), expected, "{path}");
        }
        assert_eq!(name_and_path("result.a.b"), ("result", Some("a.b")));
        assert_eq!(name_and_path("result"), ("result", None));
    }

    #[test]
    fn a_placeholder_may_have_a_path() {
        let listed: Vec<&str> = names("{{a.b}} {{a.b.0}} {{a.}} {{.a}} {{a..b}} {{a.b }}").collect();
        assert_eq!(listed, ["a.b", "a.b.0"]);
    }

    #[test]
    fn names_are_listed_in_order() {
        let listed: Vec<&str> = names("{{b}} {{ c }} {{{a}}} {{b}}").collect();
        assert_eq!(listed, ["b", "a", "b"]);
    }

    #[test]
    fn unclosed_openings_cost_linear_time() {
        let text = "{{".repeat(500_000) + &"a".repeat(500_000);
        assert_eq!(rendered(&text), text);
    }

    proptest! {
        #[test]
        fn text_without_placeholders_is_unchanged(text in "(?s).*|[{}a ]{0,40}") {
            let nothing = render(&text, |_| None);
            prop_assert_eq!(&nothing, &text);
            if names(&text).next().is_none() {
                prop_assert_eq!(render(&text, |_| Some("x".into())), text);
            }
        }

        #[test]
        fn pieces_render_on_their_own(before in "[{a]{0,4}x", value in "(?s).*", after in "x[}a]{0,4}") {
            let text = format!("{before}{{{{name}}}}{after}");
            let rendered = render(&text, |name| (name == "name").then(|| Cow::from(value.as_str())));
            prop_assert_eq!(rendered, format!("{before}{value}{after}"));
        }
    }
}
