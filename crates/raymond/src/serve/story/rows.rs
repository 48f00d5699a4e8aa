//! The rows of a story, and how they are written.

use jiff::Timestamp;
use raymond_core::money::Usd;
use raymond_core::tag::TagName;

use super::Word;
use super::table::{Row, TextPlace};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub number: u64,
    /// The run whose process started it last: this one, or the origin of its history.
    pub run: Word,
    pub agent: Word,
    pub state: Word,
    /// The workflow it is in, if that is not the run's own.
    pub scope: Option<Word>,
    pub started: Timestamp,
    pub started_seq: u64,
    pub attempts: u32,
    /// The event that handed it its input.
    pub given_seq: Option<u64>,
    pub end: Option<End>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    pub at: Timestamp,
    pub seq: u64,
    pub duration_ms: u64,
    pub cost: Usd,
    pub how: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Done {
        tag: TagName,
        target: Option<Word>,
        next: Option<Word>,
    },
    Failed,
    /// Its program was ended before it was done; it runs again when the run is resumed.
    Interrupted,
}

impl Step {
    /// How it had ended by the time of an event.
    pub fn end_at(&self, seq: u64) -> Option<&End> {
        self.end.as_ref().filter(|end| end.seq <= seq)
    }
}

/// A way of a workflow's graph that was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// The event that tells of it.
    pub seq: u64,
    /// The workflow, if that is not the run's own.
    pub scope: Option<Word>,
    /// The nodes of the graph.
    pub from: Word,
    pub to: Word,
    pub by: By,
    /// Whether it takes back a way that was told before.
    pub is_taken_back: bool,
}

/// Why a way is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    Tag(TagName),
    /// The agent goes on beside the workers that it has forked.
    Next,
    /// A question was not answered in time.
    Timeout,
    /// The workflow begins.
    Start,
}

impl By {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tag(tag) => tag.as_str(),
            Self::Next => "next",
            Self::Timeout => "timeout",
            Self::Start => "start",
        }
    }
}

/// A time in which an agent ran no step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    pub agent: Word,
    pub state: Word,
    pub kind: PauseKind,
    pub from: Timestamp,
    pub from_seq: u64,
    /// When it ended, and with which event.
    pub to: Option<(Timestamp, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseKind {
    Wait,
    Ask,
    Join,
    Delay,
    Limit,
}

impl PauseKind {
    const ALL: [Self; 5] = [Self::Wait, Self::Ask, Self::Join, Self::Delay, Self::Limit];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Ask => "ask",
            Self::Join => "join",
            Self::Delay => "delay",
            Self::Limit => "limit",
        }
    }
}

/// A text for people whose words are in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OldPrint {
    pub seq: u64,
    pub time: Timestamp,
    pub agent: Word,
    pub text: TextPlace,
}

impl Row for Step {
    const BYTES: usize = 12 * 8;

    fn write(&self, bytes: &mut Vec<u8>) {
        let mut out = Writer(bytes);
        out.number(self.number);
        out.words(Some(self.run), Some(self.agent));
        out.words(Some(self.state), self.scope);
        out.time(self.started);
        out.number(self.started_seq);
        // No event has the number 0.
        out.number(self.given_seq.unwrap_or(0));
        // What the end of a step lacks is zero.
        let (how, tag, target, next) = match self.end.map(|end| end.how) {
            None => (0, 0, None, None),
            Some(How::Done { tag, target, next }) => (1, tag as u64, target, next),
            Some(How::Failed) => (2, 0, None, None),
            Some(How::Interrupted) => (3, 0, None, None),
        };
        out.number(u64::from(self.attempts) << 32 | tag << 8 | how);
        out.words(target, next);
        out.time(self.end.map_or(Timestamp::UNIX_EPOCH, |end| end.at));
        out.number(self.end.map_or(0, |end| end.seq));
        out.number(self.end.map_or(0, |end| end.duration_ms));
        out.number(self.end.map_or(0.0, |end| end.cost.dollars()).to_bits());
    }

    fn read(bytes: &[u8]) -> Self {
        let mut from = Reader(bytes);
        let number = from.number();
        let (run, agent) = from.words();
        let (state, scope) = from.words();
        let (started, started_seq) = (from.time(), from.number());
        let given_seq = Some(from.number()).filter(|seq| *seq > 0);
        let kinds = from.number();
        let (target, next) = from.words();
        let (at, seq, duration_ms) = (from.time(), from.number(), from.number());
        let cost = Usd::from_dollars(f64::from_bits(from.number()));
        let tag = tag_of(kinds);
        let how = match kinds & 0xff {
            1 => Some(How::Done { tag, target, next }),
            2 => Some(How::Failed),
            3 => Some(How::Interrupted),
            _ => None,
        };
        Self {
            number,
            run: run.unwrap_or_default(),
            agent: agent.unwrap_or_default(),
            state: state.unwrap_or_default(),
            scope,
            started,
            started_seq,
            attempts: (kinds >> 32) as u32,
            given_seq,
            end: how.map(|how| End { at, seq, duration_ms, cost, how }),
        }
    }
}

impl Row for Way {
    const BYTES: usize = 4 * 8;

    fn write(&self, bytes: &mut Vec<u8>) {
        let mut out = Writer(bytes);
        out.number(self.seq);
        out.words(Some(self.from), Some(self.to));
        out.words(self.scope, None);
        let (kind, tag) = match self.by {
            By::Tag(tag) => (0, tag as u64),
            By::Next => (1, 0),
            By::Timeout => (2, 0),
            By::Start => (3, 0),
        };
        out.number(u64::from(self.is_taken_back) << 16 | tag << 8 | kind);
    }

