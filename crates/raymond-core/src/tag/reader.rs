//! The incremental reader.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2, memchr3, memmem, memrchr};

use super::closing::{AtClosing, MAX_CLOSING_SPACE, at_closing};
use super::located::Located;
use super::opener::{Opener, Reading, Span};
use super::{
    MAX_BRIEF_CHARS, Meant, NearMiss, NearMissReason, NearMisses, Tag, TagError, TagName, clip, decode,
    unescape_attribute,
};
use crate::limits::{MAX_TAG_ATTRIBUTES, MAX_TAG_BYTES};

/// The state of the reader; every stage except `Text` begins at a `<`.
#[derive(Debug)]
enum Stage {
    Text,
    Opener(Opener),
    /// The attributes cannot be read; looking for the end of the opening tag.
    Malformed {
        opener: Opener,
        why: NearMissReason,
    },
    /// Searching for the closing tag; it does not begin before `searched`.
    Content {
        opener: Opener,
        searched: usize,
    },
    /// The opening tag of a name in another case has ended; looking whether a short content and a closing tag follow.
    OtherCase {
        name: TagName,
        start: usize,
    },
    /// The text looked like a tag but is not one; scanning continues at `resume`.
    Missed(Miss),
}

/// What was missed, before its text is quoted.
#[derive(Debug)]
struct Miss {
    why: NearMissReason,
    verdict: Verdict,
    /// How many bytes are certainly part of it.
    seen: usize,
    resume: usize,
}

#[derive(Debug)]
enum Verdict {
    Settled(Meant),
    /// It is a mistake if a closing tag of this name comes before the next opening tag of the name.
    Open(TagName),
}

/// What a scanner finds.
pub(super) enum Item {
    Tag(Located),
    Missed(NearMiss),
}

/// What to do after a stage was tried with the available bytes.
enum Flow {
    /// Continue with this stage now.
    Become(Stage),
    /// Continue with this stage when there are more bytes.
    Wait(Stage),
    /// This number of bytes is done.
    Done(usize),
}

impl Flow {
    fn miss(why: NearMissReason, verdict: Verdict, seen: usize, resume: usize) -> Self {
        Flow::Become(Stage::Missed(Miss { why, verdict, seen, resume }))
    }
}

/// The kind of text after a `<`.
enum Beginning {
    Tag(TagName),
    WrongCase(TagName),
    /// A closing tag, with its length.
    Closing(TagName, usize),
    NeedsMore,
    Text,
}

/// The length of the longest name, plus one byte that shows where it ends.
const NAME_WINDOW: usize = TagName::MAX_NAME_BYTES + 1;

/// How many bytes are used for the text of a near miss: 80 characters of up to four bytes.
const NEAR_MISS_WINDOW: usize = 4 * MAX_BRIEF_CHARS;

/// How far the end of an opening tag is looked for after the place where its attributes cannot be read.
const MALFORMED_WINDOW: usize = 64 * 1024;

/// The longest content of a tag in another case that is compared with the names of states.
const OTHER_CASE_WINDOW: usize = 1024;

/// The size of the portions in which bytes are added to the buffer, so that a short incomplete tag does not cause a
/// copy of all the rest.
const PORTION: usize = 64 * 1024;

/// Reads tags from bytes that arrive in pieces.
#[derive(Debug, Default)]
pub struct TagReader {
    pub(super) scanner: Scanner,
    misses: NearMisses,
}

impl TagReader {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and passes every tag that they complete to `sink`.
    ///
    /// # Errors
    ///
    /// When a limit is exceeded; every later call then fails in the same way.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Tag)) -> Result<(), TagError> {
        let Self { scanner, misses } = self;
        scanner.feed(bytes, &mut |item| sort(item, sink, misses))
    }

    /// Ends the input: an incomplete tag is text, and is searched for other tags.
    ///
    /// # Errors
    ///
    /// When a limit is exceeded, now or earlier.
    pub fn finish(mut self, sink: &mut dyn FnMut(Tag)) -> Result<NearMisses, TagError> {
        let Self { scanner, misses } = &mut self;
        scanner.finish(&mut |item| sort(item, sink, misses))?;
        Ok(self.misses)
    }
}

