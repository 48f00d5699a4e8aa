//! The settings of a command: what of the project's config file it uses.
//!
//! A run or resume of the project's own workflow uses everything in it. For any other workflow, settings that give power need the
//! user's consent. Commands that only look leave them out and say so. Every command has to choose one of these functions, because
//! [`Layers`] become a [`Config`] in no other way.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::args::RunOptions;
use super::find::{project_folder, working_folder};
use super::print::say;
use crate::config::{self, Config, Layers};
use crate::error::UserError;
use crate::store::StateDir;
use crate::trust::{Area, Consent, Power, check_open, check_owner};
use crate::view::text::one_line;
use crate::workflow::scope::Scope;

/// What a resume uses; the rest was recorded when the run began.
const OF_A_RESUME: [Area; 4] = [Area::Places, Area::Agents, Area::Kinds, Area::Notices];
/// What commands that only look could use.
const OF_LOOKING: [Area; 3] = [Area::Places, Area::Kinds, Area::Engines];
/// How to accept the settings of a project without running anything.
pub(super) const HOW_TO_ACCEPT: &str = "raymond doctor --trust";

/// Reads both config files. The project's is in `.raymond`, even if `--state-dir` puts the journals elsewhere.
pub(super) fn read() -> Result<Layers, UserError> {
    let project = project_config(&working_folder()?);
    if project.as_deref().is_some_and(Path::exists) {
        project.as_deref().and_then(Path::parent).map_or(Ok(()), check_owner)?;
    }
    Layers::read(config::user_file().as_deref(), project.as_deref(), &check_open)
}

fn project_config(cwd: &Path) -> Option<PathBuf> {
    StateDir::find(cwd).ok().and_then(|dir| dir.home().map(|home| home.join("config.toml")))
}

/// The settings of a run that begins, perhaps on this engine.
pub(super) fn of_new_run(
    layers: &Layers,
    scope: &Scope,
    engine: Option<&str>,
    options: &RunOptions,
) -> Result<Config, UserError> {
    let budget = scope.manifest().default_budget;
    let powers = powers_for_new_run(layers, engine, budget, options);
    of_run(layers, scope.path(), &powers, budget, options.trust)
}

/// The settings that give power and that this run would use.
fn powers_for_new_run(
    layers: &Layers,
    engine: Option<&str>,
    budget: Option<f64>,
    options: &RunOptions,
) -> Vec<Power> {
    let mut powers = layers.powers(budget);
    powers.retain(|power| match power.area {
        Area::Engines => engine.is_some_and(|engine| power.is_named(engine)),
        Area::Beginning => !is_given(options, power),
        Area::Nowhere => false,
        Area::Places | Area::Agents | Area::Kinds | Area::Notices => true,
    });
    powers
}

/// Whether the command line decides what a setting is about.
fn is_given(options: &RunOptions, power: &Power) -> bool {
    let permissions = options.ask_permissions || options.dangerously_skip_permissions;
    let given = [
        ("budget", options.budget.is_some()),
        ("model", options.model.is_some()),
        ("effort", options.effort.is_some()),
        ("backend", options.backend.is_some()),
        ("max_parallel", options.max_parallel.is_some()),
        ("max_parallel_scripts", options.max_parallel_scripts.is_some()),
        ("max_steps", options.max_steps.is_some()),
        ("dangerously_skip_permissions", permissions),
    ];
    given.iter().any(|(name, is_given)| *is_given && power.is_named(name))
}

/// The settings of a run that goes on; `workflow` is the one it began with.
pub(super) fn of_resume(layers: &Layers, workflow: &Path, is_trusted: bool) -> Result<Config, UserError> {
    of_run(layers, workflow, &layers.powers_for(&OF_A_RESUME, None), None, is_trusted)
}

/// What a command that changes a run may use for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) layers: &'a Layers,
    /// Whether the user has said so with `--trust`.
    pub(super) is_trusted: bool,
    /// Whether the run goes on at once.
    pub(super) goes_on: bool,
}

/// The settings for a change of a run, which are those of a resume if it goes on at once. Otherwise nothing is started, so what
/// needs consent is left out.
pub(super) fn of_change(change: Change<'_>, workflow: &Path) -> Result<Config, UserError> {
    let Change { layers, is_trusted, goes_on } = change;
    if goes_on {
        return of_resume(layers, workflow, is_trusted);
    }
    match consent(layers, Some(workflow), is_trusted)? {
        Some(consent) => layers.all(&consent),
        None => without_powers(layers, Area::Kinds),
    }
}

/// The settings of a command that only looks, and uses those of this area.
pub(super) fn of_looking(area: Area) -> Result<Config, UserError> {
    of_looking_with(false, area)
}

