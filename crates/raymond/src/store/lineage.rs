//! The history of a run that begins in another run.
//!
//! The journal of such a run begins with an event that names its origin: a run, and the last event that both have.
//! Nothing of that history is copied. So reading a run means to read the origin up to that event and then its own
//! journal, and the origin may have an origin itself. A run that was rewound has several parts in its own journal: each
//! begins with such an event, and names the run itself as its origin.
//!
//! Every form of store is read through here. It says what its own journals hold ([`Journals`]).
//!
//! Bound: [`MAX_ORIGINS`].

use std::fmt::Debug;

use raymond_core::event::{Body, Event, Origin};
use raymond_core::run::Run;

use super::error::StoreError;
use super::fold::Folding;
use super::home::{Events, Start};
use super::payload::PayloadSource;

/// How many origins a run may have, one behind the other.
pub const MAX_ORIGINS: usize = 1000;

/// The journal of one run, without the history that other runs hold.
pub(super) trait Journals: Clone + Debug + Send + Sync + 'static {
    fn run_id(&self) -> &str;

    /// Where the journal is, in words for people.
    fn shown_place(&self) -> String;

    /// The journal of another run in the same store.
    fn other(&self, id: &str) -> Result<Self, StoreError>;

    /// The newest part of the journal that begins with an event up to this number.
    fn part(&self, up_to: u64) -> Result<Part, StoreError>;

    /// The first event of a part; none if nothing is recorded yet.
    fn first_of(&self, part: Part) -> Result<Option<Event>, StoreError>;

    /// Whether a snapshot in this part makes the history before it needless for the state after an event.
    fn has_snapshot(&self, part: Part, up_to: u64) -> Result<bool, StoreError>;

    /// The events of a part, and of what follows it in the journal.
    fn events_of(&self, part: Part, start: Start) -> Result<Box<dyn Events>, StoreError>;

    /// A text that this run has stored itself.
    fn own_payload(&self, hash: &str) -> Result<String, StoreError>;
}

/// A part of a journal: from its beginning, or from where the run was rewound, up to the next such place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The segment that it begins with.
    pub(super) segment: u32,
}

/// Where the history before an event is, if it says so.
pub(super) fn origin_of(event: &Event) -> Option<&Origin> {
    match &event.body {
        Body::RunStarted(started) => started.origin.as_ref(),
        _ => None,
    }
}

/// The events of a run and of its origins.
pub(super) fn events<J: Journals>(journal: &J, start: Start) -> Result<History<J>, StoreError> {
    history(journal, start, u64::MAX)
}

fn history<J: Journals>(journal: &J, start: Start, up_to: u64) -> Result<History<J>, StoreError> {
    let mut legs = Vec::new();
    let mut walk = Walk::from(journal, up_to);
    while let Some((journal, part, up_to)) = walk.part()? {
        let mut start = start;
        if let Start::SnapshotUpTo(seq) = &mut start {
            *seq = up_to.min(*seq);
            if journal.has_snapshot(part, *seq)? {
                walk.stop();
            }
        }
        let leg = Leg { journal, part, start, up_to, reader: None };
        legs.push(leg);
        if let (Some(origin), Start::After(seq)) = (walk.go_on()?, start)
            && seq >= origin.seq
        {
            walk.stop();
        }
    }
    let after = if let Start::After(seq) = start { seq } else { 0 };
    Ok(History { legs, after, last_seq: 0, rewound: None })
}

/// The state after an event.
pub(super) fn state_after<J: Journals>(journal: &J, seq: u64) -> Result<Run, StoreError> {
    let mut events = history(journal, Start::SnapshotUpTo(seq), seq)?;
    let mut folding = Folding::default();
    let mut last = 0;
    while let Some(batch) = events.next_batch()? {
        for event in batch {
            last = event.seq;
            folding.take(event, &|| journal.shown_place(), 0)?;
        }
    }
    if last < seq {
        return Err(missing(journal, seq, last));
    }
    folding.finish(&|| journal.shown_place())
}

/// The state at the point where the history of a run leaves its origin.
pub(super) fn state_at_origin<J: Journals>(journal: &J, origin: &Origin) -> Result<Run, StoreError> {
    let before = journal.other(&origin.run)?;
    state_after(&before, origin.seq).map_err(|error| lost(journal.run_id(), &origin.run, error))
}

/// All origins of a run, the nearest first.
pub(super) fn origins<J: Journals>(journal: &J) -> Result<Vec<Origin>, StoreError> {
    let mut found = Vec::new();
    let mut walk = Walk::from(journal, u64::MAX);
    while walk.part()?.is_some() {
        found.extend(walk.go_on()?);
    }
    Ok(found)
}

/// Goes from the newest part of a run to its origin, and from there to the origin of that.
struct Walk<J> {
    /// The journal whose turn it is, and the last event that is read from it.
    at: Option<(J, u64)>,
    part: Part,
    /// The run that came before, and what it says about this one.
    from: Option<(String, Origin)>,
    steps: usize,
}

impl<J: Journals> Walk<J> {
    fn from(journal: &J, up_to: u64) -> Self {
        Self { at: Some((journal.clone(), up_to)), part: Part { segment: 0 }, from: None, steps: 0 }
    }

    /// The part whose turn it is.
    fn part(&mut self) -> Result<Option<(J, Part, u64)>, StoreError> {
        let Some((journal, up_to)) = &self.at else { return Ok(None) };
        self.steps += 1;
        if self.steps > MAX_ORIGINS {
            let what = format!("it has more than {MAX_ORIGINS} origins, one behind the other");
            return Err(StoreError::damaged(journal.shown_place(), 0, what, b""));
        }
        self.part = journal.part(*up_to).map_err(|error| self.explained(error))?;
        Ok(Some((journal.clone(), self.part, *up_to)))
    }

