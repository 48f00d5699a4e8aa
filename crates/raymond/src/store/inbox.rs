//! What other processes ask of a run, whether a process drives it at the moment or not.

use std::fmt::Debug;
use std::time::SystemTime;

use super::error::StoreError;

/// Messages that other processes leave for the process that drives a run. It works whether one does or not.
pub trait Inbox: Debug + Send + Sync {
    /// Leaves a message. It is durable when this returns. Of several messages with one name the first stays.
    fn post(&self, name: &str, content: &str) -> Result<Posted, StoreError>;

    /// The messages that wait, oldest first; they stay until they are removed.
    fn messages(&self) -> Result<Vec<Message>, StoreError>;

    /// Whether a message of this name waits.
    fn contains(&self, name: &str) -> bool;

    /// When a message was posted, if that is known.
    fn posted_at(&self, _name: &str) -> Option<SystemTime> {
        None
    }

    /// Removes a message once its effect is committed. It is not an error if it is gone.
    fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// Tells cheaply whether there may be new messages.
    fn watch(&self) -> Box<dyn Watch>;
}

/// See [`Inbox::watch`].
pub trait Watch: Debug + Send {
    /// Whether there may be messages that came since the last call. Read them after this call, not before.
    fn changed(&mut self) -> bool;
}

/// The longest message: an answer of 1 MiB and what is around it.
pub const MAX_MESSAGE_BYTES: u64 = 1024 * 1024 + 64 * 1024;

/// How many messages are given at once; the others wait until these are removed.
pub const MAX_MESSAGES_AT_ONCE: usize = 256;

/// The longest name of a message.
const MAX_MESSAGE_NAME_BYTES: usize = 128;

/// Whether a text can be the name of a message. Names are made of ids of questions and the like, and are file names in
/// some forms.
pub(super) fn is_message_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty()
        && name.len() <= MAX_MESSAGE_NAME_BYTES
        && !name.starts_with('.')
        && name.bytes().all(allowed)
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    Posted,
    /// There is one of this name, and it stays.
    AlreadyThere,
}

/// A message as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub name: String,
    pub content: Content,
}

/// What a message holds, or why it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Text(String),
    TooLong {
        bytes: u64,
    },
    NotUtf8,
    /// The system refused to read it; the reason.
    Unreadable(String),
}
