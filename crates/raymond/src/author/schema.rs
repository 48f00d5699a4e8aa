//! JSON schemas of everything that Raymond reads and writes, for editors and other programs.

mod entry;
mod shapes;
mod test_shapes;

use raymond_core::event::Event;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::config::Config;
pub use shapes::{Frontmatter, Manifest, OneFile, OneScript};
use test_shapes::TestFile;

/// The formats that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Subject {
    /// The settings at the top of a prompt
    Frontmatter,
    /// A workflow in one file
    Workflow,
    /// A folder's workflow.yaml
    Manifest,
    /// .raymond/config.toml
    Config,
    /// A file of tests
    Test,
    /// A line of --json and of the journal
    Events,
}

pub fn schema(subject: Subject) -> Schema {
    match subject {
        Subject::Frontmatter => read::<Frontmatter>(),
        Subject::Workflow => read::<OneFile>(),
        Subject::Manifest => read::<Manifest>(),
        Subject::Config => read::<Config>(),
        Subject::Test => read::<TestFile>(),
        Subject::Events => {
            SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Event>()
        }
    }
}

/// The schema of what Raymond reads.
fn read<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>()
}