fn sort(item: Item, sink: &mut dyn FnMut(Tag), misses: &mut NearMisses) {
    match item {
        Item::Tag(located) => sink(located.tag),
        Item::Missed(miss) => misses.note(miss),
    }
}

/// A place in the output; its line and column count from 1.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: usize,
    line: u64,
    column: u64,
}

impl Place {
    const START: Place = Place { offset: 0, line: 1, column: 1 };

    /// The place after these bytes; a column is a character.
    fn after(self, bytes: &[u8]) -> Place {
        let characters = |bytes: &[u8]| bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64;
        let (line, column) = match memrchr(b'\n', bytes) {
            Some(last) => {
                let lines = memchr_iter(b'\n', bytes).count() as u64;
                (self.line + lines, 1 + characters(bytes.get(last + 1..).unwrap_or_default()))
            }
            None => (self.line, self.column + characters(bytes)),
        };
        Place { offset: self.offset + bytes.len(), line, column }
    }
}

/// Finds tags, and text that looks like one, with their places.
#[derive(Debug)]
pub(super) struct Scanner {
    /// The bytes of a tag that is not complete yet; they begin with its `<`.
    pub(super) held: Vec<u8>,
    stage: Stage,
    /// The place of the first byte that is not done.
    place: Place,
    /// Whether the input has ended.
    finishing: bool,
    /// The names (as bits) whose closing tag does not occur in the rest of the input.
    unclosable: u16,
    /// Opening tags whose attributes cannot be read, until it is known whether they are closed; one for each name.
    open: Vec<(TagName, NearMiss)>,
    failed: Option<TagError>,
    #[cfg(test)]
    pub(super) work: u64,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            held: Vec::new(),
            stage: Stage::Text,
            place: Place::START,
            finishing: false,
            unclosable: 0,
            open: Vec::new(),
            failed: None,
            #[cfg(test)]
            work: 0,
        }
    }
}

