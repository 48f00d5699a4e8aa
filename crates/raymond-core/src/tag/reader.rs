//! The incremental reader.

use memchr::{memchr, memchr2, memmem};

use super::opener::{Opener, Reading, Span};
use super::{
    MAX_BRIEF_CHARS, NearMiss, NearMissReason, Tag, TagError, TagName, clip, decode, unescape_attribute,
};
use crate::limits::{MAX_TAG_ATTRIBUTES, MAX_TAG_BYTES};

/// What the reader is in the middle of; everything but `Text` begins at a `<`.
#[derive(Debug)]
enum Stage {
    Text,
    Opener(Opener),
    /// The closing tag is looked for; it does not begin before `searched`.
    Content {
        opener: Opener,
        searched: usize,
    },
    /// What looked like a tag is text; scanning goes on at `resume`.
    Missed {
        why: NearMissReason,
        seen: usize,
        resume: usize,
    },
}

/// What follows from looking at a stage with the bytes there are.
enum Flow {
    /// Go on with this stage right away.
    Become(Stage),
    /// Come back with this stage when there are more bytes.
    Wait(Stage),
    /// These many bytes are dealt with.
    Done(usize),
}

/// What stands after a `<`.
pub(super) enum Beginning {
    Tag(TagName),
    WrongCase(TagName),
    NeedsMore,
    Text,
}

/// How many bytes the longest name has, and one more that shows that it ended.
const NAME_WINDOW: usize = TagName::MAX_NAME_BYTES + 1;

/// How many bytes are looked at for the text of a near miss: 80 characters of any length.
const NEAR_MISS_WINDOW: usize = 4 * MAX_BRIEF_CHARS;

/// In which portions bytes are added to those held back, so that holding a few does not mean copying the rest.
const PORTION: usize = 64 * 1024;

/// Reads tags out of bytes that arrive in pieces.
#[derive(Debug)]
pub struct TagReader {
    /// The bytes of a tag that is not complete yet; they begin with its `<`.
    pub(super) held: Vec<u8>,
    stage: Stage,
    /// Whether no more bytes can come.
    finishing: bool,
    /// The names (as bits) whose closing tag is known not to come any more.
    unclosable: u16,
    pub(super) near_miss: Option<NearMiss>,
    failed: Option<TagError>,
    #[cfg(test)]
    pub(super) work: u64,
}

impl Default for TagReader {
    fn default() -> Self {
        Self::new()
    }
}

impl TagReader {
    #[must_use]
    pub fn new() -> Self {
        Self {
            held: Vec::new(),
            stage: Stage::Text,
            finishing: false,
            unclosable: 0,
            near_miss: None,
            failed: None,
            #[cfg(test)]
            work: 0,
        }
    }

    /// Takes the next bytes and hands every tag that they complete to `sink`.
    ///
    /// # Errors
    ///
    /// When a bound is exceeded; every later call then fails in the same way.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Tag)) -> Result<(), TagError> {
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

    /// Says that no more bytes come: what is still open is text, and is scanned for tags as such.
    ///
    /// # Errors
    ///
    /// When a bound is exceeded, now or earlier.
    pub fn finish(mut self, sink: &mut dyn FnMut(Tag)) -> Result<Option<NearMiss>, TagError> {
        self.finish_in_place(sink)?;
        Ok(self.near_miss)
    }

