//! From an agent whose turn it is to what its step needs: its state is read, its prompt rendered, its folders chosen.
//!
//! All of this happens before the step's start is recorded, so that the journal can say what is about to run.

mod code;
mod prompt;
mod variables;

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::frontmatter::ResultSchema;
use raymond_core::input::{Plan, Prepared, PromptPlan};
use raymond_core::name::AgentId;
use raymond_core::run::{Agent, Options, Run};

use super::engine::{Preparation, States};
use super::job::{Handed, PortablePrompt, StepNeeds, TurnNeeds, WorktreeNeeds};
use crate::agent::registry::{Backend, Backends};
use crate::agent::{Asked, Filled, Grant, Plain};
use crate::process::secrets::Secrets;
use crate::recording::{Places, prompt_hash};
use crate::store::{Payloads, StoreError};
use crate::workflow::result_schema;
use crate::workflow::scopes::Scopes;
use crate::workflow::states::{StateText, TurnSettings, options_in, read_state};
use sha2::{Digest, Sha256};
use variables::{StepFacts, agent_variables, script_variables};

/// Stands for the folder of task folders where these are not. No folder of a run is below it.
const TASKS_ELSEWHERE: &str = "/.tasks";

/// Prepares the steps of a run.
pub struct Preparer {
    pub scopes: Rc<RefCell<Scopes>>,
    pub options: Options,
    pub payloads: Payloads,
    pub backends: Backends,
    /// Where each agent gets a folder of its own.
    pub tasks: PathBuf,
    /// The project's folder.
    pub project: PathBuf,
    /// Whether prompts are recorded, or compared with recorded ones.
    pub keeps_portable: bool,
}

/// Why a step cannot be prepared.
enum NotReady {
    /// The step fails.
    Step(String),
    /// What the run keeps cannot be read. No workflow could handle that, so the program ends.
    Store(StoreError),
}

impl From<String> for NotReady {
    fn from(error: String) -> Self {
        Self::Step(error)
    }
}

impl States for Preparer {
    type Job = StepNeeds;

    fn prepare(&mut self, run: &Run, agent: &Agent) -> Result<Preparation<StepNeeds>, StoreError> {
        match self.ready(run, agent) {
            Ok(ready) => Ok(Ok(ready)),
            Err(NotReady::Step(error)) => Ok(Err(error)),
            Err(NotReady::Store(error)) => Err(error),
        }
    }
}

impl Preparer {
    fn ready(&self, run: &Run, agent: &Agent) -> Result<(Prepared, StepNeeds), NotReady> {
        let mut scopes = self.scopes.borrow_mut();
        let needed = |error| format!("{error} ({} needs it)", agent.id);
        let scope = scopes.of(agent).map_err(needed)?;
        let source = scope.read(&agent.state).map_err(needed)?;
        let options = options_in(scope, &self.options);
        let state = read_state(&agent.state, &source, &options, &scope.manifest().defaults)?;
        let task_folder = task_folder_of(&self.tasks, &agent.id);
        let handed = self.handed(agent)?;
        let facts = StepFacts {
            run_id: &run.id,
            agent,
            inputs: run.inputs_of(agent),
            scope: scope.path(),
            environment: &scope.manifest().environment,
            task_folder: &task_folder,
            input: handed.as_ref().map(|handed| (handed.text.as_str(), handed.file.as_path())),
        };
        let environment = match agent.state.kind().is_prompt() {
            true => agent_variables(&facts),
            false => script_variables(&facts),
        };
        let inputs = run.inputs_of(agent).into_iter().flat_map(|inputs| &inputs.values);
        let secrets = Secrets::of(scope.manifest().environment.iter().chain(&agent.attributes).chain(inputs));
        let code = code::of(&mut scopes, agent, source)?;
        let workflow_files = code::workflow_files(&mut scopes, agent)?;
        let StateText { hash, mut plan, turn, mut warnings, body } = state;
        let turn = match (&mut plan, turn) {
            (Plan::Prompt(prompt), Some(mut settings)) => {
                warnings.extend(self.choose_backend(agent, prompt, &mut settings)?);
                Some(self.turn_needs(run, agent, &mut scopes, (prompt, settings, &body), &task_folder)?)
            }
            _ => None,
        };
        let handed = handed.filter(|_| turn.is_none());
        let worktree = worktree_needs(&scopes, run, agent);
        let needs = StepNeeds {
            cwd: agent.cwd.clone(),
            environment,
            secrets,
            task_folder,
            handed,
            code,
            workflow_files,
            worktree,
            takes_snapshots: self.options.snapshots,
            turn,
        };
        Ok((Prepared { hash, plan, warnings }, needs))
    }

    /// Chooses the first backend of the state's list that can take the turn. The warning says that a program is missing.
    fn choose_backend(
        &self,
        agent: &Agent,
        prompt: &mut PromptPlan,
        settings: &mut TurnSettings,
    ) -> Result<Option<String>, NotReady> {
        let first = prompt.backend.clone();
        let is_installed = |name: &str| self.backends.get(name).is_ok_and(Backend::is_installed);
        let missing = choose(agent, prompt, is_installed);
        let backend = self.backends.get(&prompt.backend)?;
        settings.model = backend.model_of(settings.model.take(), prompt.backend != first);
        prompt.model.clone_from(&settings.model);
        Ok(missing.map(|missing| {
            format!("the program of the backend `{missing}` was not found; `{}` is used", prompt.backend)
        }))
    }

