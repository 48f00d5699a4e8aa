//! Tells of runs that lie in `.raymond` and do not count, because this user's Raymond has not made them there.

use std::sync::atomic::{AtomicBool, Ordering};

use super::print::say;
use crate::advice;
use crate::store::{FolderStore, RunStore};
use crate::view::text::clean;

/// Whether it was said. A command may open the runs several times.
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// Says how many runs are ignored, once.
pub(super) fn warn_of_foreign(store: &FolderStore) {
    if IS_SAID.load(Ordering::Relaxed) {
        return;
    }
    let Some(warning) = warning(store) else { return };
    IS_SAID.store(true, Ordering::Relaxed);
    say(&format!("warning: {}", clean(&warning)));
}

fn warning(store: &FolderStore) -> Option<String> {
    if let Some((link, target)) = store.dir().stray_link() {
        return Some(format!(
            "{} is a link, to {}; nothing there is used, unless safe_folders in your own config file lists the project",
            link.display(),
            target.display()
        ));
    }
    // What cannot be listed is reported by the command itself.
    let ignored = match store.foreign().unwrap_or_default().len() {
        0 => return None,
        1 => "1 run".to_owned(),
        more => format!("{more} runs"),
    };
    let is_are = if ignored == "1 run" { "is ignored: it was" } else { "are ignored: they were" };
    let why = store.dir().own().trouble().map(|why| format!(" ({why})")).unwrap_or_default();
    Some(format!(
        "{ignored} in {} {is_are} made by an earlier version, in another folder or by another user{why}; to look and adopt: {}",
        store.place(),
        advice::command("doctor --adopt")
    ))
}