    fn read(bytes: &[u8]) -> Self {
        let mut from = Reader(bytes);
        let seq = from.number();
        let (began, ended) = from.words();
        let scope = from.words().0;
        let kinds = from.number();
        Self {
            seq,
            scope,
            from: began.unwrap_or_default(),
            to: ended.unwrap_or_default(),
            by: match kinds & 0xff {
                1 => By::Next,
                2 => By::Timeout,
                3 => By::Start,
                _ => By::Tag(tag_of(kinds)),
            },
            is_taken_back: kinds >> 16 == 1,
        }
    }
}

/// The tag whose number is in the second byte.
fn tag_of(kinds: u64) -> TagName {
    TagName::ALL.get((kinds >> 8 & 0xff) as usize).copied().unwrap_or(TagName::Goto)
}

impl Row for Pause {
    const BYTES: usize = 6 * 8;

    fn write(&self, bytes: &mut Vec<u8>) {
        let mut out = Writer(bytes);
        out.words(Some(self.agent), Some(self.state));
        out.number(self.kind as u64);
        out.time(self.from);
        out.number(self.from_seq);
        // No event has the number 0.
        let (time, seq) = self.to.unwrap_or((Timestamp::UNIX_EPOCH, 0));
        out.time(time);
        out.number(seq);
    }

    fn read(bytes: &[u8]) -> Self {
        let mut from = Reader(bytes);
        let (agent, state) = from.words();
        let kind = PauseKind::ALL.get(from.number() as usize).copied().unwrap_or(PauseKind::Wait);
        let (began, from_seq) = (from.time(), from.number());
        let (time, seq) = (from.time(), from.number());
        Self {
            agent: agent.unwrap_or_default(),
            state: state.unwrap_or_default(),
            kind,
            from: began,
            from_seq,
            to: (seq > 0).then_some((time, seq)),
        }
    }
}

impl Row for OldPrint {
    const BYTES: usize = 5 * 8;

    fn write(&self, bytes: &mut Vec<u8>) {
        let mut out = Writer(bytes);
        out.number(self.seq);
        out.time(self.time);
        out.words(Some(self.agent), None);
        out.number(self.text.offset);
        out.number(self.text.bytes);
    }

    fn read(bytes: &[u8]) -> Self {
        let mut from = Reader(bytes);
        let (seq, time) = (from.number(), from.time());
        let agent = from.words().0.unwrap_or_default();
        Self { seq, time, agent, text: TextPlace { offset: from.number(), bytes: from.number() } }
    }
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A word that is missing is the largest number.
    fn words(&mut self, first: Option<Word>, second: Option<Word>) {
        let (first, second) = (first.unwrap_or(Word::MAX), second.unwrap_or(Word::MAX));
        self.number(u64::from(first) << 32 | u64::from(second));
    }

    fn time(&mut self, time: Timestamp) {
        let nanos = i64::try_from(time.as_nanosecond()).unwrap_or_default();
        self.number(nanos.cast_unsigned());
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> u64 {
        let Some((first, rest)) = self.0.split_first_chunk() else { return 0 };
        self.0 = rest;
        u64::from_le_bytes(*first)
    }

    fn words(&mut self) -> (Option<Word>, Option<Word>) {
        let both = self.number();
        let word = |word: u64| Some(word as Word).filter(|word| *word != Word::MAX);
        (word(both >> 32), word(both & u64::from(Word::MAX)))
    }

    fn time(&mut self) -> Timestamp {
        let nanos = self.number().cast_signed();
        Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same<R: Row + PartialEq + std::fmt::Debug>(row: R) {
        let mut bytes = Vec::new();
        row.write(&mut bytes);
        assert_eq!(bytes.len(), R::BYTES);
        assert_eq!(R::read(&bytes), row);
    }

    #[test]
    fn a_way_is_read_as_it_was_written() {
        let tags = TagName::ALL.iter().map(|tag| By::Tag(*tag));
        for by in tags.chain([By::Next, By::Timeout, By::Start]) {
            for (scope, is_taken_back) in [(None, false), (Some(3), true)] {
                same(Way { seq: 4, scope, from: 1, to: 2, by, is_taken_back });
            }
        }
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let time: Timestamp = "2026-03-01T12:00:00.123456789Z".parse().unwrap();
        let step = Step {
            number: 7,
            run: 0,
            agent: 1,
            state: 2,
            scope: None,
            started: time,
            started_seq: 12,
            attempts: 3,
            given_seq: Some(9),
            end: None,
        };
        same(step);
        let cost = Usd::from_dollars(0.25);
        let hows = TagName::ALL.iter().map(|tag| How::Done { tag: *tag, target: Some(4), next: None });
        for how in hows.chain([How::Failed, How::Interrupted]) {
            let end = End { at: time, seq: 14, duration_ms: 250, cost, how };
            same(Step { scope: Some(9), end: Some(end), ..step });
        }
        for kind in PauseKind::ALL {
            let pause = Pause { agent: 1, state: 2, kind, from: time, from_seq: 3, to: None };
            same(pause);
            same(Pause { to: Some((time, 5)), ..pause });
        }
        same(OldPrint { seq: 3, time, agent: 1, text: TextPlace { offset: 5, bytes: 7 } });
    }
}
