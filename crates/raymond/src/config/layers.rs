//! The user's settings and a project's, which are not merged before it is known what of the project's may be used.

use std::path::{Path, PathBuf};

use toml::Table;

use super::{Accept, Config, Dollars, lay_over, parse, read};
use crate::error::UserError;
use crate::trust::{Area, Consent, Power, Wanted, powers};

/// Both files, each read once, so that what is checked is what is used.
#[derive(Debug, Default)]
pub struct Layers {
    user: Table,
    project: Option<Project>,
}

#[derive(Debug)]
struct Project {
    file: PathBuf,
    settings: Table,
}

impl Layers {
    /// Reads the files that there are. A mistake in one of them is an error that names its line.
    pub fn read(user: Option<&Path>, project: Option<&Path>, accept: Accept<'_>) -> Result<Self, UserError> {
        let mut layers = Self::default();
        if let Some(file) = user {
            layers.user = table(file, &read(file, &|_, _| Ok(()))?)?;
        }
        if let Some(file) = project {
            let settings = table(file, &read(file, accept)?)?;
            layers.project = Some(Project { file: file.to_owned(), settings });
        }
        Ok(layers)
    }

    /// All settings; the project's come before the user's.
    pub fn all(&self, _consent: &Consent) -> Result<Config, UserError> {
        self.with(self.project.as_ref().map(|project| &project.settings))
    }

    /// The settings without those of the project that give power. In their place the user's own hold. `budget` is what the
    /// workflow has if no file says anything.
    pub fn harmless(&self, budget: Option<f64>) -> Result<Config, UserError> {
        let settings = self.project.as_ref().map(|project| {
            let mut settings = project.settings.clone();
            self.powers(budget).iter().for_each(|power| power.leave_out_of(&mut settings));
            settings
        });
        self.with(settings.as_ref())
    }

    /// The settings of the project that give power.
    pub fn powers(&self, budget: Option<f64>) -> Vec<Power> {
        let budget = budget.unwrap_or(DEFAULT_BUDGET.0);
        self.project
            .as_ref()
            .map_or_else(Vec::new, |project| powers::find(&project.settings, &self.user, budget))
    }

    /// The same that one of these would use.
    pub fn powers_for(&self, areas: &[Area], budget: Option<f64>) -> Vec<Power> {
        let mut powers = self.powers(budget);
        powers.retain(|power| areas.contains(&power.area));
        powers
    }

    /// What the user has to accept before all settings are used; nothing if no project has a file.
    pub fn wanted(&self) -> Option<Wanted<'_>> {
        let Project { file, settings } = self.project.as_ref()?;
        Some(Wanted { file, settings: powers::content(settings) })
    }

    /// The names of the project's backends, for completions: those that mean nothing to a shell or a terminal.
    pub fn backend_names(&self) -> impl Iterator<Item = &str> {
        let is_plain = |name: &&str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
                && !name.starts_with('-')
        };
        let backends = self.project.as_ref().and_then(|project| project.settings.get("backend")?.as_table());
        backends.into_iter().flat_map(|backends| backends.keys().map(String::as_str)).filter(is_plain)
    }

    fn with(&self, project: Option<&Table>) -> Result<Config, UserError> {
        let mut merged = self.user.clone();
        lay_over(&mut merged, project.cloned().unwrap_or_default());
        merged.try_into().map_err(|error: toml::de::Error| UserError::usage(error.to_string()))
    }
}

/// What a run may spend if nothing is said.
const DEFAULT_BUDGET: Dollars = Dollars(10.0);