impl Scanner {
    pub(super) fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Item)) -> Result<(), TagError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let fed = self.take(bytes, sink);
        if let Err(error) = &fed {
            self.held = Vec::new();
            self.failed = Some(error.clone());
        }
        fed
    }

    pub(super) fn finish(&mut self, sink: &mut dyn FnMut(Item)) -> Result<(), TagError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.finishing = true;
        let held = std::mem::take(&mut self.held);
        self.scan(&held, sink)?;
        for (_, miss) in self.open.drain(..) {
            sink(Item::Missed(miss));
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Item)) -> Result<(), TagError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.held.is_empty() {
                // The usual case: no tag is incomplete, so the bytes are scanned without a copy. The rest that is kept
                // is limited, because a tag that is too long is an error.
                let done = self.scan(rest, sink)?;
                self.held.extend_from_slice(rest.get(done..).unwrap_or_default());
                return Ok(());
            }
            let (portion, later) = rest.split_at(rest.len().min(PORTION));
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(portion);
            let done = self.scan(&held, sink)?;
            if done < held.len() {
                held.drain(..done);
                self.held = held;
            }
            rest = later;
        }
        Ok(())
    }

    /// Scans as far as the available bytes allow, and returns how many bytes are done.
    fn scan(&mut self, text: &[u8], sink: &mut dyn FnMut(Item)) -> Result<usize, TagError> {
        let mut start = 0;
        loop {
            let rest = text.get(start..).unwrap_or_default();
            let mut skipped = 0;
            if matches!(self.stage, Stage::Text) {
                skipped = memchr(b'<', rest).unwrap_or(rest.len());
                self.note_work(skipped);
            }
            let (text_before, tag) = rest.split_at(skipped);
            self.place = self.place.after(text_before);
            start += skipped;
            if tag.is_empty() {
                return Ok(start);
            }
            let Some(done) = self.advance(tag, sink)? else {
                return Ok(start);
            };
            self.place = self.place.after(tag.get(..done).unwrap_or(tag));
            start += done;
        }
    }

    /// Handles the text at the `<` of `tag` and returns its length, or `None` if it needs more bytes.
    fn advance(&mut self, tag: &[u8], sink: &mut dyn FnMut(Item)) -> Result<Option<usize>, TagError> {
        let mut stage = std::mem::replace(&mut self.stage, Stage::Text);
        loop {
            let flow = match stage {
                Stage::Text => self.begin(tag, sink),
                Stage::Opener(opener) => self.read_opener(tag, opener)?,
                Stage::Malformed { opener, why } => self.read_malformed(tag, opener, why),
                Stage::Content { opener, searched } => self.read_content(tag, opener, searched, sink)?,
                Stage::OtherCase { name, start } => self.read_other_case(tag, name, start),
                Stage::Missed(miss) => self.miss(tag, miss, sink),
            };
            match flow {
                Flow::Become(next) => stage = next,
                Flow::Done(bytes) => return Ok(Some(bytes)),
                Flow::Wait(stage) => {
                    self.stage = stage;
                    return Ok(None);
                }
            }
        }
    }

    fn begin(&mut self, tag: &[u8], sink: &mut dyn FnMut(Item)) -> Flow {
        self.note_work(1);
        match beginning(tag) {
            Beginning::Tag(name) => {
                if let Some(miss) = self.take_open(name) {
                    sink(Item::Missed(miss));
                }
                Flow::Become(Stage::Opener(Opener::new(name)))
            }
            Beginning::WrongCase(name) if name.has_target() => {
                Flow::Become(Stage::Opener(Opener::in_other_case(name)))
            }
            Beginning::WrongCase(name) => text_in_other_case(name, name.opening().len()),
            Beginning::Closing(name, length) => {
                if let Some(miss) = self.take_open(name) {
                    sink(Item::Missed(NearMiss { meant: Meant::Tag, ..miss }));
                    return Flow::Done(length);
                }
                let verdict = Verdict::Settled(Meant::Tag);
                Flow::miss(NearMissReason::NeverOpened(name), verdict, length, length)
            }
            Beginning::NeedsMore if !self.finishing => Flow::Wait(Stage::Text),
            Beginning::NeedsMore | Beginning::Text => Flow::Done(1),
        }
    }

    fn take_open(&mut self, name: TagName) -> Option<NearMiss> {
        let place = self.open.iter().position(|(open, _)| *open == name)?;
        Some(self.open.swap_remove(place).1)
    }

    fn read_opener(&mut self, tag: &[u8], mut opener: Opener) -> Result<Flow, TagError> {
        let name = opener.name;
        let from = opener.at;
        let window = tag.get(..MAX_TAG_BYTES).unwrap_or(tag);
        let reading = opener.read(window);
        self.note_work(opener.at - from);
        let why = match reading {
            Reading::Complete if opener.is_other_case => {
                return Ok(Flow::Become(Stage::OtherCase { name, start: opener.at }));
            }
            Reading::Complete => {
                let searched = opener.at;
                return Ok(Flow::Become(Stage::Content { opener, searched }));
            }
            Reading::NeedsMore if window.len() < MAX_TAG_BYTES && !self.finishing => {
                return Ok(Flow::Wait(Stage::Opener(opener)));
            }
            Reading::NeedsMore if window.len() == MAX_TAG_BYTES && !opener.is_other_case => {
                return Err(TagError::TooLong { name, limit: MAX_TAG_BYTES });
            }
            Reading::TooManyAttributes if !opener.is_other_case => {
                return Err(TagError::TooManyAttributes { name, limit: MAX_TAG_ATTRIBUTES });
            }
            Reading::NeedsMore | Reading::TooManyAttributes => NearMissReason::NoEnd,
            Reading::Malformed(why) => why,
        };
        Ok(Flow::Become(Stage::Malformed { opener, why }))
    }

    /// Decides whether an opening tag whose attributes cannot be read is text. It is not if it has an attribute that
    /// its tag takes; otherwise it depends on whether it is closed.
    fn read_malformed(&mut self, tag: &[u8], opener: Opener, why: NearMissReason) -> Flow {
        let name = opener.name;
        let rest = tag.get(opener.at..).unwrap_or_default();
        let rest = rest.get(..MALFORMED_WINDOW).unwrap_or(rest);
        let end = memchr2(b'<', b'>', rest);
        if end.is_none() && rest.len() < MALFORMED_WINDOW && !self.finishing {
            return Flow::Wait(Stage::Malformed { opener, why });
        }
        self.note_work(end.unwrap_or(rest.len()));
        let (seen, resume) = (opener.at.min(tag.len()), name.opening().len());
        if opener.is_other_case {
            return match end {
                Some(end) if rest.get(end) == Some(&b'>') => {
                    Flow::Become(Stage::OtherCase { name, start: opener.at + end + 1 })
                }
                _ => text_in_other_case(name, seen),
            };
        }
        let names: Vec<&[u8]> = opener.names_before(tag, opener.at + end.unwrap_or(rest.len())).collect();
        let verdict = match names.iter().any(|attribute| name.gives_meaning_to(attribute)) {
            true => Verdict::Settled(Meant::Tag),
            false => Verdict::Open(name),
        };
        Flow::miss(why, verdict, seen, resume)
    }

    fn read_content(
        &mut self,
        tag: &[u8],
        opener: Opener,
        searched: usize,
        sink: &mut dyn FnMut(Item),
    ) -> Result<Flow, TagError> {
        let name = opener.name;
        let start = opener.at;
        let longest_closing = name.closing().len() + MAX_CLOSING_SPACE;
        let longest = start + MAX_TAG_BYTES + longest_closing;
        let window = tag.get(..longest).unwrap_or(tag);
        let unsearched = window.get(searched..).unwrap_or_default();
        let is_bare = opener.attributes.is_empty();
        let given_up = self.unclosable & name.bit() != 0;
        let end = if given_up {
            ContentEnd::NotFound
        } else {
            let end = ContentEnd::find(unsearched, name, !is_bare || name.has_target());
            self.note_work(end.at().unwrap_or(unsearched.len()));
            end
        };
        if let ContentEnd::Closing { at, length } = end {
            let content = Span { start, end: searched + at };
            let end = content.end + length;
            sink(Item::Tag(locate(tag, &opener, content, end, self.place.offset)?));
            return Ok(Flow::Done(end));
        }
        if end == ContentEnd::NotFound {
            let ends_too_late = window.len() == longest;
            if ends_too_late || (self.finishing && window.len() > start + MAX_TAG_BYTES) {
                return Err(TagError::TooLong { name, limit: MAX_TAG_BYTES });
            }
            if !self.finishing {
                // A closing or opening tag may have begun in the last bytes, so these are searched again.
                let searched = start.max(window.len().saturating_sub(longest_closing - 1));
                return Ok(Flow::Wait(Stage::Content { opener, searched }));
            }
            self.unclosable |= name.bit();
        }
        if is_bare && name.has_target() {
            // `<goto>X</Goto>`. All bytes up to the next `<` after the content are there.
            if let Some(Some(content)) = closed_in_other_case(tag, name, start, true) {
                let verdict = Verdict::Settled(Meant::TagIfState(content));
                return Ok(Flow::miss(NearMissReason::WrongCase(name), verdict, start, start));
            }
        }
        let meant = if is_bare { Meant::Text } else { Meant::Tag };
        Ok(Flow::miss(NearMissReason::NeverClosed(name), Verdict::Settled(meant), start, start))
    }

    fn read_other_case(&mut self, tag: &[u8], name: TagName, start: usize) -> Flow {
        match closed_in_other_case(tag, name, start, self.finishing) {
            None => Flow::Wait(Stage::OtherCase { name, start }),
            Some(None) => text_in_other_case(name, start),
            Some(Some(content)) => {
                let verdict = Verdict::Settled(Meant::TagIfState(content));
                Flow::miss(NearMissReason::WrongCase(name), verdict, start, name.opening().len())
            }
        }
    }

    /// Reports text that is not a tag, with its beginning as a quote.
    fn miss(&mut self, tag: &[u8], miss: Miss, sink: &mut dyn FnMut(Item)) -> Flow {
        let Miss { seen, .. } = miss;
        let window = tag.get(..NEAR_MISS_WINDOW).unwrap_or(tag);
        let unseen = window.get(seen..).unwrap_or_default();
        let is_whole = tag.get(seen.saturating_sub(1)) == Some(&b'>');
        let end = match miss.why {
            NearMissReason::NeverClosed(_) => memchr2(b'\n', b'<', unseen),
            _ if is_whole => Some(0),
            _ => memchr3(b'>', b'\n', b'<', unseen),
        };
        if end.is_none() && window.len() < NEAR_MISS_WINDOW && !self.finishing {
            // Wait for a few more bytes, so that the message does not depend on how the text was cut into pieces.
            return Flow::Wait(Stage::Missed(miss));
        }
        let includes_end = end.and_then(|end| unseen.get(end)) == Some(&b'>') && !is_whole;
        let with_end = end.map_or(window.len(), |end| seen + end + usize::from(includes_end));
        let quoted = decode(window.get(..with_end).unwrap_or(window));
        let Place { offset, line, column } = self.place;
        let near_miss = |meant| NearMiss {
            text: clip(quoted.trim_end()),
            why: miss.why.clone(),
            meant,
            range: offset..offset + seen,
            line,
            column,
        };
        match miss.verdict {
            Verdict::Settled(meant) => sink(Item::Missed(near_miss(meant))),
            Verdict::Open(name) => self.open.push((name, near_miss(Meant::Text))),
        }
        Flow::Done(miss.resume)
    }

    /// Counts the bytes that were read, for the tests of linear work.
    #[cfg(test)]
    fn note_work(&mut self, bytes: usize) {
        self.work += bytes as u64;
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the tests' variant counts")]
    fn note_work(&mut self, _bytes: usize) {}
}

