//! Work that waits for the disk or for other processes, on threads, in lanes.
//!
//! One kind of work must not hold up another: a start may take a minute until its run can be seen, and a listing of
//! workflows as long as their archives are large. So each kind has threads of its own, and a bound for what waits for them.
//! Everything in `serve` that would block comes through here.
//!
//! Work that was begun goes on when the client that asked for it goes away, and keeps its thread until it is done.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::problem::Problem;
use super::sse::MAX_STREAMS;

/// Which lane work is done in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// It looks at runs.
    Reads,
    /// It reads all of a run, or workflows, which may be large.
    LongReads,
    /// It starts a process and waits for it.
    Starts,
    /// It leaves a message for a run.
    Messages,
    /// It answers a question. That may start a process, for which all who answer the same question wait.
    Answers,
    /// It reads what a stream sends.
    Streams,
    /// It is work of the server itself: schedules, and runs whose process died.
    Own,
}

/// How much of each lane's work is done at once, and how much waits.
const BOUNDS: [(Lane, usize, usize); 7] = [
    (Lane::Reads, 16, 1024),
    (Lane::LongReads, 4, 64),
    (Lane::Starts, 8, 32),
    (Lane::Messages, 4, 64),
    // Each stream has at most one piece of work.
    (Lane::Streams, 8, MAX_STREAMS),
    (Lane::Own, 4, 16),
    (Lane::Answers, 4, 256),
];

/// How many threads all lanes need together, with some for the runtime itself.
pub fn threads() -> usize {
    BOUNDS.iter().map(|(_, at_once, _)| at_once).sum::<usize>() + 4
}

/// All lanes of a server.
pub struct Lanes([Track; BOUNDS.len()]);

struct Track {
    lane: Lane,
    /// Places for what is done and what waits.
    places: Arc<Semaphore>,
    threads: Arc<Semaphore>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self(BOUNDS.map(|(lane, at_once, waiting)| Track {
            lane,
            places: Arc::new(Semaphore::new(at_once + waiting)),
            threads: Arc::new(Semaphore::new(at_once)),
        }))
    }
}

impl Lanes {
    /// Does some work on a thread of its lane. If too much waits there already, that is the answer at once.
    pub async fn work<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let track = self.0.iter().find(|track| track.lane == lane);
        let track = track.ok_or_else(|| Problem::internal("there is no such lane"))?;
        let place = Arc::clone(&track.places).try_acquire_owned().map_err(|_| too_much())?;
        let thread = Arc::clone(&track.threads).acquire_owned().await.map_err(Problem::internal)?;
        #[expect(clippy::disallowed_methods, reason = "this is where threads are given out")]
        let done = tokio::task::spawn_blocking(move || {
            let _held = (place, thread);
            work()
        });
        done.await.map_err(Problem::internal)
    }
}

fn too_much() -> Problem {
    Problem::new(429, "too much of this kind is being done already; try again in a moment")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_lane_that_is_full_refuses_more_and_holds_up_no_other() {
        let lanes = Arc::new(Lanes::default());
        let (_, at_once, waiting) = BOUNDS[2];
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let mut begun = Vec::new();
        for _ in 0..at_once + waiting {
            let (lanes, gate) = (Arc::clone(&lanes), Arc::clone(&gate));
            let stuck = move || gate.lock().unwrap().recv().is_ok();
            begun.push(tokio::spawn(async move { lanes.work(Lane::Starts, stuck).await }));
        }
        while lanes.0[2].places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(lanes.work(Lane::Starts, || ()).await.unwrap_err().status, 429);
        assert_eq!(lanes.work(Lane::Reads, || 7).await.unwrap(), 7);
        // Who goes away while it waits leaves its place; who goes away while work is done does not.
        begun.drain(at_once..).for_each(|waiting| waiting.abort());
        while lanes.0[2].places.available_permits() < waiting {
            tokio::task::yield_now().await;
        }
        begun.iter().for_each(tokio::task::JoinHandle::abort);
        assert_eq!(lanes.0[2].threads.available_permits(), 0);
        drop(release);
        assert_eq!(lanes.work(Lane::Starts, || 8).await.unwrap(), 8);
    }
}
