//! Writes a tag as a script prints it, checked as a run will read it.

use crate::tag::{Collected, Tag, TagCollector, TagName, escape_attribute, holds_closing};
use crate::transition::{self, Reading};
use crate::variable::Rules;
use crate::workflow::check_name;

/// The text of a tag, with everything escaped that needs it.
///
/// # Errors
///
/// When a run would not read the same tag from this text, or would refuse it.
pub fn emit(tag: &Tag, rules: Rules) -> Result<String, String> {
    let text = write(tag)?;
    check_read_back(tag, &text)?;
    if tag.name.is_transition() {
        check_transition(tag, rules)?;
    }
    Ok(text)
}

fn write(tag: &Tag) -> Result<String, String> {
    let closing = tag.name.closing();
    if holds_closing(&tag.content, tag.name) {
        return Err(format!("the text holds `{closing}`, which would end the tag there"));
    }
    let mut text = String::from(tag.name.opening());
    for (name, value) in &tag.attributes {
        text.push_str(&format!(" {name}=\"{}\"", escape_attribute(value)));
    }
    text.push('>');
    text.push_str(&tag.content);
    text.push_str(closing);
    Ok(text)
}

/// Reads the text as the output of a step is read. It must hold this tag and nothing else.
fn check_read_back(tag: &Tag, text: &str) -> Result<(), String> {
    let mut printed = Vec::new();
    let mut collector = TagCollector::new();
    let mut on_print = |text| printed.push(text);
    let fed = collector.feed(text.as_bytes(), &mut on_print);
    let collected = fed.and_then(|()| collector.finish(&mut on_print)).map_err(|error| error.to_string())?;
    let is_same = match tag.name.is_transition() {
        true => collected.tags == std::slice::from_ref(tag),
        false => printed == std::slice::from_ref(&tag.content),
    };
    match collected.near.mistake {
        Some(mistake) => Err(mistake.to_string()),
        None if is_same => Ok(()),
        None => Err(format!("`{}` cannot be written so that it is read again", tag.brief())),
    }
}

/// What a run would say about the names and attributes.
fn check_transition(tag: &Tag, rules: Rules) -> Result<(), String> {
    let mut tags = vec![tag.clone()];
    let has_next = tag.attributes.iter().any(|(name, _)| name == "next");
    if tag.name.is_fork() && !has_next {
        // Another tag, which is printed beside it, says where the agent itself continues.
        tags.push(Tag { name: TagName::Goto, attributes: Vec::new(), content: "NEXT".to_owned() });
    }
    let collected = Collected { total: tags.len() as u64, tags, ..Collected::default() };
    let Reading { transition, warnings } =
        transition::read(collected, rules).map_err(|error| error.to_string())?;
    if let Some(warning) = warnings.into_iter().next() {
        return Err(warning);
    }
    for name in transition.state_names() {
        check_name(name).map_err(|problem| format!("`{name}` is not the name of a state: {problem}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tag(name: TagName, attributes: &[(&str, &str)], content: &str) -> Tag {
        let attributes = attributes.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Tag { name, attributes, content: content.into() }
    }

    fn emitted(name: TagName, attributes: &[(&str, &str)], content: &str) -> Result<String, String> {
        emit(&tag(name, attributes, content), Rules { from_model: false, case_insensitive: false })
    }

    #[test]
    fn values_are_escaped() {
        let text = emitted(TagName::Fork, &[("file", "a \"b\" & <c>'d'"), ("next", "N")], "W").unwrap();
        assert_eq!(text, "<fork file=\"a &quot;b&quot; &amp; &lt;c&gt;&apos;d&apos;\" next=\"N\">W</fork>");
        assert_eq!(emitted(TagName::Result, &[], "a < b\n").unwrap(), "<result>a < b\n</result>");
        assert_eq!(
            emitted(TagName::Fork, &[], "W").unwrap(),
            "<fork>W</fork>",
            "another tag may say the rest"
        );
        assert_eq!(emitted(TagName::Print, &[], "<goto>").unwrap(), "<print><goto></print>");
    }

    #[test]
    fn what_a_run_would_refuse_is_refused() {
        type Case = (TagName, &'static [(&'static str, &'static str)], &'static str, &'static str);
        let refused: [Case; 10] = [
            (TagName::Result, &[], "a</result>b", "`</result>`"),
            (TagName::Result, &[], "a</result\n>b", "`</result>`"),
            (TagName::Goto, &[], "../x", "not the name of a state"),
            (TagName::Goto, &[], "", "goto"),
            (TagName::Goto, &[("cd", "/x")], "A", "`cd`"),
            (TagName::Goto, &[("colour", "red")], "A", "colour"),
            (TagName::Goto, &[("delay", "soon")], "A", "delay"),
            (TagName::Call, &[], "A", "return"),
            (TagName::Fork, &[("PATH", "/x")], "W", "PATH"),
            (TagName::Fork, &[("a b", "x")], "W", ""),
        ];
        for (name, attributes, content, says) in refused {
            let error = emitted(name, attributes, content).unwrap_err();
            assert!(error.contains(says), "{name} {attributes:?} {content}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_value_and_any_text_is_read_again(value in ".{0,40}", text in ".{0,40}") {
            let value = value.replace('\0', "");
            let text = text.replace('\0', "");
            if let Ok(written) = emitted(TagName::Fork, &[("item", &value), ("next", "N")], "W") {
                let mut collector = TagCollector::new();
                collector.feed(written.as_bytes(), &mut drop).unwrap();
                let read = collector.finish(&mut drop).unwrap();
                prop_assert_eq!(&read.tags[0].attributes[0].1, &value);
            } else {
                prop_assert!(false, "{value:?}");
            }
            prop_assert!(emitted(TagName::Result, &[], &text).is_ok() || text.contains("</result>"), "{}", text);
        }
    }
}
