//! Plays a rule: one turn.

use crate::args::Args;
use crate::child;
use crate::home::{Home, Turn, milliseconds};
use crate::script::{Kind, Point, Rule};
use crate::voice::{self, Ending, Style, Voice};
use std::error::Error;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The output of the real program for an API error.
struct ApiError {
    status: Option<u16>,
    /// The kind of the message that reports it.
    kind: &'static str,
    text: &'static str,
    reason: &'static str,
    /// The error name in the retries before it, if there were any.
    retried: Option<&'static str>,
}

struct Player<'a> {
    home: &'a Home,
    turn: Turn,
    voice: Voice,
    reply: String,
    budget_usd: Option<f64>,
}

pub(crate) fn play(home: &Home, args: &Args, style: Style, turn: Turn) -> Result<ExitCode> {
    let said_session =
        if turn.rule.wrong_session { uuid::Uuid::new_v4().to_string() } else { turn.id.clone() };
    let voice = Voice {
        style,
        session: said_session,
        model: turn.session.model.clone(),
        message: format!("msg_{}", uuid::Uuid::new_v4().simple()),
        inherited_usd: turn.session.total_cost_usd,
        spent_usd: 0.0,
        results: 0,
    };
    let reply = fill_in(&turn)?;
    let mut player = Player { home, turn, voice, reply, budget_usd: args.budget_usd };
    let code = player.course(args.permission_mode.as_deref().unwrap_or("default"))?;
    std::thread::sleep(Duration::from_millis(player.turn.rule.linger_ms));
    home.record_end(&player.turn.id)?;
    Ok(code)
}

fn fill_in(turn: &Turn) -> Result<String> {
    let cwd = std::env::current_dir()?;
    let earlier_turns = turn.session.history.len().saturating_sub(1);
    let prompt = turn.session.history.last().map_or("", |said| said.prompt.as_str());
    // The prompt is inserted last, so that placeholders in it are not replaced.
    Ok(turn
        .rule
        .reply
        .replace("{{history}}", &earlier_turns.to_string())
        .replace("{{session}}", &turn.id)
        .replace("{{model}}", &turn.session.model)
        .replace("{{cwd}}", &cwd.to_string_lossy())
        .replace("{{prompt}}", prompt))
}