/// The settings of a file that has no mistake.
fn table(file: &Path, text: &str) -> Result<Table, UserError> {
    parse(file, text)?;
    Ok(toml::from_str(text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The settings of a user and of a project that is trusted.
    fn both(user: &Path, project: &Path) -> Result<Config, UserError> {
        let folder = project.parent().unwrap();
        let layers = Layers::read(Some(user), Some(project), &|_, _| Ok(()))?;
        layers.all(&Consent::of_project(folder, project).unwrap())
    }

    #[test]
    fn the_projects_settings_come_before_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let (user, project) = (folder.path().join("user.toml"), folder.path().join("project.toml"));
        fs::write(&user, "[raymond]\nmodel = \"a\"\neffort = \"low\"\n[backend.claude]\ncommand = \"c\"\n")
            .unwrap();
        fs::write(&project, "[raymond]\nmodel = \"b\"\n[backend.claude]\nargs = [\"x\"]\n").unwrap();
        let config = both(&user, &project).unwrap();
        assert_eq!(
            (config.raymond.model.as_deref(), config.raymond.effort.as_deref()),
            (Some("b"), Some("low"))
        );
        let claude = &config.backend["claude"];
        assert_eq!(
            (claude.command.as_deref(), claude.args.as_slice()),
            (Some("c"), ["x".to_owned()].as_slice())
        );
        fs::write(&user, "[raymond]\nmodle = \"a\"\n").unwrap();
        let error = both(&user, &project).unwrap_err();
        assert!(
            error.message.ends_with("unknown key `modle`, in `modle = \"a\"`; did you mean `model`?"),
            "{}",
            error.message
        );
    }

    #[test]
    fn without_what_gives_power_the_users_own_settings_hold() {
        let folder = tempfile::tempdir().unwrap();
        let (user, project) = (folder.path().join("user.toml"), folder.path().join("project.toml"));
        fs::write(
            &user,
            "[raymond]\nmodel = \"a\"\nbudget = 0.5\nnotify = \"own\"\nbackend = \"codex\"\n\
             [backend.codex]\nargs = [\"--safe\"]\n[engine.team]\nurl = \"temporal://own\"\n",
        )
        .unwrap();
        fs::write(
            &project,
            "[raymond]\nmodel = \"b\"\nbudget = 0\nnotify = \"theirs\"\nbackend = \"claude\"\n\
             [backend.codex]\nargs = []\n[backend.mine]\nkind = \"codex\"\nmodel = \"m\"\n\
             [engine.team]\nurl = \"temporal://theirs\"\nqueue = \"q\"\n[prices]\nm = { input = 0, output = 0 }\n",
        )
        .unwrap();
        let layers = Layers::read(Some(&user), Some(&project), &|_, _| Ok(())).unwrap();
        let config = layers.harmless(None).unwrap();
        let said = &config.raymond;
        assert_eq!((said.model.as_deref(), said.budget), (Some("b"), Some(Dollars(0.5))));
        assert_eq!((said.notify.as_deref(), said.backend.as_deref()), (Some("own"), Some("codex")));
        assert_eq!(config.backend["codex"].args, ["--safe"]);
        assert_eq!(config.backend.len(), 1);
        assert_eq!(
            (config.engine["team"].url.as_str(), &config.engine["team"].queue),
            ("temporal://own", &None)
        );
        assert!(config.prices.is_empty());
    }

    #[test]
    fn the_file_that_is_accepted_is_the_one_that_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let (project, other) = (folder.path().join("config.toml"), folder.path().join("other.toml"));
        fs::write(&project, "[raymond]\nmodel = \"accepted\"\n").unwrap();
        fs::write(&other, "[raymond]\nmodel = \"other\"\nnotify = \"rm\"\n").unwrap();
        let layers = Layers::read(None, Some(&project), &|file, _| {
            fs::rename(&other, file).unwrap();
            Ok(())
        })
        .unwrap();
        let consent = Consent::of_project(folder.path(), &project).unwrap();
        let config = layers.all(&consent).unwrap().raymond;
        assert_eq!((config.model.as_deref(), config.notify), (Some("accepted"), None));
        assert_eq!(layers.wanted().unwrap().settings, [""; 0]);
        let refused = Layers::read(None, Some(&project), &|_, _| Err(UserError::usage("no")));
        assert_eq!(refused.unwrap_err().message, "no");
    }
}
