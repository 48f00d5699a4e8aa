//! The options of a run: command line before manifest and config file, and those before defaults.

use std::path::Path;

use raymond_core::money::Usd;
use raymond_core::run::Options;

use super::args::{Budget, RunOptions};
use crate::config::Settings;
use crate::workflow::manifest::Manifest;

/// What a new run uses.
pub(super) fn for_new_run(args: &RunOptions, manifest: &Manifest, settings: &Settings) -> Options {
    let default = Options::default();
    let configured = Options {
        // A manifest may come from a stranger, so it cannot raise the budget that the user set.
        budget_usd: settings
            .budget
            .map(|budget| budget.0)
            .or(manifest.default_budget)
            .map_or(default.budget_usd, Usd::budget),
        max_parallel: manifest
            .max_parallel
            .or(settings.max_parallel)
            .map_or(default.max_parallel, usize::from),
        max_parallel_scripts: manifest
            .max_parallel_scripts
            .or(settings.max_parallel_scripts)
            .map_or(default.max_parallel_scripts, usize::from),
        max_steps: settings.max_steps,
        no_wait: settings.no_wait.unwrap_or(default.no_wait),
        model: settings.model.clone(),
        effort: settings.effort.clone(),
        model_is_given: false,
        effort_is_given: false,
        // A workflow is written for a backend, so its manifest comes before the config file.
        backend: manifest.backend.clone().or_else(|| settings.backend.clone()),
        backend_is_given: false,
        timeout_ms: settings.timeout.map(|timeout| timeout.milliseconds),
        script_timeout_ms: None,
        skip_permissions: settings.dangerously_skip_permissions.unwrap_or(default.skip_permissions)
            && !args.ask_permissions,
        no_lint: manifest.no_lint,
        record: None,
        replay: None,
        replay_missing: None,
        snapshots: manifest.snapshots.or(settings.snapshots).unwrap_or(default.snapshots),
        no_debug: default.no_debug,
    };
    override_with(args, configured)
}

/// What a resumed run uses: what it used before, unless the command line says otherwise.
pub(super) fn override_with(args: &RunOptions, before: Options) -> Options {
    Options {
        budget_usd: match args.budget {
            None => before.budget_usd,
            Some(Budget::Dollars(dollars)) => Usd::budget(dollars),
            // No budget can be more than unlimited.
            Some(Budget::More(_)) if before.budget_usd.is_zero() => before.budget_usd,
            Some(Budget::More(dollars)) => before.budget_usd + Usd::budget(dollars),
        },
        max_parallel: args.max_parallel.map_or(before.max_parallel, usize::from),
        max_parallel_scripts: args.max_parallel_scripts.map_or(before.max_parallel_scripts, usize::from),
        max_steps: args.max_steps.map(u64::from).or(before.max_steps),
        no_wait: args.no_wait || before.no_wait,
        model: args.model.clone().or(before.model),
        effort: args.effort.clone().or(before.effort),
        model_is_given: args.model.is_some() || before.model_is_given,
        effort_is_given: args.effort.is_some() || before.effort_is_given,
        backend: args.backend.clone().or(before.backend),
        backend_is_given: args.backend.is_some() || before.backend_is_given,
        timeout_ms: args.timeout.map(|timeout| timeout.milliseconds).or(before.timeout_ms),
        script_timeout_ms: args.timeout.map(|timeout| timeout.milliseconds).or(before.script_timeout_ms),
        // `serve` gives the one or the other, whatever the run was started with.
        skip_permissions: (args.dangerously_skip_permissions || before.skip_permissions)
            && !args.ask_permissions,
        no_lint: args.no_lint || before.no_lint,
        record: args.record.as_deref().map(absolute).or(before.record),
        replay: args.replay.as_deref().map(absolute).or(before.replay),
        snapshots: args.snapshots || before.snapshots,
        replay_missing: args.replay_missing.map(|how| how.as_str().to_owned()).or(before.replay_missing),
        no_debug: before.no_debug,
    }
}

/// What a run on other machines uses besides: there, whether steps leave debug files is for the whole run.
pub(super) fn elsewhere(args: &RunOptions, settings: &Settings, options: Options) -> Options {
    let no_debug = options.no_debug || args.no_debug || settings.no_debug.unwrap_or(false);
    Options { no_debug, ..options }
}

/// A resume may come from another folder.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}
