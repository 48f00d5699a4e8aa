//! A run for tests: it gets the reports that programs would give, and continues as the engine would.
//!
//! Every name stands for a script `NAME.sh`, or for the prompt `NAME.md` if it was added before. Every directory is
//! below `/dir`, unless the test sets another one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use raymond_core::decide::{decide, start};
use raymond_core::event::{Body, Event, FORMAT_VERSION, Interrupted, RunStarted};
use raymond_core::evolve::{apply, evolve};
use raymond_core::folder::Folder;
use raymond_core::frontmatter;
use raymond_core::header::{self, Header};
use raymond_core::input::{
    Answer, BadMessage, CompletedTurn, Ended, FailedTurn, FaultClass, Input, InputWanted, Lookups,
    NewWorktree, Plan, Prepared, ProcessExit, PromptPlan, ScopeEntry, ScriptOutcome, StepOutcome, TurnCost,
    TurnOutcome,
};
use raymond_core::join;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Due, Mode, Options, Run, Session, Status, Work};
use raymond_core::tag::TagCollector;
use raymond_core::tokens::Tokens;
use raymond_core::transition::{self, ProtocolError, Reading, Transition};
use raymond_core::variable::Rules;
use raymond_core::workflow::{Kind, StateFile};
use raymond_core::worktree::{Wanted, Worktree, branch};

/// More decisions than any round of these tests needs: with more than this the core is in an endless loop.
const MOST_DUE_IN_A_ROUND: usize = 100_000;

pub const RUN_ID: &str = "run";

pub fn beginning() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

pub fn state(name: &str) -> StateFile {
    StateFile::new(name).or_else(|| StateFile::new(&format!("{name}.sh"))).unwrap()
}

pub fn started(entry: &str, options: Options) -> RunStarted {
    RunStarted {
        scope_hash: None,
        version: FORMAT_VERSION,
        workflow: "wf".into(),
        scope: "/wf".into(),
        entry: state(entry),
        cwd: "/dir".into(),
        nonce: "nonce".into(),
        inputs: Default::default(),
        labels: BTreeMap::new(),
        options,
        moved: Default::default(),
        origin: None,
    }
}

/// The files of a workflow.
#[derive(Clone, Debug, Default)]
pub struct Files {
    headers: BTreeMap<StateFile, Header>,
    pub prompts: BTreeMap<StateFile, PromptPlan>,
    hashes: BTreeMap<StateFile, String>,
    warnings: BTreeMap<StateFile, Vec<String>>,
    gone: BTreeSet<StateFile>,
}

impl Files {
    fn plan(&self, state: &StateFile) -> Plan {
        if state.kind().is_prompt() {
            return Plan::Prompt(Box::new(self.prompts.get(state).cloned().unwrap_or_default()));
        }
        Plan::Script(self.headers.get(state).cloned().unwrap_or_default())
    }

    fn prepare(&self, agent: &Agent) -> Result<Prepared, String> {
        if self.gone.contains(&agent.state) {
            return Err(format!("{} is gone", agent.state));
        }
        Ok(Prepared {
            hash: self.hashes.get(&agent.state).cloned().unwrap_or("1".into()),
            plan: self.plan(&agent.state),
            warnings: self.warnings.get(&agent.state).cloned().unwrap_or_default(),
        })
    }

    fn find(&self, name: &str) -> Result<StateFile, String> {
        let prompt = StateFile::new(&format!("{name}.md")).filter(|file| self.prompts.contains_key(file));
        let file = prompt.unwrap_or_else(|| state(name));
        if self.gone.contains(&file) {
            return Err(format!("no state is called `{name}`"));
        }
        Ok(file)
    }

