//! The documentation describes the tags as the table of tags has them.

use std::collections::{BTreeMap, BTreeSet};

use raymond_core::policy;
use raymond_core::tag::{Attribute, Need, SessionEffect, StackEffect, Tag, TagName, locate};

const PROTOCOL: &str = include_str!("../../../../docs/protocol.md");
const README: &str = include_str!("../../../../README.md");

/// The rows below the header that begins like `header`, each cell trimmed.
fn table(page: &str, header: &str) -> Vec<Vec<String>> {
    let mut lines = page.lines().skip_while(|line| !line.starts_with(header)).skip(2).peekable();
    assert!(lines.peek().is_some(), "no table begins with {header}");
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The tag that is written in a cell.
fn tag_in(cell: &str) -> Tag {
    let mut tags = locate(cell).tags;
    assert_eq!(tags.len(), 1, "{cell}");
    tags.remove(0).tag
}

/// The names in a cell that are written as code.
fn code_in(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn tags_named_in(cell: &str) -> BTreeSet<TagName> {
    let named = |name: &str| TagName::from_name(name).unwrap_or_else(|| panic!("no tag `{name}`: {cell}"));
    code_in(cell).into_iter().map(named).collect()
}

/// A documented tag shows the attributes that it needs, and no others.
fn check_attributes(tag: &Tag) {
    let shown: Vec<&str> = tag.attributes.iter().map(|(name, _)| name.as_str()).collect();
    let needed = tag.name.facts().attributes.iter().filter(|(_, need)| *need != Need::Optional);
    let needed: Vec<&str> = needed.map(|(attribute, _)| attribute.as_str()).collect();
    assert_eq!(shown, needed, "{tag}");
}

/// What a cell says about the tag's own target; `` as `call` `` means what the row of `call` says.
fn about_target<'c>(cell: &'c str, rows: &'c BTreeMap<TagName, Vec<String>>, column: usize) -> &'c str {
    if let Some(other) = cell.strip_prefix("as ") {
        let other = tags_named_in(other).first().copied().unwrap();
        return about_target(&rows[&other][column], rows, column);
    }
    // `S: fresh; R: the caller's` is about two states, of which the tag's own comes first.
    cell.split_once(": ").filter(|(state, _)| state.len() == 1).map_or(cell, |(_, said)| said)
}

#[test]
fn the_protocol_lists_every_tag_with_what_it_does() {
    let mut rows = BTreeMap::new();
    for row in table(PROTOCOL, "| tag | next |") {
        let tag = tag_in(&row[0]);
        check_attributes(&tag);
        assert!(rows.insert(tag.name, row).is_none(), "{tag} is there twice");
    }
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), TagName::ALL);
    for (tag, row) in rows.iter().filter(|(tag, _)| tag.is_transition()) {
        let session = match tag.facts().session {
            SessionEffect::Kept => "kept",
            SessionEffect::Fresh => "fresh",
            SessionEffect::Branched => "a branch of the caller's",
            SessionEffect::Restored => "the caller's",
        };
        let stack = match tag.facts().stack {
            StackEffect::Kept => "kept",
            StackEffect::Pushed => "pushed",
            StackEffect::Popped => "popped",
            StackEffect::Cleared => "emptied",
        };
        assert!(about_target(&row[2], &rows, 2).starts_with(session), "{tag}: {session}, not {}", row[2]);
        assert!(about_target(&row[3], &rows, 3).starts_with(stack), "{tag}: {stack}, not {}", row[3]);
    }
}

/// A cell such as `` `ask`, required; `fork` ``, as the tags that take an attribute and those that require it.
fn takers(cell: &str) -> (BTreeSet<TagName>, BTreeSet<TagName>) {
    if let Some(others) = cell.strip_prefix("all but ") {
        let others = tags_named_in(others);
        let takers = TagName::ALL.iter().copied().filter(|tag| !others.contains(tag));
        return (takers.collect(), BTreeSet::new());
    }
    let required = cell.split(';').filter(|part| part.contains("required"));
    (tags_named_in(cell), required.flat_map(tags_named_in).collect())
}

#[test]
fn the_protocol_lists_every_attribute_with_its_tags() {
    let mut documented = BTreeMap::new();
    for row in table(PROTOCOL, "| attribute | on |") {
        for name in code_in(&row[0]) {
            documented.insert(name.to_owned(), takers(&row[1]));
        }
        if row[0] == "any other" {
            let with_variables = TagName::ALL.iter().copied().filter(|tag| tag.facts().takes_variables);
            assert_eq!(tags_named_in(&row[1]), with_variables.collect());
        }
    }
    let mut expected = BTreeMap::new();
    for attribute in Attribute::ALL {
        let tags = TagName::ALL.iter().copied();
        let takers = tags.clone().filter(|tag| tag.takes(*attribute)).collect();
        let required = tags.filter(|tag| tag.need(*attribute) == Some(Need::Required)).collect();
        expected.insert(attribute.to_string(), (takers, required));
    }
    assert_eq!(documented, expected);
}

#[test]
fn the_protocol_says_what_entries_of_a_policy_may_name() {
    let mut documented = BTreeMap::new();
    for row in table(PROTOCOL, "| tag of an entry |") {
        let keys: Vec<String> = code_in(&row[1]).into_iter().map(str::to_owned).collect();
        documented.extend(tags_named_in(&row[0]).into_iter().map(|tag| (tag, keys.clone())));
    }
    let keys = |tag: TagName| {
        let target = tag.has_target().then(|| "target".to_owned());
        let attributes = policy::constrained().filter(|attribute| tag.takes(*attribute));
        target.into_iter().chain(attributes.map(|attribute| attribute.to_string())).collect()
    };
    assert_eq!(documented, TagName::transitions().map(|tag| (tag, keys(tag))).collect());
}

#[test]
fn the_readme_lists_every_tag() {
    let rows = table(README, "| tag | what comes next |");
    let tags: Vec<Tag> = rows.iter().map(|row| tag_in(&row[0])).collect();
    tags.iter().for_each(check_attributes);
    let (workflows, states): (BTreeSet<TagName>, BTreeSet<TagName>) =
        tags.iter().map(|tag| tag.name).partition(|tag| tag.is_workflow());
    assert_eq!(states, TagName::transitions().filter(|tag| !tag.is_workflow()).collect());
    // The first tag that leads to another workflow stands for all of them.
    let left_out = TagName::transitions().filter(|tag| tag.is_workflow()).count() - workflows.len();
    let numbers = ["none", "one", "two", "three", "four", "five"];
    let last = &rows.last().unwrap()[0];
    assert!(last.ends_with(&format!("and {} more", numbers[left_out])), "{last}: {left_out} are left out");
}
