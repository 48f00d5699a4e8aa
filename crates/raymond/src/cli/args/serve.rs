//! The arguments of `raymond serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use super::{Place, examples};
use crate::cli::completions::run_ids;

#[derive(Debug, Args)]
#[command(after_help = examples::SERVE)]
pub(in crate::cli) struct ServeArgs {
    /// Where workflows are looked for; can be given several times [default: the project folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) root: Vec<PathBuf>,
    /// The address to listen on; port 0 means any [default: 127.0.0.1:7878, or the next free port]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(in crate::cli) listen: Option<String>,
    /// The file of the token; it is made if it is not there [default: .raymond/serve.token]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) token_file: Option<PathBuf>,
    /// Another name of this server, for proxies and port forwarding; can be given several times
    #[arg(long, value_name = "NAME[:PORT]", value_parser = parse_host)]
    pub(in crate::cli) allow_host: Vec<String>,
    /// Start workflows at the times of their manifests' `schedule`
    #[arg(long)]
    pub(in crate::cli) schedules: bool,
    /// Let the runs that it starts do anything without asking; only for workflows you trust
    #[arg(long)]
    pub(in crate::cli) dangerously_skip_permissions: bool,
    #[command(flatten)]
    pub(in crate::cli) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::EXPORT)]
pub(in crate::cli) struct ExportArgs {
    /// The run; the latest if left out
    #[arg(add = ArgValueCompleter::new(run_ids))]
    pub(in crate::cli) run: Option<String>,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) output: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) place: Place,
}

fn parse_host(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    match !text.is_empty() && text.chars().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err("give a name such as raymond.example, or with a port: localhost:9000".to_owned()),
    }
}
