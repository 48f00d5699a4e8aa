//! Workflows that are one file, and replies of the scripted backend.

use raymond::agent::scripted::Replies;
use raymond::workflow::manifest::parse as parse_manifest;
use raymond::workflow::scope::{parse_one_file, unpack};
use raymond_core::workflow::{Listing, Platform};

use crate::language::check_place;

/// The most that an archive may unpack to.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// A one-file workflow is read or refused; its files have plain names, and its states can be found.
pub fn one_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse_one_file(text) {
        Ok(contents) => {
            contents.files.keys().for_each(|name| check_name(name));
            contents.states.keys().for_each(|state| check_name(state.as_str()));
            check_listing(&contents.listing);
            assert!(contents.states.keys().all(|state| contents.listing.contains(state)));
            for state in contents.states.values() {
                assert!(
                    state.line >= 1 && state.text_line >= state.line,
                    "the text begins before the name of its state"
                );
            }
        }
        Err(error) => {
            check_place(text, error.position);
            assert!(!error.to_string().is_empty());
        }
    }
}

/// An archive is unpacked or refused; no path in it leads outside, and its size is limited.
pub fn archive(data: &[u8]) {
    match unpack(data) {
        Ok(files) => {
            assert!(files.values().map(Vec::len).sum::<usize>() <= MOST_BYTES);
            files.keys().for_each(|name| check_name(name));
            check_listing(&Listing::new(files.into_keys()));
        }
        Err(error) => assert!(!error.is_empty()),
    }
}

/// Names are joined to the path of a folder when a workflow is unpacked. They may have folders in them.
fn check_name(name: &str) {
    for part in name.split('/') {
        let leads_elsewhere = part.is_empty() || part == "." || part == ".." || part.contains(['\\', '\0']);
        assert!(!leads_elsewhere && part.len() <= 255, "the name {name:?} leads outside of the folder");
    }
}

fn check_listing(listing: &Listing) {
    for platform in [Platform::Unix, Platform::Windows] {
        if let Ok(entry) = listing.entry(platform) {
            assert!(listing.contains(&entry));
        }
        for state in listing.states() {
            if let Ok(found) = listing.resolve(state.as_str(), platform) {
                assert_eq!(found, state, "a name with its extension means another state");
            }
            if let Ok(found) = listing.resolve(state.name(), platform) {
                assert!(listing.contains(&found));
            }
        }
    }
}

/// A manifest is read or refused, with a position that exists.
pub fn manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse_manifest(text) {
        Ok(manifest) => manifest.warnings.iter().for_each(|warning| check_place(text, warning.position)),
        Err(error) => {
            check_place(text, error.position);
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Replies are read or refused, and every turn gets a valid reply or none.
pub fn replies(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Replies::parse(&text) {
        Ok(replies) => {
            let first = replies.get("START", 1);
            for turn in [0, 2, u64::MAX] {
                assert_eq!(replies.get("START", turn).is_some(), first.is_some());
            }
            if let Some(reply) = first {
                assert!(
                    reply.cost_usd.is_finite() && reply.cost_usd >= 0.0,
                    "{} is not a valid cost",
                    reply.cost_usd
                );
            }
        }
        Err(error) => assert!(error.starts_with("line "), "an error without a position: {error}"),
    }
}