/// Where the content of a tag ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentEnd {
    Closing {
        at: usize,
        length: usize,
    },
    /// An opening tag of the same name comes first.
    Opening(usize),
    NotFound,
}

impl ContentEnd {
    fn find(content: &[u8], name: TagName, stops_at_opening: bool) -> ContentEnd {
        if !stops_at_opening {
            let closings = memmem::find_iter(content, name.closing_start());
            return closings
                .filter_map(|at| Self::closing_at(content, at, name))
                .next()
                .unwrap_or(ContentEnd::NotFound);
        }
        for at in memchr_iter(b'<', content) {
            if let Some(closing) = Self::closing_at(content, at, name) {
                return closing;
            }
            let rest = content.get(at..).unwrap_or_default();
            let after_name = rest.strip_prefix(name.opening().as_bytes()).and_then(<[u8]>::first);
            if after_name.is_some_and(|byte| ends_name(*byte)) {
                return ContentEnd::Opening(at);
            }
        }
        ContentEnd::NotFound
    }

    fn closing_at(content: &[u8], at: usize, name: TagName) -> Option<ContentEnd> {
        match at_closing(content.get(at..).unwrap_or_default(), name, <[u8]>::eq) {
            AtClosing::Whole(length) => Some(ContentEnd::Closing { at, length }),
            AtClosing::NeedsMore | AtClosing::Other => None,
        }
    }

