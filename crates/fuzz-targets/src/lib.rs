//! What must hold for any bytes that Raymond reads: one function a reader, which panics where something does not.
//!
//! `fuzz/` hands them to the fuzzer. The tests of this crate run the same functions on stable Rust, over the corpus in
//! `fuzz/corpus` and over mutations of it.

mod disk;
mod forms;
mod language;
mod pieces;
mod stream;

pub use disk::{inbox, journal};
pub use forms::{archive, one_file, replies};
pub use language::{frontmatter, header, tags, template};
pub use stream::agent_stream;

/// Panics if something does not hold for the bytes.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub const TARGETS: [(&str, Target); 10] = [
    ("agent_stream", agent_stream),
    ("archive", archive),
    ("frontmatter", frontmatter),
    ("header", header),
    ("inbox", inbox),
    ("journal", journal),
    ("one_file", one_file),
    ("replies", replies),
    ("tags", tags),
    ("template", template),
];
