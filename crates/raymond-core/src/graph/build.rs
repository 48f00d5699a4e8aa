//! Builds the graph from the texts of the states.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::{EntryPlaces, Graph, Leads, Origin, ReadFile, Reference, StateExit, StateNode, Told};
use crate::tag::{Attribute, Found, Located, Waits};
use crate::workflow::wording::clipped;
use crate::workflow::{Kind, Listing, Platform, ResolveError, StateFile};

/// How many missing names get suggestions; finding them takes time that grows with the workflow.
const MAX_SUGGESTED: usize = 50;

pub(super) fn build(
    mut files: Vec<ReadFile>,
    others: &[StateFile],
    entry: Option<&StateFile>,
    platform: Platform,
) -> Graph {
    files.sort_by(|one, other| one.state.cmp(&other.state));
    let all = files.iter().map(|file| &file.state).chain(others);
    let listing = Listing::new(all.map(|state| state.as_str().to_owned()));
    let mut resolver = Resolver::new(&files, others, &listing, platform);
    let entry = match entry {
        Some(named) => resolver.number(named, listing.resolve(named.as_str(), platform)),
        None => listing.entry(platform).and_then(|state| resolver.number(&state, Ok(state.clone()))),
    };
    let states: Vec<StateNode> = files.into_iter().map(|file| read_state(file, &mut resolver)).collect();
    let leading = edges(&states, |exit| exit.references().map(|(_, reference)| reference).collect());
    let continuing = edges(&states, |exit| exit.continuations().collect());
    Graph { platform, states, entry, continuing, leading, listing }
}

fn edges<'s>(
    states: &'s [StateNode],
    follow: impl Fn(&'s StateExit) -> Vec<&'s Reference>,
) -> Vec<Vec<usize>> {
    let targets = |state: &'s StateNode| {
        let mut targets: Vec<usize> = state
            .exits
            .iter()
            .flat_map(&follow)
            .filter_map(|reference| match reference.leads {
                Leads::To(number) => Some(number),
                _ => None,
            })
            .collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    };
    states.iter().map(targets).collect()
}

fn read_state(file: ReadFile, resolver: &mut Resolver<'_>) -> StateNode {
    let ReadFile { state, text, source, found } = file;
    let kind = state.kind();
    let runs_here = kind.runs_on(resolver.platform);
    let Found { tags, missed } = found;
    let mut exits = Vec::new();
    let mut forbidden = Vec::new();
    if runs_here && !matches!(source.settings, Told::Broken(_)) {
        let shown: Vec<StateExit> = tags
            .iter()
            .enumerate()
            .map(|(number, located)| resolver.exit_of_tag(number, located, &text, kind))
            .collect();
        let entries = source.prompt().map(|prompt| prompt.entries.as_slice()).unwrap_or_default();
        if entries.is_empty() {
            exits = shown;
        } else {
            let allowed: Vec<StateExit> = entries
                .iter()
                .enumerate()
                .map(|(number, places)| resolver.exit_of_entry(number, places))
                .collect();
            (exits, forbidden) = sort_shown(allowed, shown);
        }
    }
    // A tag that a script builds from pieces may be any tag.
    let is_unread = matches!(source.settings, Told::Broken(_))
        || (kind.is_script() && (exits.is_empty() || !missed.is_empty()));
    let is_opaque = is_unread || exits.iter().any(StateExit::is_open);
    StateNode { file: state, text, source, tags, missed, exits, forbidden, is_opaque, runs_here }
}

/// Splits the tags in a prompt's text into those that its policy permits, which complete its open entries, and those
/// that it forbids.
fn sort_shown(allowed: Vec<StateExit>, shown: Vec<StateExit>) -> (Vec<StateExit>, Vec<StateExit>) {
    let has_forks = shown.iter().any(|exit| exit.tag.is_fork());
    let mut filled_in = vec![false; allowed.len()];
    let mut exits = Vec::new();
    let mut forbidden = Vec::new();
    for exit in shown {
        let mut is_permitted = false;
        for (entry, filled) in allowed.iter().zip(&mut filled_in) {
            if permits(entry, &exit) {
                is_permitted = true;
                *filled |= entry.is_open() && !exit.is_open() && !entry.leads_nowhere();
            }
        }
        // Beside forks this tag only names the state in which their agent continues.
        match is_permitted || (has_forks && exit.tag.may_stand_beside_forks()) {
            true => exits.push(exit),
            false => forbidden.push(exit),
        }
    }
    let declared = allowed.into_iter().zip(filled_in).filter(|(_, filled)| !filled).map(|(entry, _)| entry);
    (declared.chain(exits).collect(), forbidden)
}

/// Whether a policy's entry permits a tag, as far as the text shows.
fn permits(entry: &StateExit, shown: &StateExit) -> bool {
    let same = |wanted: &Option<Reference>, given: &Option<Reference>| match (wanted, given) {
        (None, _) | (_, None) => true,
        (Some(wanted), Some(given)) => match (&wanted.leads, &given.leads) {
            (_, Leads::Unknown) => true,
            (Leads::To(wanted), Leads::To(given)) => wanted == given,
            (Leads::Elsewhere, Leads::Elsewhere) => wanted.name == given.name,
            // If both have the same unresolved name, another rule reports that mistake.
            (Leads::Nowhere(_), Leads::Nowhere(_)) => wanted.name == given.name,
            _ => false,
        },
    };
    entry.tag == shown.tag
        && same(&entry.target, &shown.target)
        && same(&entry.return_to, &shown.return_to)
        && same(&entry.next, &shown.next)
        && same(&entry.timeout_next, &shown.timeout_next)
}

