//! The options of runs on other machines.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{examples, parse_count};
use crate::config::Timeout;
use crate::fleet::Address;

/// Where a new run is carried out.
#[derive(Debug, Default, Args)]
pub(in crate::cli) struct EngineArgs {
    /// Run on other machines: temporal://HOST:PORT/NAMESPACE?queue=QUEUE, or the name of an engine in the config file
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["record", "replay", "stage"])]
    pub(in crate::cli) on: Option<String>,
    /// Do not follow a run on other machines; only print its id
    #[arg(long, requires = "on")]
    pub(in crate::cli) detach: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples::WORKER)]
pub(in crate::cli) struct WorkerArgs {
    /// The Temporal server
    #[arg(long, value_name = "HOST:PORT", value_parser = Address::of_server)]
    pub(in crate::cli) temporal: Address,
    /// The namespace [default: default]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) namespace: Option<String>,
    /// The queue that runs are started on [default: raymond]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) queue: Option<String>,
    /// How many steps run here at the same time
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroUsize>, default_value = "8", allow_negative_numbers = true)]
    pub(in crate::cli) slots: NonZeroUsize,
    /// Where working folders and records of steps are [default: .raymond/worker]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) work: Option<PathBuf>,
    /// Where machines leave files for each other: file:///shared or s3://BUCKET/PATH
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) blobs: Option<String>,
    /// How long running steps may take to finish after SIGTERM; 0 is no limit [default: no limit]
    #[arg(long, value_name = "TIME")]
    pub(in crate::cli) drain_timeout: Option<Timeout>,
    /// How long files of a run stay here that no step uses; 0 is until it has ended. Those of ended runs stay for an hour
    #[arg(long, value_name = "TIME", default_value = "7d")]
    pub(in crate::cli) keep: Timeout,
}
