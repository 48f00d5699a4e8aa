//! A new run with the history of another one up to a point.

use jiff::Timestamp;
use raymond_core::decide;
use raymond_core::event::{Event, Moved, Origin};
use raymond_core::run::Options;

use super::point::Point;
use crate::store::{JournalOptions, RunHandle, RunStore, RunWriter, StoreError};

/// How a branch differs from what it branches off.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The options that it goes on with.
    pub options: Options,
    /// Whether the cost of its history does not count.
    pub reset_cost: bool,
    /// Sessions that it does not continue.
    pub forgotten: Vec<String>,
    /// The folders that are not those of the other run.
    pub moved: Moved,
    /// If it keeps what a rewind drops: the last event that the other run still has.
    pub kept_from: Option<u64>,
}

/// Creates a run that goes on from a point in the history of another one, which is not touched and may be live.
pub fn branch(
    store: &dyn RunStore,
    id: &str,
    journal: JournalOptions,
    now: Timestamp,
    from: (&str, &Point),
    how: Branch,
) -> Result<(), StoreError> {
    begin(store, (id, store.create(id, journal)?), now, from, how)
}

/// Lets a run that was created go on from a point in the history of another one.
///
/// This writes its first event. Before that there is no run; behind it the run is whole.
pub fn begin(
    store: &dyn RunStore,
    (id, mut writer): (&str, Box<dyn RunWriter>),
    now: Timestamp,
    (origin, point): (&str, &Point),
    how: Branch,
) -> Result<(), StoreError> {
    let named = Origin {
        run: origin.to_owned(),
        seq: point.seq,
        step: point.step,
        reset_cost: how.reset_cost,
        forgotten: how.forgotten,
        dropped: None,
        kept_from: how.kept_from,
    };
    let mut state = point.state.clone();
    state.options = how.options;
    let nonce = uuid::Uuid::new_v4().to_string();
    let body = decide::branch(&state, nonce, named, how.moved);
    writer.commit(&[Event { seq: point.seq + 1, time: now, run: id.to_owned(), body }])?;
    drop(writer);
    // A live origin may have deleted the events meanwhile.
    store.run(id)?.load().map(drop)
}

/// Where a run left the one that it goes on from, if it is a branch. A run that was rewound is among its own origins, and may
/// have been taken back further than that.
pub fn branched_off(run: &dyn RunHandle) -> Result<Option<Origin>, StoreError> {
    let origins = run.origins()?;
    let Some(at) = origins.iter().position(|origin| origin.run != run.id()) else { return Ok(None) };
    let mut left = origins[at].clone();
    if let Some(back) =
        origins[..at].iter().min_by_key(|origin| origin.seq).filter(|back| back.seq < left.seq)
    {
        (left.seq, left.step) = (back.seq, back.step);
    }
    Ok(Some(left))
}

/// The runs that keep what rewinds of this one have dropped, the newest first.
pub fn keepers_of(store: &dyn RunStore, id: &str) -> Result<Vec<String>, StoreError> {
    let keeps = |(run, origin): (String, Origin)| origin.kept_from.map(|_| (origin.seq, run));
    let mut keepers: Vec<(u64, String)> = branches_of(store, id)?.into_iter().filter_map(keeps).collect();
    keepers.sort_unstable_by(|one, other| other.cmp(one));
    Ok(keepers.into_iter().map(|(_, run)| run).collect())
}

/// The runs that go on from this one, each with the point at which it left it.
pub fn branches_of(store: &dyn RunStore, id: &str) -> Result<Vec<(String, Origin)>, StoreError> {
    let branch = |run: &dyn RunHandle| {
        // One damaged journal must not hide the others.
        let origin = branched_off(run).ok().flatten().filter(|origin| origin.run == id)?;
        Some((run.id().to_owned(), origin))
    };
    Ok(store.list()?.iter().filter_map(|entry| branch(&*entry.run)).collect())
}