/// Turns names into numbers of states.
struct Resolver<'l> {
    listing: &'l Listing,
    platform: Platform,
    numbers: HashMap<String, usize>,
    names: HashSet<String>,
    known: HashMap<String, Leads>,
    suggested: usize,
}

impl<'l> Resolver<'l> {
    fn new(
        files: &[ReadFile],
        others: &[StateFile],
        listing: &'l Listing,
        platform: Platform,
    ) -> Resolver<'l> {
        let numbered = files.iter().enumerate();
        let all = files.iter().map(|file| &file.state).chain(others);
        Resolver {
            listing,
            platform,
            numbers: numbered.map(|(number, file)| (file.state.as_str().to_owned(), number)).collect(),
            names: all.map(|state| state.name().to_owned()).collect(),
            known: HashMap::new(),
            suggested: 0,
        }
    }

    fn number(
        &self,
        named: &StateFile,
        resolved: Result<StateFile, ResolveError>,
    ) -> Result<usize, ResolveError> {
        let missing = || ResolveError::NotFound {
            target: named.to_string(),
            suggestions: Vec::new(),
            elsewhere: Vec::new(),
        };
        resolved.and_then(|state| self.numbers.get(state.as_str()).copied().ok_or_else(missing))
    }

    fn leads(&mut self, name: &str) -> Leads {
        if let Some(leads) = self.known.get(name) {
            return leads.clone();
        }
        let leads = match self.resolve(name) {
            // A state that was not read is there all the same.
            Ok(state) => self.numbers.get(state.as_str()).map_or(Leads::Unknown, |number| Leads::To(*number)),
            Err(error) => Leads::Nowhere(error),
        };
        self.known.insert(name.to_owned(), leads.clone());
        leads
    }

    fn resolve(&mut self, name: &str) -> Result<StateFile, ResolveError> {
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let is_known = self.names.contains(name) || self.names.contains(stem);
        let is_bad = name.contains(['/', '\\']) || name.starts_with('.') || name.contains(char::is_control);
        if !is_known && !is_bad {
            self.suggested += 1;
            if self.suggested > MAX_SUGGESTED {
                let (suggestions, elsewhere) = (Vec::new(), Vec::new());
                return Err(ResolveError::NotFound { target: clipped(name), suggestions, elsewhere });
            }
        }
        self.listing.resolve(name, self.platform)
    }

    fn exit_of_entry(&mut self, number: usize, places: &EntryPlaces) -> StateExit {
        let entry = &places.entry;
        let mut reference = |name: &Option<String>, range: &Range<usize>, is_scope: bool| {
            let name = name.as_deref()?.trim().to_owned();
            let leads = if is_scope { Leads::Elsewhere } else { self.leads(&name) };
            Some(Reference { name, range: range.clone(), leads })
        };
        StateExit {
            tag: entry.tag,
            origin: Origin::Policy(number),
            range: places.range.clone(),
            target: reference(&entry.target, &places.target, entry.tag.is_workflow()),
            return_to: reference(&entry.return_to, &places.return_to, false),
            next: reference(&entry.next, &places.next, false),
            timeout_next: reference(&entry.timeout_next, &places.timeout_next, false),
            pauses: entry.tag.facts().waits == Waits::ForAnswer,
        }
    }

    fn exit_of_tag(&mut self, number: usize, located: &Located, text: &str, kind: Kind) -> StateExit {
        let name = located.tag.name;
        let target = name.has_target().then(|| {
            let range = trimmed(text, located.content.clone());
            self.reference(located.tag.content.trim(), range, kind, name.is_workflow())
        });
        let mut attribute = |attribute: Attribute| {
            if !name.takes(attribute) {
                return None;
            }
            let position = located.tag.attributes.iter().position(|(name, _)| name == attribute.as_str())?;
            let (_, value) = located.tag.attributes.get(position)?;
            let (_, range) = located.attributes.get(position)?;
            let range = trimmed(text, range.clone());
            (!value.trim().is_empty()).then(|| self.reference(value.trim(), range, kind, false))
        };
        StateExit {
            tag: name,
            origin: Origin::Tag(number),
            range: located.range.clone(),
            return_to: attribute(Attribute::Return),
            next: attribute(Attribute::Next),
            timeout_next: attribute(Attribute::TimeoutNext),
            target: target.filter(|target| !target.name.is_empty()),
            pauses: name.facts().waits == Waits::ForAnswer
                || located.tag.attributes.iter().any(|(name, _)| name == Attribute::Delay.as_str()),
        }
    }

    fn reference(&mut self, name: &str, range: Range<usize>, kind: Kind, is_scope: bool) -> Reference {
        let is_computed = name.contains(['$', '{', '%', '"', '\'', '`', '<', '!']);
        let leads = match is_scope {
            true if is_computed => Leads::Unknown,
            true => Leads::Elsewhere,
            false if is_literal(name, kind) => self.leads(name),
            false => match self.known_name(name) {
                true => self.leads(name),
                false => Leads::Unknown,
            },
        };
        Reference { name: name.to_owned(), range, leads }
    }

    fn known_name(&self, name: &str) -> bool {
        self.names.contains(name) || self.numbers.contains_key(name)
    }
}

/// Whether a text between tags is a literal name, not computed by a script and not a placeholder for readers.
fn is_literal(name: &str, kind: Kind) -> bool {
    let is_part = |character: char| {
        character.is_alphanumeric()
            || matches!(character, '_' | '-' | '.' | '/')
            || (character == '\\' && kind.is_prompt())
    };
    name.chars().all(is_part) && name.contains(char::is_alphanumeric)
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let whole = text.get(range.clone()).unwrap_or_default();
    let start = range.start + (whole.len() - whole.trim_start().len());
    let end = start + whole.trim().len();
    if whole.trim().is_empty() { range } else { start..end }
}
