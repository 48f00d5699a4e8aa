//! The stories that were asked for last, each read on from where it was.
//!
//! Bound: [`MAX_STORIES`].

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::Story;
use crate::store::{Events, RunHandle, Start, StoreError};

/// How many stories are kept.
const MAX_STORIES: usize = 8;

/// A story that is read on.
struct Telling {
    story: Story,
    events: Option<Box<dyn Events>>,
}

impl Telling {
    fn new(folder: &Arc<Path>) -> Self {
        Self { story: Story::new(folder), events: None }
    }

    /// Reads what was added to the journal.
    fn catch_up(&mut self, run: &Arc<dyn RunHandle>, folder: &Arc<Path>) -> Result<(), StoreError> {
        let payloads = run.payloads();
        let events = match &mut self.events {
            Some(events) => events,
            none => none.insert(run.events(Start::After(0))?),
        };
        while let Some(batch) = events.next_batch()? {
            if self.story.is_told_anew_by(&batch) {
                self.story = Story::new(folder);
                *events = run.events(Start::After(0))?;
                continue;
            }
            let told = batch.iter().try_for_each(|event| self.story.take(event, &payloads));
            told.map_err(|error| cannot_look(folder, error))?;
        }
        Ok(())
    }
}

fn cannot_look(folder: &Path, error: io::Error) -> StoreError {
    StoreError::io(folder.display(), "use files in", error)
}

/// The stories that were asked for last.
pub struct Stories {
    /// Where long tables are kept.
    folder: Arc<Path>,
    told: Mutex<Vec<(String, Arc<Mutex<Telling>>)>>,
}

impl Stories {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.into(), told: Mutex::default() }
    }

    /// Shows the story of a run up to now to a function.
    pub fn with<T>(
        &self,
        run: &Arc<dyn RunHandle>,
        show: impl FnOnce(&Story) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        let telling = self.telling(run.id());
        let mut telling = telling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = telling.catch_up(run, &self.folder) {
            // It is read from the start the next time: the journal may have been repaired.
            *telling = Telling::new(&self.folder);
            return Err(error);
        }
        show(&telling.story).map_err(|error| cannot_look(&self.folder, error))
    }

    fn telling(&self, run: &str) -> Arc<Mutex<Telling>> {
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match all.iter().position(|(id, _)| id == run) {
            Some(place) => all.remove(place),
            None => (run.to_owned(), Arc::new(Mutex::new(Telling::new(&self.folder)))),
        };
        if all.len() >= MAX_STORIES {
            all.remove(0);
        }
        let telling = Arc::clone(&found.1);
        all.push(found);
        telling
    }
}