    fn at(self) -> Option<usize> {
        match self {
            ContentEnd::Closing { at, .. } | ContentEnd::Opening(at) => Some(at),
            ContentEnd::NotFound => None,
        }
    }
}

fn ends_name(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'>' || byte == b'/'
}

fn text_in_other_case(name: TagName, seen: usize) -> Flow {
    let resume = name.opening().len();
    Flow::miss(NearMissReason::WrongCase(name), Verdict::Settled(Meant::Text), seen, resume)
}

/// The content of a tag, if it is short and followed by a closing tag of its name in any case; `None` if that cannot
/// be said without more bytes.
fn closed_in_other_case(tag: &[u8], name: TagName, start: usize, finishing: bool) -> Option<Option<String>> {
    let rest = tag.get(start..).unwrap_or_default();
    let window = rest.get(..OTHER_CASE_WINDOW).unwrap_or(rest);
    let Some(end) = memchr(b'<', window) else {
        return (finishing || window.len() == OTHER_CASE_WINDOW).then_some(None);
    };
    let (content, after) = rest.split_at(end);
    let is_closed = match at_closing(after, name, <[u8]>::eq_ignore_ascii_case) {
        AtClosing::NeedsMore if !finishing => return None,
        AtClosing::NeedsMore | AtClosing::Other => false,
        AtClosing::Whole(_) => true,
    };
    let content = decode(content).trim().to_owned();
    Some((is_closed && !content.is_empty()).then_some(content))
}

