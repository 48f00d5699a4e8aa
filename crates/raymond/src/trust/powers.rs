//! Which settings of a project's config file give power, and which are a matter of taste.
//!
//! A project's file may come with a cloned repository. With a setting that gives power it chooses programs, what agents may
//! reach, who is called, or what may be spent. [`SETTINGS`] says it of every setting; one that is not in the table counts as one
//! that gives power, and a test asks for its row.

use toml::{Table, Value};

use crate::agent::DEFAULT_BACKEND;

/// What a setting of a project can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It changes how a run works, and not what it may do. Programs get some of these values as arguments, so one that looks like
    /// an option gives power.
    Taste,
    /// It gives power, unless it says what holds without it anyway.
    Power,
    /// It gives power if it switches something on.
    Switch,
    /// Dollars, where 0 is no limit: it gives power if it allows more than what holds without it.
    Budget,
    /// It gives power if it allows more than the user does. Where the user sets no limit, none is lifted.
    Limit,
}

/// Who uses a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// A run when it begins. What is chosen then is recorded, and a resume does not ask again.
    Beginning,
    /// What looks for workflows or folders outside the project.
    Places,
    /// What starts agent programs, and counts what they cost.
    Agents,
    /// What understands what agent programs wrote, and knows where their conversations are.
    Kinds,
    /// What tells people about a run.
    Notices,
    /// What asks other machines about their runs.
    Engines,
    /// No part of the program: it counts only in the user's own file.
    Nowhere,
}

/// The name of a setting, with `*` for a name that a user gives; what it can do; and who uses it.
type Row = (&'static [&'static str], Kind, Area);

/// Every setting.
const SETTINGS: [Row; 32] = {
    use Area::*;
    use Kind::*;
    [
        (&["raymond", "budget"], Budget, Beginning),
        (&["raymond", "model"], Taste, Beginning),
        (&["raymond", "effort"], Taste, Beginning),
        (&["raymond", "backend"], Power, Beginning),
        (&["raymond", "timeout"], Taste, Beginning),
        (&["raymond", "max_parallel"], Limit, Beginning),
        (&["raymond", "max_parallel_scripts"], Limit, Beginning),
        (&["raymond", "max_steps"], Limit, Beginning),
        (&["raymond", "dangerously_skip_permissions"], Switch, Beginning),
        (&["raymond", "on_ask"], Taste, Notices),
        (&["raymond", "no_wait"], Taste, Beginning),
        (&["raymond", "no_debug"], Taste, Notices),
        (&["raymond", "debug_steps"], Taste, Notices),
        (&["raymond", "verbose"], Taste, Notices),
        (&["raymond", "durability"], Taste, Beginning),
        (&["raymond", "snapshots"], Taste, Beginning),
        (&["raymond", "keep_segments"], Taste, Beginning),
        (&["raymond", "workflow_paths"], Power, Places),
        (&["raymond", "cd_paths"], Power, Places),
        (&["raymond", "safe_folders"], Power, Nowhere),
        (&["raymond", "notify"], Power, Notices),
        (&["backend", "*", "kind"], Power, Kinds),
        (&["backend", "*", "command"], Power, Agents),
        (&["backend", "*", "args"], Power, Agents),
        (&["backend", "*", "resume_args"], Power, Agents),
        (&["backend", "*", "branches"], Switch, Agents),
        (&["backend", "*", "model"], Taste, Agents),
        (&["backend", "*", "without_branch"], Power, Agents),
        (&["backend", "*", "cost"], Power, Agents),
        (&["backend", "*", "replies"], Power, Agents),
        (&["prices", "*"], Power, Agents),
        (&["engine", "*"], Power, Engines),
    ]
};

/// A setting of a project's file that gives power.
#[derive(Clone, Debug, PartialEq)]
pub struct Power {
    /// Its tables, and its own name.
    path: Vec<String>,
    pub area: Area,
    /// The setting in one line, without anything that a terminal could obey.
    pub shown: String,
}

impl Power {
    /// Whether its own name is this one, as in `[engine.NAME]`.
    pub fn is_named(&self, name: &str) -> bool {
        self.path.last().is_some_and(|last| last == name)
    }