    fn look_up(&self, plan: &Plan, transition: Option<&Transition>) -> Lookups {
        let policy = if let Plan::Prompt(plan) = plan { plan.policy.as_ref() } else { None };
        let patterns: Vec<String> =
            policy.iter().flat_map(|policy| &policy.entries).filter_map(|entry| entry.cd.clone()).collect();
        let directory = |path: &str| match path {
            "nowhere" => Err("there is no directory `nowhere`".to_owned()),
            // As if the working directory were `/dir`, with everything else outside.
            path => Ok(Folder {
                path: format!("/dir/{path}"),
                outside: path.starts_with("..").then(|| format!("`cd=\"{path}\"` leads outside")),
                matches: patterns.iter().filter(|pattern| *pattern == path).cloned().collect(),
            }),
        };
        let names = transition.map(Transition::state_names).unwrap_or_default();
        let directories = transition.map(Transition::directories).unwrap_or_default();
        let scopes = transition.map(Transition::scopes).unwrap_or_default();
        let worktrees = transition.map(Transition::worktrees).unwrap_or_default();
        let mut lookups = Lookups {
            files: Default::default(),
            scopes: scopes.iter().map(|&scope| (scope.to_owned(), Ok(other_workflow(scope)))).collect(),
            states: names.iter().map(|&name| (name.to_owned(), self.find(name))).collect(),
            directories: directories.iter().map(|&path| (path.to_owned(), directory(path))).collect(),
            result_problem: None,
            snapshot: None,
            worktrees: worktrees.into_iter().map(|wanted| (wanted.clone(), worktree(wanted))).collect(),
        };
        if let Plan::Prompt(plan) = plan
            && let Some(policy) = &plan.policy
        {
            for entry in &policy.entries {
                for scope in entry.target.iter().filter(|_| entry.tag.is_workflow()) {
                    lookups.scopes.insert(scope.clone(), Ok(other_workflow(scope)));
                }
                let target = entry.target.iter().filter(|_| !entry.tag.is_workflow());
                for name in target.chain(&entry.return_to).chain(&entry.next).chain(&entry.timeout_next) {
                    lookups.states.insert(name.clone(), self.find(name));
                }
            }
        }
        lookups
    }
}

/// As if every worktree could be made.
fn worktree(wanted: &Wanted) -> Result<NewWorktree, String> {
    let worktree = Worktree {
        name: wanted.name.clone(),
        path: format!("/worktrees/{}", wanted.name),
        branch: branch("run", &wanted.name),
        base: wanted.from.clone().unwrap_or_else(|| "HEAD".into()),
        repository: "/dir/.git".into(),
    };
    let cwd = format!("{}/sub", worktree.path);
    Ok(NewWorktree { worktree, cwd })
}

/// Every other workflow begins with the same script. One at the path `unnamed` is named by no author.
fn other_workflow(written: &str) -> ScopeEntry {
    ScopeEntry {
        scope: format!("/wf/{written}"),
        entry: state("ENTRY"),
        hash: None,
        directory: None,
        inputs: Vec::new(),
        input: InputWanted::Optional,
        unnamed: written.ends_with("unnamed").then(|| format!("`{written}` is named nowhere")),
    }
}

fn rules(from_model: bool) -> Rules {
    Rules { from_model, case_insensitive: false }
}

/// The transition in the output of a program.
pub fn reading(output: &str) -> Result<Reading, String> {
    let mut collector = TagCollector::new();
    let mut no_print = |_| ();
    collector.feed(output.as_bytes(), &mut no_print).unwrap();
    let collected = collector.finish(&mut no_print).unwrap();
    transition::read(collected, rules(false)).map_err(|error| error.to_string())
}

/// The transition in the final message of an agent.
pub fn message(text: &str) -> Result<Reading, BadMessage> {
    let mut collector = TagCollector::new();
    let mut no_print = |_| ();
    collector.feed(text.as_bytes(), &mut no_print).unwrap();
    let collected = collector.finish(&mut no_print).unwrap();
    transition::read(collected, rules(true)).map_err(|error| BadMessage {
        problem: error.problem(),
        has_no_tag: matches!(error, ProtocolError::NoTag { .. }),
    })
}

pub fn usd(dollars: f64) -> Usd {
    Usd::from_dollars(dollars)
}

#[derive(Clone, Debug)]
pub struct Rig {
    pub run: Run,
    pub files: Files,
    pub now: Timestamp,
    /// Every event so far.
    pub journal: Vec<Event>,
    /// The length of the journal after each batch.
    pub batches: Vec<usize>,
    pub mode: Mode,
    /// Running attempts that were ended because the run stops.
    interrupted: Vec<Interrupted>,
    keeps_journal: bool,
}

impl Rig {
    /// A run whose first step has started.
    pub fn new(entry: &str) -> Self {
        let mut rig = Self::with(entry, Options::default());
        rig.round([]);
        rig
    }

    /// A run that has been started but has not done anything yet.
    pub fn with(entry: &str, options: Options) -> Self {
        let now = beginning();
        let journal: Vec<Event> = start(started(entry, options), None)
            .into_iter()
            .zip(1..)
            .map(|(body, seq)| Event { seq, time: now, run: RUN_ID.into(), body })
            .collect();
        Self::take_up(journal, now)
    }