    /// Goes to the origin of this part, and returns it.
    fn go_on(&mut self) -> Result<Option<Origin>, StoreError> {
        let Some((journal, up_to)) = self.at.take() else { return Ok(None) };
        let first = journal.first_of(self.part).map_err(|error| self.explained(error))?;
        let Some(origin) = first.as_ref().and_then(origin_of) else { return Ok(None) };
        // The point may be one before this run left its origin.
        self.at = Some((journal.other(&origin.run)?, origin.seq.min(up_to)));
        self.from = Some((journal.run_id().to_owned(), origin.clone()));
        Ok(Some(origin.clone()))
    }

    fn stop(&mut self) {
        self.at = None;
    }

    fn explained(&self, error: StoreError) -> StoreError {
        match &self.from {
            Some((run, origin)) => lost(run, &origin.run, error),
            None => error,
        }
    }
}

fn missing(journal: &impl Journals, wanted: u64, last: u64) -> StoreError {
    let what = format!("event {wanted} is needed, but the last one is {last}");
    StoreError::damaged(journal.shown_place(), 0, what, b"")
}

/// An error in the journal of an origin. In the run itself it is damage like any other.
fn lost(run: &str, origin: &str, why: StoreError) -> StoreError {
    match run == origin {
        true => why,
        false => {
            StoreError::OriginLost { run: run.to_owned(), origin: origin.to_owned(), why: Box::new(why) }
        }
    }
}

/// One part of a history.
#[derive(Debug)]
struct Leg<J> {
    journal: J,
    part: Part,
    start: Start,
    /// The last event that is read from it.
    up_to: u64,
    reader: Option<Box<dyn Events>>,
}

impl<J: Journals> Leg<J> {
    /// The next batch of the part, without what does not belong to the history.
    fn next_batch(&mut self) -> Result<Option<Vec<Event>>, StoreError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(self.journal.events_of(self.part, self.start)?),
        };
        let Some(mut batch) = reader.next_batch()? else { return Ok(None) };
        batch.retain(|event| event.seq <= self.up_to);
        Ok(Some(batch).filter(|batch| !batch.is_empty()))
    }
}

/// Reads the events of a run and of its origins in order.
#[derive(Debug)]
pub(super) struct History<J> {
    /// What is still to be read, the last first. The last one that is left is never removed: it may grow.
    legs: Vec<Leg<J>>,
    /// Events up to this one are not wanted.
    after: u64,
    last_seq: u64,
    /// What comes behind a rewind that happened while the run was followed.
    rewound: Option<Vec<Event>>,
}

impl<J: Journals> Events for History<J> {
    fn next_batch(&mut self) -> Result<Option<Vec<Event>>, StoreError> {
        if let Some(batch) = self.rewound.take() {
            return Ok(Some(batch));
        }
        loop {
            let is_last = self.legs.len() == 1;
            let Some(leg) = self.legs.last_mut() else { return Ok(None) };
            match leg.next_batch() {
                Ok(Some(batch)) => return self.give_out(batch).map(Some),
                Ok(None) if is_last => return Ok(None),
                // Nothing of a history may be left out silently.
                Ok(None) if self.last_seq.max(self.after) < leg.up_to => {
                    let error = missing(&leg.journal, leg.up_to, self.last_seq);
                    return Err(self.explained(error));
                }
                Ok(None) => drop(self.legs.pop()),
                Err(error) => return Err(self.explained(error)),
            }
        }
    }
}

impl<J: Journals> History<J> {
    /// An error in the part that is read now: if that is an origin, says whose.
    fn explained(&self, error: StoreError) -> StoreError {
        match &self.legs[..] {
            [.., newer, origin] => lost(newer.journal.run_id(), origin.journal.run_id(), error),
            _ => error,
        }
    }

    /// Hands on a batch. A reader that has seen more than the history now has gets the state at that point first, as
    /// where events were deleted.
    fn give_out(&mut self, batch: Vec<Event>) -> Result<Vec<Event>, StoreError> {
        let seen = self.last_seq;
        self.last_seq = batch.last().map_or(seen, |event| event.seq);
        let Some((first, origin)) = batch.first().and_then(|event| Some((event, origin_of(event)?))) else {
            return Ok(batch);
        };
        if seen == 0 || seen == origin.seq {
            return Ok(batch);
        }
        let Some(leg) = self.legs.last() else { return Ok(batch) };
        let state = Box::new(state_at_origin(&leg.journal, origin)?);
        let (seq, time, run) = (first.seq - 1, first.time, first.run.clone());
        let snapshot = Event { seq, time, run, body: Body::Snapshot { state } };
        self.rewound = Some(batch);
        Ok(vec![snapshot])
    }
}

/// The texts of a run and of its origins.
#[derive(Debug)]
pub(super) struct SharedPayloads<J>(pub(super) J);

impl<J: Journals> PayloadSource for SharedPayloads<J> {
    fn get(&self, hash: &str) -> Result<String, StoreError> {
        payload(&self.0, hash)
    }
}

/// A text that a run or one of its origins has stored.
pub(super) fn payload<J: Journals>(journal: &J, hash: &str) -> Result<String, StoreError> {
    let own = journal.own_payload(hash);
    if !matches!(own, Err(StoreError::PayloadMissing { .. })) {
        return own;
    }
    // Without a readable journal there is no other place to look.
    for origin in origins(journal).unwrap_or_default() {
        match journal.other(&origin.run)?.own_payload(hash) {
            Err(StoreError::PayloadMissing { .. }) => {}
            found => return found,
        }
    }
    own
}