    /// What a prompt's turn needs: above all the text that is sent.
    fn turn_needs(
        &self,
        run: &Run,
        agent: &Agent,
        scopes: &mut Scopes,
        (prompt, settings, body): (&mut PromptPlan, TurnSettings, &str),
        task_folder: &Path,
    ) -> Result<TurnNeeds, NotReady> {
        if let Some(schema) = &prompt.result_schema {
            let in_state = |error| format!("{}: {error}", agent.state);
            let schema = result_schema::read(schema, scopes.of(agent)?).map_err(in_state)?;
            prompt.result_schema = Some(ResultSchema::Inline(schema));
        }
        let program = self.backends.get(&prompt.backend)?;
        let input = input_of(agent, &self.payloads).map_err(NotReady::Store)?;
        let visits = agent.visits_here().to_string();
        let json = OnceCell::new();
        let values = prompt::Values { run, agent, input: &input, task_folder, visits: &visits, json };
        let in_state = |error| format!("{}: {error}", agent.state);
        let mut grants = prompt::grants(&settings, &values).map_err(in_state)?;
        if program.capabilities().add_dirs {
            grants.add_dirs.extend(task_folder.to_str().map(Grant::own_folder));
        }
        let (text, places_of_values) =
            prompt::message(&self.payloads, agent, body, &values).map_err(NotReady::Store)?;
        let folders: Vec<PathBuf> =
            grants.add_dirs.iter().map(|folder| Path::new(&agent.cwd).join(folder.as_str())).collect();
        let filled =
            Filled { text: &text, values: &places_of_values, cwd: Path::new(&agent.cwd), folders: &folders };
        let Plain { text, changed } = program.plain(&filled);
        prompt.program_chooses_session = !program.capabilities().takes_session_id();
        prompt.continues_in_place = program.continues_in_place();
        let places = Places::new(&run.id, task_folder, &agent.cwd, &self.project);
        // Where a value had to be changed, the places of the values are no longer known.
        let values = if changed.is_empty() { places_of_values.as_slice() } else { &[] };
        let portable = PortablePrompt { text: places.replace(&text, values), places };
        prompt.prompt_sha256 = Some(prompt_hash(&portable.text));
        let portable = self.keeps_portable.then_some(portable);
        let asked = Asked {
            state: agent.state.name(),
            number: run.next_turn(agent),
            prompt: &text,
            agent: agent.id.as_str(),
            visit: agent.visits_here(),
            used: &run.used_replies,
            portable: portable.as_ref().map(|portable| portable.text.as_str()),
            places: portable.as_ref().map(|portable| &portable.places),
        };
        let answer = program.answer(&asked, scopes.of(agent)?);
        prompt.reply = answer.as_ref().and_then(|answer| answer.as_ref().ok()?.reply);
        Ok(TurnNeeds {
            answer,
            visit: agent.visits_here(),
            portable,
            backend: prompt.backend.clone(),
            prompt: text,
            changed_values: changed,
            settings,
            grants,
            skip_permissions: self.options.skip_permissions,
            conversation: agent.conversation().cloned(),
        })
    }

    /// Removes the files of an agent that has ended, but no folder in which it left something.
    pub fn clear_away(&self, agent: &AgentId) {
        let _ = std::fs::remove_file(input_file(&self.tasks, agent));
        let _ = std::fs::remove_dir(task_folder_of(&self.tasks, agent));
    }

    /// The payload handed to the agent's state, and the file of the agent's own that is to hold it.
    fn handed(&self, agent: &Agent) -> Result<Option<Handed>, NotReady> {
        if agent.state.kind().is_prompt() {
            return Ok(None);
        }
        let Some(payload) = &agent.payload else { return Ok(None) };
        let text = self.payloads.text_of(payload).map_err(NotReady::Store)?;
        Ok(Some(Handed { text, file: input_file(&self.tasks, &agent.id) }))
    }
}

/// The file that holds what is handed to an agent's state. It is written before each step that is handed something.
pub(super) fn input_file(tasks: &Path, agent: &AgentId) -> PathBuf {
    tasks.join(format!("{}.input", file_name_of(agent)))
}

/// The hash of the prompt of an agent's next turn, as a journal has it, where neither the agent's folders nor its program
/// are. What the program would take for more than text is not changed in it.
pub(super) fn hash_of_prompt(
    run: &Run,
    agent: &Agent,
    body: &str,
    payloads: &Payloads,
    project: &Path,
) -> Result<String, StoreError> {
    let input = input_of(agent, payloads)?;
    let visits = agent.visits_here().to_string();
    let task_folder = Path::new(TASKS_ELSEWHERE).join(file_name_of(&agent.id));
    let json = OnceCell::new();
    let values =
        prompt::Values { run, agent, input: &input, task_folder: &task_folder, visits: &visits, json };
    let (text, places_of_values) = prompt::message(payloads, agent, body, &values)?;
    let places = Places::new(&run.id, &task_folder, &agent.cwd, project);
    Ok(prompt_hash(&places.replace(&text, &places_of_values)))
}