    /// A run restored from its journal.
    pub fn take_up(journal: Vec<Event>, now: Timestamp) -> Self {
        Self {
            run: fold(&journal).unwrap(),
            files: Files::default(),
            now,
            batches: vec![journal.len()],
            journal,
            mode: Mode::default(),
            interrupted: Vec::new(),
            keeps_journal: true,
        }
    }

    /// Does not keep events, for long runs.
    pub fn without_journal(mut self) -> Self {
        self.journal.clear();
        self.keeps_journal = false;
        self
    }

    /// Writes directives into a state's file.
    pub fn header(mut self, name: &str, directives: &str) -> Self {
        let text = format!("# raymond: {directives}");
        let (header, _) = header::parse(Kind::Bash, &text).unwrap();
        self.files.headers.insert(state(name), header);
        self
    }

    /// Writes a prompt with this frontmatter.
    pub fn prompt(mut self, name: &str, frontmatter: &str) -> Self {
        let text = format!("---\n{frontmatter}\n---\nDo it.");
        let prompt = frontmatter::split_and_parse(&text).unwrap();
        assert_eq!(prompt.warnings, []);
        let plan = PromptPlan {
            policy: prompt.settings.allowed_transitions,
            force_implicit: prompt.settings.force_implicit,
            max_visits: prompt.settings.max_visits,
            exclusive: prompt.settings.exclusive,
            ..PromptPlan::default()
        };
        self.files.prompts.insert(StateFile::new(&format!("{name}.md")).unwrap(), plan);
        self
    }