    /// Takes it out of the project's settings.
    pub fn leave_out_of(&self, project: &mut Table) {
        // The rest of a backend's table was written for the program that it no longer is.
        let depth =
            if self.path.first().is_some_and(|table| table == "backend") { 2 } else { self.path.len() };
        if let Some((name, tables)) = self.path.get(..depth).and_then(<[String]>::split_last) {
            let inner = tables.iter().try_fold(project, |table, name| table.get_mut(name)?.as_table_mut());
            inner.and_then(|table| table.remove(name));
        }
    }
}

/// The settings of a project that give power. `user` is what the user's own file says, and `budget` what the workflow would have
/// if neither file said anything.
pub fn find(project: &Table, user: &Table, budget: f64) -> Vec<Power> {
    let found = settings_of(project);
    let gives_power = |setting: &Setting<'_>| setting.gives_power(at(user, &setting.path), budget);
    let power =
        |setting: Setting<'_>| Power { shown: setting.shown(), path: setting.path, area: setting.area };
    found.into_iter().filter(gives_power).map(power).collect()
}

/// All settings that could give power, one line each, whatever the user's own file says: what a consent is for.
pub fn content(project: &Table) -> Vec<String> {
    let could = |setting: &Setting<'_>| match setting.kind {
        Kind::Power | Kind::Budget | Kind::Limit => true,
        Kind::Taste | Kind::Switch => setting.gives_power(None, f64::INFINITY),
    };
    settings_of(project).iter().filter(|setting| could(setting)).map(Setting::shown).collect()
}

/// A setting as a file has it.
struct Setting<'a> {
    path: Vec<String>,
    value: &'a Value,
    kind: Kind,
    area: Area,
}

impl Setting<'_> {
    /// Whether it gives power to its project. `user` is what the user's own file says about it.
    fn gives_power(&self, user: Option<&Value>, budget: f64) -> bool {
        if user == Some(self.value) {
            return false;
        }
        match self.kind {
            Kind::Taste => self.value.as_str().is_some_and(|word| word.starts_with('-')),
            Kind::Power => user.is_some() || !self.is_default(),
            Kind::Switch => self.value.as_bool() != Some(false),
            Kind::Budget => allowed(number(self.value)) > allowed(user.and_then(number_of).unwrap_or(budget)),
            Kind::Limit => user.and_then(number_of).is_some_and(|most| number(self.value) > most),
        }
    }

    /// Whether it says what would hold without it.
    fn is_default(&self) -> bool {
        let names: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match (names.as_slice(), self.value) {
            (_, Value::Array(list)) => list.is_empty(),
            (["backend", name, "kind"], Value::String(kind)) => kind == name,
            (["raymond", "backend"], Value::String(name)) => name == DEFAULT_BACKEND,
            _ => false,
        }
    }

    fn shown(&self) -> String {
        let value = shown(self.value);
        match self.path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["raymond", name] | [name] => format!("{} = {value}", key(name)),
            [tables @ .., name] => {
                let tables: Vec<String> = tables.iter().map(|table| key(table)).collect();
                format!("[{}] {} = {value}", tables.join("."), key(name))
            }
            [] => value,
        }
    }
}

/// How much may be spent.
fn allowed(budget: f64) -> f64 {
    if budget == 0.0 { f64::INFINITY } else { budget }
}

/// What is no number was refused when the file was read; here it counts as the largest.
fn number(value: &Value) -> f64 {
    number_of(value).unwrap_or(f64::INFINITY)
}

fn number_of(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

/// What a file says about a setting.
fn at<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (name, tables) = path.split_last()?;
    let inner = tables.iter().try_fold(table, |table, name| table.get(name)?.as_table())?;
    inner.get(name)
}

/// All settings of a file.
fn settings_of(table: &Table) -> Vec<Setting<'_>> {
    let mut found = Vec::new();
    collect(table, &mut Vec::new(), &mut found);
    found
}

fn collect<'a>(table: &'a Table, path: &mut Vec<String>, found: &mut Vec<Setting<'a>>) {
    for (name, value) in table {
        path.push(name.clone());
        match (row_of(path), value) {
            (Some((kind, area)), _) => found.push(Setting { path: path.clone(), value, kind, area }),
            (None, Value::Table(inner)) if is_table(path) => collect(inner, path, found),
            // Nothing is known about it.
            (None, _) => {
                found.push(Setting { path: path.clone(), value, kind: Kind::Power, area: Area::Beginning })
            }
        }
        path.pop();
    }
}