/// What the agent's state is handed.
fn input_of(agent: &Agent, payloads: &Payloads) -> Result<String, StoreError> {
    Ok(agent.payload.as_ref().map(|payload| payloads.text_of(payload)).transpose()?.unwrap_or_default())
}

/// Chooses the first backend of a state's list that can take an agent's turn. A conversation stays with its backend. Returns the
/// one that would have taken the turn if its program were there.
pub(super) fn choose(
    agent: &Agent,
    prompt: &mut PromptPlan,
    is_installed: impl Fn(&str) -> bool,
) -> Option<String> {
    if prompt.fallbacks.is_empty() {
        return None;
    }
    let all: Vec<String> =
        std::iter::once(prompt.backend.clone()).chain(prompt.fallbacks.drain(..)).collect();
    let start = first_backend(agent, &all);
    let stays = !prompt.may_forget && backend_of_conversation(agent) == Some(&all[start]);
    let is_there = |name: &&String| (stays && **name == all[start]) || is_installed(name);
    let mut installed = all[start..].iter().filter(is_there).cloned();
    prompt.backend = installed.next().unwrap_or_else(|| all[start].clone());
    prompt.fallbacks = installed.collect();
    (prompt.backend != all[start]).then(|| all[start].clone())
}

/// The place in a state's list of backends from which one is chosen: that of its conversation, or the one that a usage limit
/// has led to.
fn first_backend(agent: &Agent, all: &[String]) -> usize {
    let of_limit = agent.work().and_then(|work| work.fallback.as_ref());
    let place = |name: Option<&String>| all.iter().position(|other| Some(other) == name);
    place(of_limit).or(place(backend_of_conversation(agent))).unwrap_or(0)
}

fn backend_of_conversation(agent: &Agent) -> Option<&String> {
    agent.conversation().and_then(|session| session.backend.as_ref())
}

fn worktree_needs(scopes: &Scopes, run: &Run, agent: &Agent) -> Option<WorktreeNeeds> {
    let worktree = run.worktree_of(agent)?;
    let mark = scopes.worktrees()?.mark(&worktree.name);
    Some(WorktreeNeeds { worktree: worktree.clone(), mark })
}

/// The folder of an agent's own, below that of all agents. A run of an earlier version keeps the one that it has.
pub(crate) fn task_folder_of(tasks: &Path, agent: &AgentId) -> PathBuf {
    let folder = tasks.join(file_name_of(agent));
    match earlier_file_name_of(agent).map(|name| tasks.join(name)) {
        Some(earlier) if !folder.exists() && earlier.is_dir() => earlier,
        _ => folder,
    }
}

/// What earlier versions called the files of an agent with a long name. Two agents could have the same.
fn earlier_file_name_of(agent: &AgentId) -> Option<String> {
    let (name, start) = (agent.as_str(), start_of_long(agent)?);
    Some(format!("{start}-{:08x}", crc32fast::hash(name.as_bytes())))
}

/// Agent names grow with each generation of forks; file systems stop at 255 bytes. A long name is replaced by its start and its
/// whole SHA-256, so that no two agents share a file.
pub(crate) fn file_name_of(agent: &AgentId) -> String {
    let name = agent.as_str();
    let Some(start) = start_of_long(agent) else { return name.to_owned() };
    let digits: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{start}-{digits}")
}

/// The start of a name that is too long for a file.
fn start_of_long(agent: &AgentId) -> Option<String> {
    const MOST: usize = 120;
    let name = agent.as_str();
    (name.len() > MOST).then(|| name.chars().take(MOST / 4).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two names with the same start, length and CRC-32.
    fn alike() -> [AgentId; 2] {
        let start = "main_".to_owned() + &"worker1_".repeat(20);
        ["uejgtcuo", "iiwucoup"].map(|end| AgentId::new(format!("{start}{end}")))
    }

    #[test]
    fn agents_with_long_names_share_no_file() {
        let [one, other] = alike();
        assert_eq!(earlier_file_name_of(&one), earlier_file_name_of(&other));
        assert_ne!(file_name_of(&one), file_name_of(&other));
        assert!(file_name_of(&one).len() < 120);
        let tasks = tempfile::tempdir().unwrap();
        assert_ne!(task_folder_of(tasks.path(), &one), task_folder_of(tasks.path(), &other));
        assert_ne!(input_file(tasks.path(), &one), input_file(tasks.path(), &other));
    }

    #[test]
    fn a_run_of_an_earlier_version_keeps_its_folders() {
        let [agent, _] = alike();
        let tasks = tempfile::tempdir().unwrap();
        let earlier = tasks.path().join(earlier_file_name_of(&agent).unwrap());
        std::fs::create_dir(&earlier).unwrap();
        assert_eq!(task_folder_of(tasks.path(), &agent), earlier);
        let short = AgentId::main();
        assert_eq!(task_folder_of(tasks.path(), &short), tasks.path().join("main"));
    }
}
