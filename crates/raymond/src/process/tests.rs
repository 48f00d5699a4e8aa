//! Real processes: what ends, what is left, and how long it takes.

mod ending;
mod output;
mod parent;
mod rig;
mod starting;
