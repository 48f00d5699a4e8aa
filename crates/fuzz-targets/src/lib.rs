//! Properties that must hold for any bytes that Raymond reads: one function for each reader, which panics if one fails.
//!
//! `fuzz/` passes them to the fuzzer. The tests of this crate run the same functions on stable Rust, on the corpus in
//! `fuzz/corpus` and on mutations of it.

mod disk;
mod forms;
mod language;
mod pieces;
mod stream;
mod tests;

pub use disk::{inbox, journal};
pub use forms::{archive, manifest, one_file, replies};
pub use language::{frontmatter, header, tags, template};
pub use stream::agent_stream;
pub use tests::{recording, test_file};

/// Panics if a property does not hold for the bytes.
pub type Target = fn(&[u8]);

/// All targets by name; the corpus has the same name.
pub const TARGETS: [(&str, Target); 13] = [
    ("agent_stream", agent_stream),
    ("archive", archive),
    ("frontmatter", frontmatter),
    ("header", header),
    ("inbox", inbox),
    ("journal", journal),
    ("manifest", manifest),
    ("one_file", one_file),
    ("recording", recording),
    ("replies", replies),
    ("tags", tags),
    ("template", template),
    ("test_file", test_file),
];
