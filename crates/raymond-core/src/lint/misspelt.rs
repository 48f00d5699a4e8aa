//! Tags whose name is misspelt, such as `<gotoo>A</gotoo>`.

use std::ops::Range;

use memchr::memchr_iter;

use crate::graph::Graph;
use crate::tag::TagName;
use crate::workflow::wording::nearest;

/// A tag with an unknown name that is similar to a known one.
pub(super) struct Misspelt {
    pub(super) written: String,
    pub(super) meant: TagName,
    /// The opening tag, up to its name.
    pub(super) range: Range<usize>,
}

/// Finds them in a text. Other markup has similar names, so the content must be the name of a state; if the name of a
/// tag with text is meant, there must be no other tag that could be the state's transition.
pub(super) fn misspelt(text: &str, graph: &Graph, has_no_exit: bool) -> Vec<Misspelt> {
    memchr_iter(b'<', text.as_bytes()).filter_map(|at| misspelt_at(text, at, graph, has_no_exit)).collect()
}

fn misspelt_at(text: &str, at: usize, graph: &Graph, has_no_exit: bool) -> Option<Misspelt> {
    let rest = text.get(at + 1..)?;
    let length =
        rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_')?;
    let written = rest.get(..length).filter(|name| name.len() > 2)?;
    let is_known = TagName::ALL.iter().any(|name| name.as_str().eq_ignore_ascii_case(written));
    if is_known || !rest.get(length..)?.starts_with(['>', ' ']) {
        return None;
    }
    // Compare names first: most text has none that is similar, and then the closing tag need not be found.
    let [only] = nearest(written, TagName::transitions().map(TagName::as_str))[..] else { return None };
    let meant = TagName::from_name(only)?;
    let (_, after) = rest.get(length..)?.split_once('>')?;
    let (content, _) = after.split_once(&format!("</{written}>"))?;
    let fits = match meant.has_target() {
        true => graph.listing.resolve(content.trim(), graph.platform).is_ok(),
        false => has_no_exit && written.starts_with(only.get(..1)?),
    };
    fits.then(|| Misspelt { written: written.to_owned(), meant, range: at..at + 1 + length })
}
