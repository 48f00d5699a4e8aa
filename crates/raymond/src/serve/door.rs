//! Who is connected: how many connections there are, and which one leaves when there are too many.
//!
//! Anyone who reaches the address can connect, without the token. So connections that have not shown the right token
//! share few places. When these are taken, the one that has waited longest without sending a whole request leaves, or else
//! the one that has waited longest at all: a newcomer always gets in, and shows its token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How many connections are open at the same time. More wait until one is closed.
const MAX_CONNECTIONS: usize = 1024;
/// How many of them may be without the right token.
const MAX_UNKNOWN: usize = 256;
/// How long a connection may take until it has sent the head of its first request.
const SILENCE: Duration = Duration::from_secs(10);

/// What a connection has sent so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Nothing,
    /// A request without the right token.
    Request,
    /// The right token.
    Token,
}

struct Guest {
    sent: Sent,
    leave: Arc<Notify>,
}

/// By the order in which they came.
type Guests = BTreeMap<u64, Guest>;

pub struct Door {
    room: Arc<Semaphore>,
    guests: Arc<Mutex<Guests>>,
}

/// The place of a connection, until it is dropped.
pub struct Pass {
    number: u64,
    guests: Arc<Mutex<Guests>>,
    leave: Arc<Notify>,
    _place: OwnedSemaphorePermit,
}

impl Default for Door {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_CONNECTIONS)), guests: Arc::default() }
    }
}

impl Door {
    /// Lets one more connection in. It waits only while all places are taken by those who have shown the token.
    pub async fn enter(&self) -> Option<Pass> {
        if self.count_unknown() >= MAX_UNKNOWN || self.room.available_permits() == 0 {
            self.send_one_away();
        }
        let place = Arc::clone(&self.room).acquire_owned().await.ok()?;
        let leave = Arc::new(Notify::new());
        let mut guests = known(&self.guests);
        let number = guests.last_key_value().map_or(0, |(last, _)| last + 1);
        guests.insert(number, Guest { sent: Sent::Nothing, leave: Arc::clone(&leave) });
        Some(Pass { number, guests: Arc::clone(&self.guests), leave, _place: place })
    }

    fn count_unknown(&self) -> usize {
        known(&self.guests).values().filter(|guest| guest.sent != Sent::Token).count()
    }

    fn send_one_away(&self) {
        let mut guests = known(&self.guests);
        let oldest =
            |sent: Sent| guests.iter().find(|(_, guest)| guest.sent == sent).map(|(number, _)| *number);
        let chosen = oldest(Sent::Nothing).or_else(|| oldest(Sent::Request));
        if let Some(guest) = chosen.and_then(|number| guests.remove(&number)) {
            guest.leave.notify_one();
        }
    }
}

impl Pass {
    /// A request has come, with or without the right token.
    pub fn has_asked(&self, is_known: bool) {
        if let Some(guest) = known(&self.guests).get_mut(&self.number) {
            match (is_known, guest.sent) {
                (true, _) => guest.sent = Sent::Token,
                (false, Sent::Nothing) => guest.sent = Sent::Request,
                (false, Sent::Request | Sent::Token) => {}
            }
        }
    }

    /// Waits until this connection has to leave: to make room, or because it has sent nothing for too long.
    pub async fn must_leave(&self) {
        let is_silent =
            || known(&self.guests).get(&self.number).is_some_and(|guest| guest.sent == Sent::Nothing);
        if timeout(SILENCE, self.leave.notified()).await.is_err() && !is_silent() {
            self.leave.notified().await;
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        known(&self.guests).remove(&self.number);
    }
}

fn known(guests: &Mutex<Guests>) -> MutexGuard<'_, Guests> {
    guests.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_like::is_ready;

    use super::*;

    /// Looks at a future once.
    mod futures_like {
        use std::pin::pin;
        use std::task::{Context, Waker};

        pub fn is_ready(future: impl Future<Output = ()>) -> bool {
            pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_that_has_asked_nothing_makes_room_and_who_has_the_token_stays() {
        let door = Door::default();
        let known = door.enter().await.unwrap();
        known.has_asked(true);
        let asked = door.enter().await.unwrap();
        asked.has_asked(false);
        let mut silent = Vec::new();
        for _ in 0..MAX_UNKNOWN - 1 {
            silent.push(door.enter().await.unwrap());
        }
        assert!(!is_ready(silent[0].must_leave()));
        let newcomer = door.enter().await.unwrap();
        assert!(is_ready(silent[0].must_leave()), "it is the oldest");
        assert!(!is_ready(silent[1].must_leave()));
        silent.iter().skip(1).for_each(|pass| pass.has_asked(false));
        newcomer.has_asked(false);
        let last = door.enter().await.unwrap();
        assert!(is_ready(asked.must_leave()), "nobody is silent, and it has waited longest");
        assert!(!is_ready(known.must_leave()) && !is_ready(last.must_leave()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_no_request_leaves_soon() {
        let door = Door::default();
        let (silent, asked) = (door.enter().await.unwrap(), door.enter().await.unwrap());
        asked.has_asked(false);
        let long = SILENCE * 10;
        assert!(timeout(long, silent.must_leave()).await.is_ok());
        assert!(timeout(long, asked.must_leave()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn those_with_the_token_fill_the_house_and_a_closed_one_makes_room() {
        let door = Door::default();
        let mut all = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let pass = door.enter().await.unwrap();
            pass.has_asked(true);
            all.push(pass);
        }
        assert!(timeout(SILENCE, door.enter()).await.is_err(), "it waits");
        all.pop();
        assert!(timeout(SILENCE, door.enter()).await.is_ok());
    }
}
