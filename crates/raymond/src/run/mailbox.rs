//! The one channel into the driver.
//!
//! Senders do not wait, because they are in the middle of reading a program's output. When too much is in the channel,
//! they stop reading, so that the program waits instead.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use raymond_core::input::Input;
use raymond_core::name::AgentId;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::files::is_shortage;
use crate::view::Stream;

/// How many bytes may be in the channel before senders should pause.
const FULL_AT_BYTES: usize = 4 * 1024 * 1024;
/// The size of a message without its text.
const MESSAGE_BYTES: usize = 256;

/// Why Raymond's own files for a step could not be read or written.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub error: String,
    /// Whether the machine lacks something that another one may have.
    pub is_shortage: bool,
}

impl Trouble {
    /// `what` was tried with the file or folder.
    pub fn new(what: &str, path: &Path, error: &io::Error) -> Self {
        let is_shortage = is_shortage(error);
        Self { error: format!("cannot {what} {}: {error}", path.display()), is_shortage }
    }
}

/// A message from a step to the driver.
#[derive(Debug)]
pub enum Message {
    Input(Input),
    /// What the run is warned about. It came up in a step of this agent.
    Warning {
        agent: AgentId,
        message: String,
    },
    /// The step's input could not be read, or could not be written to where the step reads it: the program must end.
    Trouble(Trouble),
    /// The host is short of what the program of this agent's step needs, and it does not get better. The step waits to be
    /// cancelled.
    Shortage {
        agent: AgentId,
        error: String,
    },
    /// Output to show; it changes nothing in the run.
    Output {
        agent: AgentId,
        stream: Stream,
        bytes: Vec<u8>,
    },
}

impl Message {
    /// About how much memory the message takes.
    pub fn weight(&self) -> usize {
        MESSAGE_BYTES
            + match self {
                Message::Input(Input::Print { text, .. }) => text.text().map_or(0, str::len),
                Message::Output { bytes, .. } => bytes.len(),
                Message::Input(_)
                | Message::Warning { .. }
                | Message::Trouble(_)
                | Message::Shortage { .. } => 0,
            }
    }
}

#[derive(Clone, Debug)]
pub struct Sender {
    channel: UnboundedSender<Message>,
    bytes: Rc<Cell<usize>>,
}

#[derive(Debug)]
pub struct Receiver {
    channel: UnboundedReceiver<Message>,
    bytes: Rc<Cell<usize>>,
}

pub fn mailbox() -> (Sender, Receiver) {
    let (sender, receiver) = unbounded_channel();
    let bytes = Rc::new(Cell::new(0));
    (Sender { channel: sender, bytes: Rc::clone(&bytes) }, Receiver { channel: receiver, bytes })
}

impl Sender {
    /// The driver outlives its steps. If it is gone, the message is not needed.
    pub fn send(&self, message: Message) {
        self.bytes.set(self.bytes.get() + message.weight());
        let _ = self.channel.send(message);
    }

    /// Whether the sender should wait before it sends more.
    pub fn is_full(&self) -> bool {
        self.bytes.get() > FULL_AT_BYTES
    }
}

impl Receiver {
    pub async fn recv(&mut self) -> Option<Message> {
        let message = self.channel.recv().await;
        self.took(message)
    }

    pub fn try_recv(&mut self) -> Option<Message> {
        let message = self.channel.try_recv().ok();
        self.took(message)
    }

    fn took(&self, message: Option<Message>) -> Option<Message> {
        if let Some(message) = &message {
            self.bytes.set(self.bytes.get().saturating_sub(message.weight()));
        }
        message
    }
}
