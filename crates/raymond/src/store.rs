//! What a run leaves on disk, and how it is found, written, checked and read again.
//!
//! The store moves *serialised* events: one JSON object a line, made and understood elsewhere. Of
//! their fields it looks at two only, because the file format itself rests on them: `seq`, which
//! has to rise, and `event`, which has to say `snapshot` where a later segment begins.
//!
//! Everything here is blocking `std::fs` code. Who appends, cuts or rotates holds the run's lock
//! ([`RunLock`]); readers need none, because whole batches never change once they are written.
//!
//! Bounds: [`MAX_LINE_BYTES`] a line, [`MAX_BATCH_BYTES`] a batch, [`MAX_PAYLOAD_BYTES`] a payload,
//! [`MAX_MESSAGE_BYTES`] an inbox message and [`MAX_MESSAGES_AT_ONCE`] of them at a time.

mod disk;
mod error;
pub mod events;
mod folder;
mod inbox;
mod journal;
mod lock;
mod payload;
mod read;
mod segment;

pub use disk::{Disk, DiskFile};
pub use error::JournalError;
pub use folder::{BadRunId, LookupError, RunEntry, RunPaths, StateDir, check_run_id};
pub use inbox::{
    Content, MAX_MESSAGE_BYTES, MAX_MESSAGES_AT_ONCE, Message, Posted, Watch, post, remove, take_all,
};
pub use journal::{Journal, JournalOptions, SEGMENT_BYTES};
pub use lock::{Holder, LockError, RunLock, is_live};
pub use payload::{MAX_PAYLOAD_BYTES, PayloadError, Payloads, Stored};
pub use read::{AllLines, Follower, Tail, read_all, read_tail, visit_tail};
pub use segment::{Line, MAX_BATCH_BYTES, MAX_LINE_BYTES, SNAPSHOT_EVENT, Torn};

/// What a committed batch survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: every batch is synced before the call returns.
    #[default]
    Power,
    /// The death of this process: the system has the bytes, the disk perhaps not yet.
    Process,
}