/// The same for one that takes `--trust`.
pub(super) fn of_looking_with(is_trusted: bool, area: Area) -> Result<Config, UserError> {
    let layers = read()?;
    match consent(&layers, None, is_trusted)? {
        Some(consent) => layers.all(&consent),
        None => without_powers(&layers, area),
    }
}

/// The settings of a command that uses only such as give no power.
pub(super) fn harmless() -> Result<Config, UserError> {
    read()?.harmless(None)
}

/// The settings for `doctor`, and those that it leaves out.
pub(super) fn of_doctor(layers: &Layers, is_trusted: bool) -> Result<(Config, Vec<Power>), UserError> {
    match consent(layers, None, is_trusted)? {
        Some(consent) => Ok((layers.all(&consent)?, Vec::new())),
        None => {
            let mut powers = layers.powers(None);
            powers.retain(|power| power.area != Area::Nowhere);
            Ok((layers.harmless(None)?, powers))
        }
    }
}

/// All settings if the run would use none that needs consent, or has it. Otherwise the user is asked.
fn of_run(
    layers: &Layers,
    workflow: &Path,
    powers: &[Power],
    budget: Option<f64>,
    is_trusted: bool,
) -> Result<Config, UserError> {
    if let Some(consent) = consent(layers, Some(workflow), is_trusted)? {
        return layers.all(&consent);
    }
    match layers.wanted().filter(|_| !powers.is_empty()) {
        Some(wanted) => layers.all(&Consent::asked(&wanted)?),
        None => layers.harmless(budget),
    }
}

/// The consent that there is without asking.
fn consent(layers: &Layers, workflow: Option<&Path>, is_trusted: bool) -> Result<Option<Consent>, UserError> {
    let Some(wanted) = layers.wanted() else { return Ok(None) };
    if is_trusted {
        return Ok(Some(Consent::given(&wanted)));
    }
    let project = project_folder(&working_folder()?);
    let of_project = workflow.and_then(|workflow| Consent::of_project(&project, workflow));
    Ok(of_project.or_else(|| Consent::remembered(&wanted)))
}

/// So many settings are named in a warning, each with so many characters of it.
const MOST_NAMED: usize = 10;
const MOST_CHARACTERS: usize = 200;

/// Settings in a warning. The file has all of them.
pub(super) fn names_of(powers: &[Power]) -> String {
    let shown = powers.iter().take(MOST_NAMED).map(|power| one_line(&power.shown, MOST_CHARACTERS));
    let more = powers.len().saturating_sub(MOST_NAMED);
    let more = (more > 0).then(|| format!("and {more} more"));
    shown.chain(more).collect::<Vec<_>>().join("; ")
}

/// Leaves out what gives power, and says so once if the command would use it.
fn without_powers(layers: &Layers, area: Area) -> Result<Config, UserError> {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !layers.powers_for(&[area], None).is_empty() && !IS_SAID.swap(true, Ordering::Relaxed) {
        let names = names_of(&layers.powers_for(&OF_LOOKING, None));
        let file = layers.wanted().map(|wanted| wanted.shown_file()).unwrap_or_default();
        say(&format!(
            "warning: settings of {file} that give power are left out: {names}\n  → look at them, and accept them from now on: \
             {HOW_TO_ACCEPT}"
        ));
    }
    layers.harmless(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_counts_for_a_run_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let (user, project) = (folder.path().join("user.toml"), folder.path().join("project.toml"));
        std::fs::write(&user, "[engine.team]\nurl = \"temporal://own\"\n").unwrap();
        let engines =
            "[engine.team]\nurl = \"temporal://theirs\"\n[engine.more]\nurl = \"temporal://more\"\n";
        std::fs::write(&project, engines).unwrap();
        let layers = Layers::read(Some(&user), Some(&project), &|_, _| Ok(())).unwrap();
        for (engine, expected) in
            [(None, 0), (Some("team"), 1), (Some("more"), 1), (Some("temporal://theirs"), 0), (Some("x"), 0)]
        {
            let powers = powers_for_new_run(&layers, engine, None, &RunOptions::default());
            assert_eq!(powers.len(), expected, "{engine:?}");
        }
        let engines = layers.harmless(None).unwrap().engine;
        assert_eq!((engines.len(), engines["team"].url.as_str()), (1, "temporal://own"));
    }

    #[test]
    fn the_template_gives_no_power() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("config.toml");
        std::fs::write(&project, config::TEMPLATE).unwrap();
        let layers = Layers::read(None, Some(&project), &|_, _| Ok(())).unwrap();
        assert_eq!((layers.powers(None), layers.wanted().unwrap().settings), (Vec::new(), Vec::new()));
    }
}