fn row_of(path: &[String]) -> Option<(Kind, Area)> {
    let is_it = |name: &&[&str]| name.len() == path.len() && begins_like(name, path);
    SETTINGS.iter().find(|(name, ..)| is_it(name)).map(|(_, kind, area)| (*kind, *area))
}

/// Whether settings of the table have rows of their own.
fn is_table(path: &[String]) -> bool {
    SETTINGS.iter().any(|(name, ..)| name.len() > path.len() && begins_like(name, path))
}

fn begins_like(name: &[&str], path: &[String]) -> bool {
    name.iter().zip(path).all(|(part, given)| *part == "*" || part == given)
}

/// A value in one line. Rust's way to write texts escapes everything that cannot be seen.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let entries: Vec<String> =
                table.iter().map(|(name, value)| format!("{} = {}", key(name), shown(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Float(number) => format!("{number:?}"),
        Value::Integer(_) | Value::Boolean(_) | Value::Datetime(_) => value.to_string(),
    }
}

fn key(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || ['-', '_'].contains(&letter);
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { format!("{name:?}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Config;

    /// The settings that a schema describes, as paths of the table.
    fn described(
        schema: &serde_json::Value,
        at: &serde_json::Value,
        path: &str,
        found: &mut BTreeSet<String>,
    ) {
        let name = at["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
        let at = name.map_or(at, |name| &schema["$defs"][name]);
        let values = &at["additionalProperties"];
        let is_entry = ["prices", "engine"].contains(&path);
        match at["properties"].as_object() {
            _ if values.is_object() && is_entry => drop(found.insert(format!("{path} *"))),
            _ if values.is_object() => described(schema, values, &format!("{path} *"), found),
            Some(properties) => {
                for (name, value) in properties {
                    described(schema, value, format!("{path} {name}").trim(), found);
                }
            }
            None => drop(found.insert(path.to_owned())),
        }
    }

    /// Each setting has its row here, which says what a project may do with it.
    #[test]
    fn every_setting_has_a_row_and_every_row_a_setting() {
        let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
        let mut settings = BTreeSet::new();
        described(&schema, &schema, "", &mut settings);
        let rows: BTreeSet<String> = SETTINGS.iter().map(|(path, ..)| path.join(" ")).collect();
        assert_eq!(rows.len(), SETTINGS.len());
        assert_eq!(rows, settings, "a setting without a row, or a row without a setting");
    }

    #[test]
    fn what_is_not_in_the_table_gives_power() {
        let project = toml::from_str("new = 1\n[raymond]\nnewer = true\n[other.table]\nx = 1\n").unwrap();
        let found: Vec<String> =
            find(&project, &Table::new(), 10.0).into_iter().map(|power| power.shown).collect();
        assert_eq!(found, ["new = 1", "other = { table = { x = 1 } }", "newer = true"]);
    }

    #[test]
    fn a_backend_is_left_out_as_a_whole_and_of_other_tables_only_what_gives_power() {
        let text = "[raymond]\nmodel = \"m\"\nbudget = 0\n[backend.a]\nkind = \"codex\"\nmodel = \"gpt-5\"\n\
                    [backend.claude]\nmodel = \"m\"\n[engine.x]\nurl = \"temporal://h\"\n";
        let mut project: Table = toml::from_str(text).unwrap();
        for power in find(&project.clone(), &Table::new(), 10.0) {
            power.leave_out_of(&mut project);
        }
        let rest: Table =
            toml::from_str("[raymond]\nmodel = \"m\"\n[backend.claude]\nmodel = \"m\"\n[engine]\n").unwrap();
        assert_eq!(project, rest);
    }

    #[test]
    fn a_setting_is_shown_in_one_line_that_nothing_can_hide_in() {
        let text = "[engine.\"a\\n] b\"]\nurl = \"x\\n\\u001b[8m\\u202e\"\nqueue = '''\none\ntwo'''\n";
        let shown = content(&toml::from_str(text).unwrap());
        assert_eq!(shown, [r#"[engine] "a\n] b" = { queue = "one\ntwo", url = "x\n\u{1b}[8m\u{202e}" }"#]);
    }
}