    pub(super) fn finish_in_place(&mut self, sink: &mut dyn FnMut(Tag)) -> Result<(), TagError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.finishing = true;
        let held = std::mem::take(&mut self.held);
        self.scan(&held, sink)?;
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Tag)) -> Result<(), TagError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.held.is_empty() {
                // The usual case: nothing is open, so the bytes are scanned where they are. What is left over is
                // bounded, because a tag that gets too long is an error.
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

    /// Scans as far as can be told by now, and says how many bytes are dealt with.
    fn scan(&mut self, text: &[u8], sink: &mut dyn FnMut(Tag)) -> Result<usize, TagError> {
        let mut start = 0;
        loop {
            let rest = text.get(start..).unwrap_or_default();
            if matches!(self.stage, Stage::Text) {
                let skipped = memchr(b'<', rest).unwrap_or(rest.len());
                self.note_work(skipped);
                start += skipped;
                if skipped == rest.len() {
                    return Ok(start);
                }
            }
            let tag = text.get(start..).unwrap_or_default();
            let Some(done) = self.advance(tag, sink)? else {
                return Ok(start);
            };
            start += done;
        }
    }

    /// Deals with what begins at the `<` of `tag`: how many bytes it was, or nothing if that needs more bytes.
    fn advance(&mut self, tag: &[u8], sink: &mut dyn FnMut(Tag)) -> Result<Option<usize>, TagError> {
        let mut stage = std::mem::replace(&mut self.stage, Stage::Text);
        loop {
            let flow = match stage {
                Stage::Text => self.begin(tag),
                Stage::Opener(opener) => self.read_opener(tag, opener)?,
                Stage::Content { opener, searched } => self.read_content(tag, opener, searched, sink)?,
                Stage::Missed { why, seen, resume } => self.miss(tag, why, seen, resume),
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

    fn begin(&mut self, tag: &[u8]) -> Flow {
        self.note_work(1);
        match beginning(tag) {
            Beginning::Tag(name) => Flow::Become(Stage::Opener(Opener::new(name))),
            Beginning::WrongCase(name) => {
                let seen = name.opening().len();
                Flow::Become(Stage::Missed { why: NearMissReason::WrongCase(name), seen, resume: seen })
            }
            Beginning::NeedsMore if !self.finishing => Flow::Wait(Stage::Text),
            Beginning::NeedsMore | Beginning::Text => Flow::Done(1),
        }
    }

    fn read_opener(&mut self, tag: &[u8], mut opener: Opener) -> Result<Flow, TagError> {
        let name = opener.name;
        let from = opener.at;
        let window = tag.get(..MAX_TAG_BYTES).unwrap_or(tag);
        let reading = opener.read(window);
        self.note_work(opener.at - from);
        let why = match reading {
            Reading::Complete => {
                let searched = opener.at;
                return Ok(Flow::Become(Stage::Content { opener, searched }));
            }
            Reading::NeedsMore if window.len() == MAX_TAG_BYTES => {
                return Err(TagError::TooLong { name, limit: MAX_TAG_BYTES });
            }
            Reading::NeedsMore if !self.finishing => return Ok(Flow::Wait(Stage::Opener(opener))),
            Reading::NeedsMore => NearMissReason::NoEnd,
            Reading::Malformed(why) => why,
            Reading::TooManyAttributes => {
                return Err(TagError::TooManyAttributes { name, limit: MAX_TAG_ATTRIBUTES });
            }
        };
        let resume = name.opening().len();
        Ok(Flow::Become(Stage::Missed { why, seen: opener.at, resume }))
    }

    fn read_content(
        &mut self,
        tag: &[u8],
        opener: Opener,
        searched: usize,
        sink: &mut dyn FnMut(Tag),
    ) -> Result<Flow, TagError> {
        let name = opener.name;
        let start = opener.at;
        let closing = name.closing().as_bytes();
        let longest = start + MAX_TAG_BYTES + closing.len();
        let window = tag.get(..longest).unwrap_or(tag);
        let unsearched = window.get(searched..).unwrap_or_default();
        let given_up = self.unclosable & name.bit() != 0;
        let found = if given_up { None } else { memmem::find(unsearched, closing) };
        if !given_up {
            self.note_work(found.unwrap_or(unsearched.len()));
        }
        if let Some(found) = found {
            let content = Span { start, end: searched + found };
            sink(complete(tag, &opener, content)?);
            return Ok(Flow::Done(content.end + closing.len()));
        }
        let ends_too_late = window.len() == longest;
        if ends_too_late || (self.finishing && window.len() > start + MAX_TAG_BYTES) {
            return Err(TagError::TooLong { name, limit: MAX_TAG_BYTES });
        }
        if !self.finishing {
            // The closing tag may have begun in the last bytes, so these are searched again.
            let searched = start.max(window.len().saturating_sub(closing.len() - 1));
            return Ok(Flow::Wait(Stage::Content { opener, searched }));
        }
        self.unclosable |= name.bit();
        Ok(Flow::Become(Stage::Missed { why: NearMissReason::NeverClosed(name), seen: start, resume: start }))
    }

    /// Passes over what is no tag after all, and remembers the first one.
    fn miss(&mut self, tag: &[u8], why: NearMissReason, seen: usize, resume: usize) -> Flow {
        if self.near_miss.is_some() {
            return Flow::Done(resume);
        }
        let window = tag.get(..NEAR_MISS_WINDOW).unwrap_or(tag);
        let unseen = window.get(seen..).unwrap_or_default();
        let end = match why {
            NearMissReason::NeverClosed(_) => memchr(b'\n', unseen),
            _ => memchr2(b'>', b'\n', unseen),
        };
        if end.is_none() && window.len() < NEAR_MISS_WINDOW && !self.finishing {
            // A few more bytes make the message readable, and the same however the text arrives.
            return Flow::Wait(Stage::Missed { why, seen, resume });
        }
        let with_end = end.map_or(window.len(), |end| seen + end + 1);
        let quoted = decode(window.get(..with_end).unwrap_or(window));
        self.near_miss = Some(NearMiss { text: clip(quoted.trim_end()), why });
        Flow::Done(resume)
    }

    /// Counts the bytes looked at, for the tests that show that the work is linear.
    #[cfg(test)]
    fn note_work(&mut self, bytes: usize) {
        self.work += bytes as u64;
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the tests' variant counts")]
    fn note_work(&mut self, _bytes: usize) {}
}

/// Tells what the text at a `<` begins with.
pub(super) fn beginning(text: &[u8]) -> Beginning {
    let after = text.get(1..).unwrap_or_default();
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
    if !rest.first().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'>' || *byte == b'/') {
        return Beginning::Text;
    }
    let named = |name: &&TagName| name.as_str().as_bytes().eq_ignore_ascii_case(word);
    match TagName::ALL.iter().find(named) {
        Some(name) if name.as_str().as_bytes() == word => Beginning::Tag(*name),
        Some(name) => Beginning::WrongCase(*name),
        None => Beginning::Text,
    }
}

/// Decodes a tag whose closing tag was found.
pub(super) fn complete(bytes: &[u8], opener: &Opener, content: Span) -> Result<Tag, TagError> {
    let decode_attribute =
        |(name, value): &(Span, Span)| (decode(name.of(bytes)), unescape_attribute(&decode(value.of(bytes))));
    let tag = Tag {
        name: opener.name,
        attributes: opener.attributes.iter().map(decode_attribute).collect(),
        content: decode(content.of(bytes)),
    };
    // A replaced byte takes three, so text that was short enough may have become too long to be passed on.
    let is_too_long = |text: &String| text.len() > MAX_TAG_BYTES;
    if is_too_long(&tag.content) || tag.attributes.iter().any(|(_, value)| is_too_long(value)) {
        return Err(TagError::TooLong { name: tag.name, limit: MAX_TAG_BYTES });
    }
    Ok(tag)
}
