//! The monitor: whose work is where, and what people may rely on.

use std::collections::{BTreeMap, BTreeSet};

use super::ground::{Ground, PROJECT, Piece};

#[derive(Clone, Debug, Default)]
pub struct Work {
    /// What somebody has made and nobody has given up, and what it is.
    owed: BTreeMap<Piece, String>,
    /// The budget that a person has given each run last, in cents.
    pub budgets: BTreeMap<String, u32>,
    /// The folder in which each run is to work, if one was made for it.
    pub places: BTreeMap<String, String>,
    /// Runs that keep what was dropped.
    pub dropped: BTreeSet<String>,
    /// What is wrong.
    pub broken: Vec<String>,
}

impl Work {
    pub fn expect(&mut self, is_right: bool, wrong: impl FnOnce() -> String) {
        if !is_right {
            self.broken.push(wrong());
        }
    }

    pub fn made(&mut self, piece: Piece, what: String) {
        self.owed.insert(piece, what);
    }

    /// The one whose work it is has replaced or removed it.
    pub fn gave_up(&mut self, piece: Piece) {
        self.owed.remove(&piece);
    }

    /// Of what was removed on purpose, only what is nowhere else is given up.
    pub fn removed_on_purpose(&mut self, pieces: &BTreeSet<Piece>, ground: &Ground) {
        let present = ground.present();
        self.owed.retain(|piece, _| !pieces.contains(piece) || present.contains(piece));
    }

    /// All work is somewhere.
    pub fn check(&mut self, ground: &Ground) {
        let present = ground.present();
        let lost: Vec<Piece> = self.owed.keys().copied().filter(|piece| !present.contains(piece)).collect();
        for piece in lost {
            if let Some(what) = self.owed.remove(&piece) {
                self.broken.push(format!("lost: {what}"));
            }
        }
    }

    /// A run does something in a folder, or to it.
    pub fn uses(&mut self, run: &str, path: &str, what: &str, ground: &Ground) {
        if path == PROJECT {
            return;
        }
        let owner = ground.folders.get(path).and_then(|folder| folder.owner.clone());
        self.expect(owner.as_deref().is_none_or(|owner| owner == run), || {
            format!("two owners: {run} {what} {path}, which belongs to {owner:?}")
        });
    }
}
