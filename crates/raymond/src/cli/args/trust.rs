//! The arguments of `raymond trust` and `raymond inspect`.

use clap::{Args, ValueHint};

use super::examples;

#[derive(Debug, Args)]
#[command(after_help = examples::TRUST)]
pub(in crate::cli) struct TrustArgs {
    /// The workflow: a folder, a .zip archive or a .yaml file
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(in crate::cli) workflow: String,
    /// Trust it without being asked
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    /// Trust it no longer; it may be gone
    #[arg(long, conflicts_with_all = ["yes", "json"])]
    pub(in crate::cli) revoke: bool,
    /// Print the list as one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples::INSPECT)]
pub(in crate::cli) struct InspectArgs {
    /// The workflow: a folder, a .zip archive or a .yaml file
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(in crate::cli) workflow: String,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