impl Player<'_> {
    fn rule(&self) -> &Rule {
        &self.turn.rule
    }

    fn course(&mut self, permission_mode: &str) -> Result<ExitCode> {
        if !self.rule().stderr.is_empty() {
            eprintln!("{}", self.rule().stderr);
        }
        self.reach(Point::Start)?;
        self.voice.init(permission_mode, &self.rule().servers)?;
        for number in 0..self.rule().babble {
            voice::print_line(&format!("this is line {number} of something that is not JSON {{"))?;
        }
        self.reach(Point::Init)?;
        self.wait();
        self.work()?;
        match self.rule().kind {
            Kind::Reply | Kind::Crash | Kind::Hang | Kind::Budget => self.answer(),
            Kind::SilentEnd => Ok(ExitCode::SUCCESS),
            Kind::MaxTurns => {
                let error = Some("Reached maximum number of turns (1)".to_owned());
                self.fail(&Ending {
                    subtype: "error_max_turns",
                    reason: "max_turns",
                    error,
                    ..Ending::default()
                })
            }
            Kind::Interrupted => {
                let error = Some("[ede_diagnostic] result_type=user".to_owned());
                let subtype = "error_during_execution";
                self.fail(&Ending { subtype, reason: "aborted_streaming", error, ..Ending::default() })?;
                Ok(ExitCode::SUCCESS)
            }
            kind => self.api_error(&api_error_of(kind)),
        }
    }

    fn wait(&self) {
        std::thread::sleep(Duration::from_millis(self.rule().delay_ms));
        if let Some(name) = &self.rule().hold {
            let gate = self.home.file(name);
            while !gate.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// The work of the agent besides its messages.
    fn work(&self) -> Result<()> {
        if let Some(seconds) = self.rule().child_s {
            let pid = child::start(seconds)?;
            self.home.append("children", &pid.into())?;
        }
        for name in &self.rule().tools {
            self.voice.tool(name, self.rule().cost())?;
        }
        if let Some(command) = &self.rule().run {
            let shell = if cfg!(windows) { ["cmd", "/c"] } else { ["sh", "-c"] };
            // Its output is not part of the stream.
            Command::new(shell[0]).args([shell[1], command]).stdout(Stdio::null()).status()?;
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<ExitCode> {
        let cost = self.rule().cost();
        let stop = self.rule().stops_at(self.budget_usd);
        let mid_work = stop.is_some_and(|spent| spent < cost) || self.rule().kind == Kind::Budget;
        if mid_work {
            self.voice.tool("Bash", cost)?;
        } else {
            self.say(cost)?;
        }
        self.reach(Point::Text)?;
        if let Some(spent) = stop {
            let error = Some(format!("Reached maximum budget (${})", self.budget_usd.unwrap_or_default()));
            let ending = Ending {
                subtype: "error_max_budget_usd",
                reason: "budget_exhausted",
                mid_work,
                error,
                ..Ending::default()
            };
            return self.fail_after_spending(&ending, spent);
        }
        let share = cost / (self.rule().earlier.len() + 1) as f64;
        for text in self.rule().earlier.clone() {
            self.succeed(&text, share)?;
            self.voice.init("default", &self.rule().servers)?;
        }
        if let Some(said) = self.turn.session.history.last_mut() {
            said.reply = Some(self.reply.clone());
        }
        // The reply is stored before it is printed, as the real program does.
        self.turn.session.total_cost_usd += cost;
        self.home.save(&self.turn.id, &self.turn.session)?;
        self.succeed(&self.reply.clone(), share)?;
        self.reach(Point::Result)?;
        Ok(ExitCode::SUCCESS)
    }

    fn say(&self, cost: f64) -> Result<()> {
        if self.rule().pace_ms == 0 {
            return self.voice.text(&self.reply, cost);
        }
        for word in self.reply.split_inclusive(' ') {
            self.voice.text(word, cost)?;
            std::thread::sleep(Duration::from_millis(self.rule().pace_ms));
        }
        Ok(())
    }

    fn succeed(&mut self, text: &str, cost: f64) -> Result<()> {
        let Rule { denied, deferred, .. } = self.rule().clone();
        let ending = Ending {
            subtype: "success",
            reason: "completed",
            text: Some(text),
            denied: &denied,
            deferred: deferred.as_deref(),
            ..Ending::default()
        };
        self.voice.result(&ending, cost)
    }

    fn fail(&mut self, ending: &Ending<'_>) -> Result<ExitCode> {
        self.fail_after_spending(ending, self.rule().cost())
    }

    /// The turn stays in the session without a reply, and its cost counts.
    fn fail_after_spending(&mut self, ending: &Ending<'_>, cost: f64) -> Result<ExitCode> {
        self.turn.session.total_cost_usd += cost;
        self.home.save(&self.turn.id, &self.turn.session)?;
        self.voice.result(&Ending { is_error: true, error: ending.error.clone(), ..*ending }, cost)?;
        Ok(ExitCode::FAILURE)
    }

    fn api_error(&mut self, error: &ApiError) -> Result<ExitCode> {
        if let Some(kind) = error.retried {
            self.voice.retry(error.status, kind)?;
        }
        if self.rule().kind == Kind::Limit {
            let from_now = self.rule().resets_in.map(|seconds| milliseconds() / 1000 + seconds);
            self.voice.limit(self.rule().resets_at.or(from_now))?;
        }
        let text = self.rule().message.clone().unwrap_or_else(|| error.text.to_owned());
        self.voice.api_error(error.kind, &text)?;
        let ending = Ending {
            subtype: "success",
            status: error.status,
            reason: error.reason,
            text: Some(&text),
            ..Ending::default()
        };
        self.fail(&ending)
    }

    /// Crashes or hangs if the rule says so for this point of the turn.
    fn reach(&self, point: Point) -> Result<()> {
        let rule = self.rule();
        if rule.when != point {
            return Ok(());
        }
        match rule.kind {
            Kind::Crash => crash(rule),
            Kind::Hang => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            _ => Ok(()),
        }
    }
}

fn crash(rule: &Rule) -> Result<()> {
    #[cfg(unix)]
    if let Some(number) = rule.signal {
        let signal = rustix::process::Signal::from_named_raw(number).ok_or("no such signal")?;
        rustix::process::kill_process(rustix::process::getpid(), signal)?;
    }
    std::process::exit(i32::from(rule.exit.unwrap_or(1)))
}

fn api_error_of(kind: Kind) -> ApiError {
    let plain = |status, kind, text| ApiError { status, kind, text, reason: "api_error", retried: None };
    let retried = |status, name, kind, text| ApiError { retried: Some(name), ..plain(status, kind, text) };
    match kind {
        Kind::Limit => plain(Some(429), "rate_limit", "You've hit your 5-hour limit · resets 4:59am (UTC)"),
        Kind::RateLimited => retried(
            Some(429),
            "rate_limit",
            "rate_limit",
            "API Error: Request rejected (429) · too many requests",
        ),
        Kind::Overloaded => retried(Some(529), "overloaded", "server_error", "API Error: 529 Overloaded"),
        Kind::Connection => retried(
            None,
            "unknown",
            "server_error",
            "API Error: Unable to connect to API (ConnectionRefused)",
        ),
        Kind::NotLoggedIn => plain(None, "authentication_failed", "Not logged in · Please run /login"),
        Kind::Unauthorized => retried(
            Some(401),
            "authentication_failed",
            "authentication_failed",
            "Failed to authenticate. API Error: 401 invalid key",
        ),
        Kind::Model404 => plain(
            Some(404),
            "model_not_found",
            "There's an issue with the selected model. It may not exist or you may not have access to it.",
        ),
        Kind::TooLong => ApiError {
            reason: "prompt_too_long",
            ..plain(Some(400), "invalid_request", "Prompt is too long")
        },
        _ => plain(Some(400), "invalid_request", "API Error: 400 the request is invalid"),
    }
}
