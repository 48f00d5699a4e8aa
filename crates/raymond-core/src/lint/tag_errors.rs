//! The errors of each single tag, found by the same code that reads tags at run time.

use std::ops::Range;

use crate::graph::{Graph, Origin, StateExit};
use crate::tag::{Attribute, Collected, Located};
use crate::transition::{self, ProtocolError};
use crate::variable::Rules;
use crate::workflow::Platform;

/// One tag that could not be used.
pub(super) struct TagError {
    pub(super) state: usize,
    pub(super) error: ProtocolError,
    /// The place of the wrong attribute, or of the opening tag.
    pub(super) range: Range<usize>,
}

pub(super) struct TagErrors(pub(super) Vec<TagError>);

impl TagErrors {
    pub(super) fn collect(graph: &Graph) -> TagErrors {
        let case_insensitive = graph.platform == Platform::Windows;
        let mut errors = Vec::new();
        for (number, state) in graph.states.iter().enumerate() {
            let rules = Rules { from_model: state.file.kind().is_prompt(), case_insensitive };
            for located in state.exits.iter().filter_map(|exit| tag_of(exit, &state.tags)) {
                let collected = Collected::single(located.tag.clone());
                if let Err(error) = transition::read(collected, rules)
                    && !is_computed(&error, located)
                {
                    errors.push(TagError { state: number, range: range_of(&error, located), error });
                }
            }
        }
        TagErrors(errors)
    }
}

fn tag_of<'t>(exit: &StateExit, tags: &'t [Located]) -> Option<&'t Located> {
    match exit.origin {
        Origin::Tag(number) => tags.get(number),
        Origin::Policy(_) => None,
    }
}

/// The attribute that an error is about, as written.
fn attribute_of(error: &ProtocolError) -> Option<&str> {
    match error {
        ProtocolError::UnexpectedAttribute { attribute, .. }
        | ProtocolError::EmptyAttribute { attribute, .. }
        | ProtocolError::BadDuration { attribute, .. }
        | ProtocolError::NotOk { attribute, .. }
        | ProtocolError::BadWorktree { attribute, .. } => Some(attribute.as_str()),
        ProtocolError::TwoFolders { .. } => Some(Attribute::Worktree.as_str()),
        ProtocolError::DuplicateAttribute { attribute, .. }
        | ProtocolError::SameVariable { attribute, .. } => Some(attribute),
        ProtocolError::BadVariable { why, .. } => Some(why.name()),
        ProtocolError::NoTag { .. }
        | ProtocolError::NearTag(_)
        | ProtocolError::Several { .. }
        | ProtocolError::MissingAttribute { .. }
        | ProtocolError::EmptyTarget { .. }
        | ProtocolError::ForkWithoutNext { .. }
        | ProtocolError::ForkNextsDiffer { .. } => None,
    }
}

/// A value that a script or a template fills in cannot be checked.
fn is_computed(error: &ProtocolError, located: &Located) -> bool {
    let (ProtocolError::BadDuration { attribute, .. }
    | ProtocolError::NotOk { attribute, .. }
    | ProtocolError::BadWorktree { attribute, .. }) = error
    else {
        return false;
    };
    let named = |(name, value): &(String, String)| {
        attribute.as_str() == name && value.contains(['$', '{', '%', '\'', '"', '!'])
    };
    located.tag.attributes.iter().any(named)
}

fn range_of(error: &ProtocolError, located: &Located) -> Range<usize> {
    let opening = located.range.start..located.content.start;
    let Some(name) = attribute_of(error) else { return opening };
    let last = located.tag.attributes.iter().rposition(|(written, _)| written == name);
    match last.and_then(|last| located.attributes.get(last)) {
        // Include the closing quote of the value.
        Some((name, value)) => name.start..value.end + 1,
        None => opening,
    }
}