    /// Other backends may take the turns of this prompt.
    pub fn falling_back_on(mut self, name: &str, backends: &[&str]) -> Self {
        let plan = self.files.prompts.get_mut(&StateFile::new(&format!("{name}.md")).unwrap()).unwrap();
        plan.fallbacks = backends.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// The program of this prompt's backend chooses its sessions.
    pub fn choosing(mut self, name: &str) -> Self {
        let plan = self.files.prompts.get_mut(&StateFile::new(&format!("{name}.md")).unwrap()).unwrap();
        plan.program_chooses_session = true;
        self
    }

    /// Open questions keep the run going.
    pub fn waiting(mut self) -> Self {
        self.mode.waits_for_answers = true;
        self
    }

    /// Changes a state's file.
    pub fn edit(&mut self, name: &str, hash: &str) {
        self.files.hashes.insert(state(name), hash.into());
    }

    pub fn warn_about(&mut self, name: &str, warning: &str) {
        self.files.warnings.entry(state(name)).or_default().push(warning.into());
    }

    pub fn delete(&mut self, name: &str) {
        self.files.gone.insert(state(name));
    }

    pub fn restore(&mut self, name: &str) {
        self.files.gone.remove(&state(name));
    }

    /// Handles inputs as the engine does, and returns the batch of events.
    pub fn round(&mut self, inputs: impl IntoIterator<Item = Input>) -> Vec<Event> {
        let mut batch = Vec::new();
        for input in inputs {
            self.accept(input, &mut batch);
        }
        let mut count = 0;
        while let Some(due) = self.run.next_due(self.now, self.mode) {
            count += 1;
            assert!(count < MOST_DUE_IN_A_ROUND, "always due: {due:?}");
            let input = self.due_input(due);
            self.accept(input, &mut batch);
        }
        if self.keeps_journal && !batch.is_empty() {
            self.journal.extend(batch.iter().cloned());
            self.batches.push(self.journal.len());
        }
        batch
    }

    fn accept(&mut self, input: Input, batch: &mut Vec<Event>) {
        // A new process takes the run up.
        if matches!(input, Input::Resume { .. }) {
            self.interrupted.clear();
            self.mode.interrupted = 0;
        }
        if let Input::Ended(ended) = &input
            && let StepOutcome::Interrupted { cost } = ended.outcome
            && let Some(agent) = self.run.agents.get(&ended.agent)
            && let Status::Running { work, .. } = &agent.status
            && (work.step, work.attempt) == (ended.step, ended.attempt)
        {
            let (agent, step, state) = (agent.id.clone(), work.step, agent.state.clone());
            self.interrupted.push(Interrupted { agent, step, state, estimated_cost_usd: cost });
            self.mode.interrupted = self.interrupted.len();
        }
        for body in decide(&self.run, self.now, input) {
            batch.push(self.apply(body));
        }
    }

    fn apply(&mut self, body: Body) -> Event {
        let event = Event { seq: self.run.seq + 1, time: self.now, run: RUN_ID.into(), body };
        apply(&mut self.run, &event);
        event
    }

    fn due_input(&self, due: Due) -> Input {
        match due {
            Due::Launch(agent) => {
                let prepared = self.files.prepare(&self.run.agents[&agent]);
                Input::Launch { agent, prepared }
            }
            Due::End(agent) => Input::End { agent },
            Due::Join(agent) => {
                let result = join::results(&self.run, &agent, load).and_then(|result| result);
                Input::Join { agent, result: result.map(Payload::from) }
            }
            Due::AskTimeout(agent) => Input::AskTimeout { agent },
            Due::Close => Input::Close {
                stop_requested: self.mode.draining,
                terminated: false,
                interrupted: self.interrupted.clone(),
            },
        }
    }

    /// Records an event that the current core never decides.
    pub fn record(&mut self, body: Body) {
        let event = self.apply(body);
        self.journal.push(event);
        self.batches.push(self.journal.len());
    }

    pub fn agent(&self, name: &str) -> &Agent {
        &self.run.agents[name]
    }

    pub fn work(&self, name: &str) -> &Work {
        match &self.agent(name).status {
            Status::Running { work, .. } => work,
            status => panic!("{name} does not run: {status:?}"),
        }
    }

    pub fn running(&self) -> Vec<String> {
        self.run.running_agents().map(ToString::to_string).collect()
    }

    /// The report about an agent's running attempt.
    pub fn ended(&self, name: &str, outcome: StepOutcome) -> Ended {
        let work = self.work(name);
        let plan = self.files.plan(&self.agent(name).state);
        let transition = match &outcome {
            StepOutcome::Script(ScriptOutcome::Exited { reading: Ok(reading), .. })
            | StepOutcome::Turn(TurnOutcome::Completed(CompletedTurn { reading: Ok(reading), .. })) => {
                Some(&reading.transition)
            }
            _ => None,
        };
        Ended {
            agent: AgentId::new(name),
            step: work.step,
            attempt: work.attempt,
            duration_ms: 0,
            lookups: self.files.look_up(&plan, transition),
            plan,
            outcome,
        }
    }

    /// The session that was chosen for an agent's running turn.
    pub fn chosen_session(&self, name: &str) -> Session {
        let id = self.journal.iter().rev().find_map(|event| match &event.body {
            Body::StepStarted(started) if started.agent.as_str() == name => {
                started.turn.as_ref().and_then(|turn| turn.session.clone())
            }
            _ => None,
        });
        Session { id: id.expect("a turn runs"), ..Session::default() }
    }

    /// An agent's turn ends with this message.
    pub fn turn(&self, name: &str, cost: f64, text: &str) -> Input {
        let turn = CompletedTurn {
            reading: message(text),
            other_case: Vec::new(),
            message: text.into(),
            last_lines: None,
            file: None,
            session: Some(self.chosen_session(name)),
            cost: TurnCost::of(usd(cost), Tokens::default()),
            warnings: Vec::new(),
        };
        Input::Ended(Box::new(self.ended(name, StepOutcome::Turn(TurnOutcome::Completed(turn)))))
    }

    /// An agent's turn fails. It can be continued only if it stopped at its share of the budget.
    pub fn broken(&self, name: &str, cost: f64, class: FaultClass) -> Input {
        let turn = FailedTurn {
            error: "broke".into(),
            class,
            cost: TurnCost::estimated(usd(cost), Tokens::default()),
            session: Some(self.chosen_session(name)).filter(|_| class == FaultClass::ShareUsed),
            exit_code: Some(1),
            message: Some("I broke".into()),
            warnings: Vec::new(),
        };
        Input::Ended(Box::new(self.ended(name, StepOutcome::Turn(TurnOutcome::Failed(turn)))))
    }

    pub fn says(&mut self, name: &str, text: &str) -> Vec<Event> {
        self.says_for(name, 0.0, text)
    }

    pub fn says_for(&mut self, name: &str, cost: f64, text: &str) -> Vec<Event> {
        let input = self.turn(name, cost, text);
        self.round([input])
    }

    pub fn breaks(&mut self, name: &str, class: FaultClass) -> Vec<Event> {
        self.breaks_for(name, 0.0, class)
    }

    pub fn breaks_for(&mut self, name: &str, cost: f64, class: FaultClass) -> Vec<Event> {
        let input = self.broken(name, cost, class);
        self.round([input])
    }

    pub fn answers(&mut self, ask: &str, text: &str) -> Vec<Event> {
        let (ask, text, given_at) = (ask.into(), text.into(), Some(self.now));
        self.round([Input::Answer(Answer { ask, text, given_at, ..Answer::default() })])
    }

    pub fn report(&self, name: &str, outcome: ScriptOutcome) -> Input {
        Input::Ended(Box::new(self.ended(name, StepOutcome::Script(outcome))))
    }

    /// An agent's script ends with success and this output.
    pub fn emits(&mut self, name: &str, output: &str) -> Vec<Event> {
        let input = self.report(name, success(reading(output)));
        self.round([input])
    }

    /// An agent's script ends with success and an output that makes this transition.
    pub fn takes(&mut self, name: &str, transition: Transition) -> Vec<Event> {
        let reading = Reading { transition, warnings: Vec::new() };
        let input = self.report(name, success(Ok(reading)));
        self.round([input])
    }

    pub fn exits(&mut self, name: &str, code: i32) -> Vec<Event> {
        let input = self.report(name, exited(code));
        self.round([input])
    }

    /// An agent's script was ended because the run stops.
    pub fn interrupted(&self, name: &str) -> Input {
        Input::Ended(Box::new(self.ended(name, StepOutcome::Interrupted { cost: Usd::ZERO })))
    }

    /// The machine is lost on which an agent's step runs.
    pub fn lost(&self, name: &str, cost: f64) -> Input {
        let Work { step, attempt, .. } = *self.work(name);
        let error = "its machine was lost".to_owned();
        Input::Lost { agent: AgentId::new(name), step, attempt, error, cost: usd(cost) }
    }

    pub fn passes(&mut self, seconds: i64) -> Vec<Event> {
        self.now += SignedDuration::from_secs(seconds);
        self.round([])
    }

    /// From now on nothing new starts.
    pub fn drain(&mut self) -> Vec<Event> {
        self.mode.draining = true;
        self.round([])
    }

    /// The process dies, and another one restores the run from the journal.
    pub fn die(&mut self) {
        assert!(self.keeps_journal);
        let files = std::mem::take(&mut self.files);
        let batches = std::mem::take(&mut self.batches);
        let mode = Mode { draining: false, interrupted: 0, ..self.mode };
        *self = Self::take_up(through_json(&self.journal), self.now);
        self.files = files;
        self.batches = batches;
        self.mode = mode;
    }

    /// The current options with another budget.
    pub fn budget(&self, dollars: f64) -> Options {
        Options { budget_usd: usd(dollars), ..self.run.options.clone() }
    }

    pub fn resume(&mut self) -> Vec<Event> {
        let options = self.run.options.clone();
        self.resume_with(options)
    }

    /// Resumes as the program does: with all interrupted steps.
    pub fn resume_with(&mut self, options: Options) -> Vec<Event> {
        let resume = self.resume_input(options);
        self.round([resume])
    }

    /// Resumes and handles the inputs that came while no process ran.
    pub fn resume_and(&mut self, inputs: impl IntoIterator<Item = Input>) -> Vec<Event> {
        let resume = self.resume_input(self.run.options.clone());
        self.round([resume].into_iter().chain(inputs))
    }

    fn resume_input(&mut self, options: Options) -> Input {
        self.mode.draining = false;
        let mut interrupted = self.run.interrupted();
        for agent in self.run.agents_by_birth() {
            if let Status::Running { work, .. } = &agent.status {
                interrupted.push(Interrupted {
                    agent: agent.id.clone(),
                    step: work.step,
                    state: agent.state.clone(),
                    estimated_cost_usd: Usd::ZERO,
                });
            }
        }
        Input::Resume { options: Box::new(options), interrupted, forgotten: Vec::new(), moved: None }
    }
}

pub fn success(reading: Result<Reading, String>) -> ScriptOutcome {
    ScriptOutcome::Exited {
        exit: ProcessExit::Code(0),
        reading,
        other_case: Vec::new(),
        stderr: String::new(),
        shown: Default::default(),
    }
}

pub fn exited(code: i32) -> ScriptOutcome {
    ScriptOutcome::Exited {
        exit: ProcessExit::Code(code),
        reading: Err("no tag".into()),
        other_case: Vec::new(),
        stderr: "oh no\n".into(),
        shown: Default::default(),
    }
}

pub fn fold(events: &[Event]) -> Option<Run> {
    events.iter().fold(None, evolve)
}

/// The events after writing them to a journal and reading them back.
pub fn through_json(events: &[Event]) -> Vec<Event> {
    events.iter().map(|event| serde_json::from_str(&serde_json::to_string(event).unwrap()).unwrap()).collect()
}

/// Reads a payload that is not in a file.
pub fn load(payload: &Payload) -> Result<String, String> {
    match payload {
        Payload::Inline(text) => Ok(text.clone()),
        Payload::Stored { payload, .. } => Err(format!("{payload} is gone")),
    }
}
