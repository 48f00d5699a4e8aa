//! The benchmarks: one file for each.

mod agents;
mod crowd;
mod forks;
mod instructions;
mod one_state;
mod output;
mod past;
mod prompts;
mod serving;
mod snapshots;
mod tags;
mod tests;
mod transition;

use crate::report::Row;
use crate::rig::Rig;

pub struct Work {
    pub name: &'static str,
    pub measure: fn(&Rig) -> Result<Vec<Row>, String>,
}

pub const ALL: [Work; 15] = [
    Work { name: "one-state", measure: one_state::measure },
    Work { name: "transition", measure: transition::measure },
    Work { name: "crowd", measure: crowd::measure },
    Work { name: "past", measure: past::step },
    Work { name: "forks", measure: forks::measure },
    Work { name: "delayed", measure: crowd::delayed },
    Work { name: "output", measure: output::measure },
    Work { name: "tags", measure: tags::measure },
    Work { name: "resume", measure: past::resume },
    Work { name: "prompts", measure: prompts::measure },
    Work { name: "tests", measure: tests::measure },
    Work { name: "snapshots", measure: snapshots::measure },
    Work { name: "serving", measure: serving::measure },
    Work { name: "agents", measure: agents::measure },
    Work { name: "instructions", measure: instructions::measure },
];

/// A script that counts down in a file without starting any program, and ends at zero.
pub const COUNTDOWN: &str = "read -r n < count; echo $((n - 1)) > count\n\
    if [ $n -gt 1 ]; then echo '<goto>START.sh</goto>'; else echo '<result>done</result>'; fi\n";

/// A script that loops forever.
pub const FOREVER: &str = "echo '<goto>START.sh</goto>'\n";
