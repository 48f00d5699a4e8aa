//! Properties that must hold for any bytes that Raymond reads: one function for each reader, which panics if one fails.
//!
//! `fuzz/` passes them to the fuzzer. The tests of this crate run the same functions on stable Rust, on the corpus in
//! `fuzz/corpus` and on mutations of it.

mod disk;
mod forms;
mod language;
mod pieces;
mod stream;

pub use disk::{inbox, journal};
pub use forms::{archive, one_file, replies};
pub use language::{frontmatter, header, tags, template};
pub use stream::agent_stream;

/// Panics if a property does not hold for the bytes.
pub type Target = fn(&[u8]);

/// All targets by name; the corpus has the same name.
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