/// Returns what begins at a `<`.
fn beginning(text: &[u8]) -> Beginning {
    let after = text.get(1..).unwrap_or_default();
    if after.starts_with(b"/") {
        return closing(text);
    }
    let window = after.get(..NAME_WINDOW).unwrap_or(after);
    let is_part_of_name = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'-';
    let Some(length) = window.iter().position(|byte| !is_part_of_name(byte)) else {
        let may_become_a_name = |name: &TagName| {
            let begins = name.as_str().as_bytes().get(..window.len());
            begins.is_some_and(|begins| begins.eq_ignore_ascii_case(window))
        };
        let may_become_a_tag = TagName::ALL.iter().any(may_become_a_name);
        return if may_become_a_tag { Beginning::NeedsMore } else { Beginning::Text };
    };
    let (word, rest) = window.split_at(length);
    if !rest.first().is_some_and(|byte| ends_name(*byte)) {
        return Beginning::Text;
    }
    let named = |name: &&TagName| name.as_str().as_bytes().eq_ignore_ascii_case(word);
    match TagName::ALL.iter().find(named) {
        Some(name) if name.as_str().as_bytes() == word => Beginning::Tag(*name),
        Some(name) => Beginning::WrongCase(*name),
        None => Beginning::Text,
    }
}

/// Returns what begins with `</`.
fn closing(text: &[u8]) -> Beginning {
    let mut needs_more = false;
    for name in TagName::ALL {
        match at_closing(text, *name, <[u8]>::eq) {
            AtClosing::Whole(length) => return Beginning::Closing(*name, length),
            AtClosing::NeedsMore => needs_more = true,
            AtClosing::Other => {}
        }
    }
    if needs_more { Beginning::NeedsMore } else { Beginning::Text }
}

/// A tag that ends at `end`, after its closing tag, and begins at `offset` of the whole text.
fn locate(
    bytes: &[u8],
    opener: &Opener,
    content: Span,
    end: usize,
    offset: usize,
) -> Result<Located, TagError> {
    let shifted = |span: &Span| -> Range<usize> { offset + span.start..offset + span.end };
    Ok(Located {
        tag: complete(bytes, opener, content)?,
        range: offset..offset + end,
        content: shifted(&content),
        attributes: opener.attributes.iter().map(|(name, value)| (shifted(name), shifted(value))).collect(),
    })
}

/// Decodes a tag whose closing tag was found.
fn complete(bytes: &[u8], opener: &Opener, content: Span) -> Result<Tag, TagError> {
    let decode_attribute =
        |(name, value): &(Span, Span)| (decode(name.of(bytes)), unescape_attribute(&decode(value.of(bytes))));
    let tag = Tag {
        name: opener.name,
        attributes: opener.attributes.iter().map(decode_attribute).collect(),
        content: decode(content.of(bytes)),
    };
    // A replaced byte becomes three bytes, so a text that was short enough may now be too long.
    let is_too_long = |text: &String| text.len() > MAX_TAG_BYTES;
    if is_too_long(&tag.content) || tag.attributes.iter().any(|(_, value)| is_too_long(value)) {
        return Err(TagError::TooLong { name: tag.name, limit: MAX_TAG_BYTES });
    }
    Ok(tag)
}
