//! Where runs live: the seam that the rest of the program holds, and its forms.
//!
//! [`RunStore`] and the traits beside it are the seam (`home`, `inbox`, `payload`). [`folder`] keeps runs as files under
//! `.raymond/state` and is what Raymond uses. [`memory`] keeps them in this process, for simulations and tests.
//!
//! Bounds: [`MAX_PAYLOAD_BYTES`] a payload, [`MAX_MESSAGE_BYTES`] an inbox message and [`MAX_MESSAGES_AT_ONCE`] of them at
//! a time, [`MAX_ORIGINS`] origins of a run.

mod elsewhere;
mod error;
mod fold;
pub mod folder;
mod home;
mod id;
mod inbox;
mod lineage;
pub mod memory;
mod payload;
#[cfg(test)]
pub(crate) mod suite;
mod text;

pub use elsewhere::{Elsewhere, Silence};
pub use error::StoreError;
#[cfg(test)]
pub(crate) use folder::LISTINGS;
pub use folder::{FolderStore, Own, SealedFile, StateDir, Trace};
pub use home::{
    Durability, Events, Holder, JournalOptions, Lease, Opened, Room, RunEntry, RunHandle, RunStore,
    RunWriter, SEGMENT_BYTES, Start, is_part_of_id,
};
pub use id::{BadRunId, check_new_run_id, check_run_id};
pub use inbox::{Content, Inbox, MAX_MESSAGE_BYTES, MAX_MESSAGES_AT_ONCE, Message, Posted, Watch};
pub use lineage::MAX_ORIGINS;
pub(crate) use payload::hash_of;
pub use payload::{MAX_PAYLOAD_BYTES, PayloadSource, Payloads, reference_to};
