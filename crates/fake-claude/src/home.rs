//! Data that is kept between processes: sessions, the record of calls, how often each rule was used.

use crate::args::Args;
use crate::script::{self, Rule, Situation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) struct Home {
    folder: PathBuf,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) history: Vec<Said>,
    pub(crate) total_cost_usd: f64,
    pub(crate) model: String,
    pub(crate) cwd: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) prompt: String,
    /// `None` while the turn runs, and also later if it does not finish.
    pub(crate) reply: Option<String>,
}

/// A turn that is about to be played.
pub(crate) struct Turn {
    pub(crate) id: String,
    /// The last entry of its history is this turn.
    pub(crate) session: Session,
    pub(crate) rule: Rule,
}

pub(crate) enum Refusal {
    SessionInUse(String),
    NoConversation { parent: String, session: String },
}

impl Home {
    pub(crate) fn open() -> Result<Home> {
        let folder = std::env::var_os("FAKE_CLAUDE_HOME").ok_or("FAKE_CLAUDE_HOME is not set")?;
        let home = Home { folder: PathBuf::from(folder) };
        fs::create_dir_all(home.folder.join("sessions"))?;
        Ok(home)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Takes the session, chooses the rule and records the call, under a lock because of parallel starts.
    pub(crate) fn begin(
        &self,
        argv: &[String],
        args: &Args,
        prompt: &str,
    ) -> Result<std::result::Result<Turn, Refusal>> {
        let _lock = self.lock()?;
        let mut call = Call::new(argv, args, prompt)?;
        let (id, mut session) = match self.session(args)? {
            Ok(found) => found,
            Err(refusal) => {
                call.refused(&refusal);
                self.append("calls.jsonl", &call.0)?;
                return Ok(Err(refusal));
            }
        };
        if let Some(model) = &args.model {
            session.model = full_name(model);
        }
        let remembers = !session.history.is_empty();
        let situation = Situation { prompt, model: &session.model, remembers };
        let (number, rule) = self.choose(&situation)?;
        call.accepted(&id, &session, number);
        self.append("calls.jsonl", &call.0)?;
        session.history.push(Said { prompt: prompt.to_owned(), reply: None });
        self.save(&id, &session)?;
        Ok(Ok(Turn { id, session, rule }))
    }

    fn lock(&self) -> Result<File> {
        let file = OpenOptions::new().create(true).append(true).open(self.file("lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn session(&self, args: &Args) -> Result<std::result::Result<(String, Session), Refusal>> {
        let fresh_id = args.session.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let continues_itself = args.resume.is_some() && !args.fork;
        if !continues_itself && self.session_file(&fresh_id).exists() {
            return Ok(Err(Refusal::SessionInUse(fresh_id)));
        }
        let Some(parent) = &args.resume else {
            let session = Session { model: full_name("opus"), cwd: cwd()?, ..Session::default() };
            return Ok(Ok((fresh_id, session)));
        };
        let id = if args.fork { fresh_id } else { parent.clone() };
        // The id becomes part of a path, so it must be a valid UUID.
        let known = uuid::Uuid::try_parse(parent).is_ok() && self.session_file(parent).exists();
        if !known {
            return Ok(Err(Refusal::NoConversation { parent: parent.clone(), session: id }));
        }
        Ok(Ok((id, serde_json::from_slice(&fs::read(self.session_file(parent))?)?)))
    }

    fn session_file(&self, id: &str) -> PathBuf {
        self.folder.join("sessions").join(format!("{id}.json"))
    }

    /// Replaces the file atomically, so that it stays readable if the process is killed here.
    pub(crate) fn save(&self, id: &str, session: &Session) -> Result<()> {
        let file = self.session_file(id);
        let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&temporary, serde_json::to_vec_pretty(session)?)?;
        fs::rename(temporary, file)?;
        Ok(())
    }

    fn choose(&self, situation: &Situation<'_>) -> Result<(Option<usize>, Rule)> {
        let named = std::env::var_os("FAKE_CLAUDE_SCRIPT").map(PathBuf::from);
        let Some(rules) = script::load(&named.unwrap_or_else(|| self.file("script.json")))? else {
            return Ok((None, Rule::echo()));
        };
        let mut uses: BTreeMap<usize, u64> = match fs::read(self.file("uses.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(_) => BTreeMap::new(),
        };
        let used = |number: usize| uses.get(&number).copied().unwrap_or(0);
        let chosen = rules.iter().enumerate().find(|(number, rule)| {
            rule.matches(situation) && rule.times.is_none_or(|times| used(*number) < times)
        });
        let Some((number, rule)) = chosen else {
            return Ok((None, Rule::no_match()));
        };
        *uses.entry(number).or_default() += 1;
        fs::write(self.file("uses.json"), serde_json::to_vec(&uses)?)?;
        Ok((Some(number), rule.clone()))
    }

    /// Writes each line with one call, so that lines of parallel processes are not mixed.
    pub(crate) fn append(&self, name: &str, record: &Value) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.file(name))?;
        file.write_all(format!("{record}\n").as_bytes())?;
        Ok(())
    }

    pub(crate) fn record_end(&self, session: &str) -> Result<()> {
        let end = json!({"pid": std::process::id(), "at_ms": milliseconds(), "session": session});
        self.append("ends.jsonl", &end)
    }
}

/// A line of `calls.jsonl`.
struct Call(Value);

impl Call {
    fn new(argv: &[String], args: &Args, prompt: &str) -> Result<Call> {
        Ok(Call(json!({
            "pid": std::process::id(),
            "at_ms": milliseconds(),
            "argv": argv,
            "cwd": cwd()?,
            "prompt": prompt,
            "session": args.session,
            "parent": args.resume,
            "history": [],
            "model": args.model,
            "effort": args.effort,
            "permission_mode": args.permission_mode,
            "budget_usd": args.budget_usd,
            "rule": null,
            "refused": null,
            "env": telling_environment(),
        })))
    }

    fn accepted(&mut self, id: &str, session: &Session, rule: Option<usize>) {
        self.0["session"] = json!(id);
        self.0["history"] = json!(session.history);
        self.0["model"] = json!(session.model);
        self.0["rule"] = json!(rule);
    }

    fn refused(&mut self, refusal: &Refusal) {
        self.0["refused"] = match refusal {
            Refusal::SessionInUse(_) => json!("session_in_use"),
            Refusal::NoConversation { .. } => json!("no_conversation"),
        };
    }
}

/// The variables that tests read. Others are not recorded, because the environment may contain real keys.
fn telling_environment() -> BTreeMap<String, String> {
    let prefixes = ["RAYMOND_", "CLAUDE", "ANTHROPIC_", "AI_AGENT", "IS_SANDBOX"];
    let secret = |name: &str| ["KEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.contains(word));
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| if secret(&name) { (name, "***".to_owned()) } else { (name, value) })
        .collect()
}

fn full_name(model: &str) -> String {
    match model {
        "opus" | "sonnet" | "haiku" => format!("claude-{model}-5-5"),
        other => other.to_owned(),
    }
}

fn cwd() -> Result<String> {
    Ok(std::env::current_dir()?.to_string_lossy().into_owned())
}

pub(crate) fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
