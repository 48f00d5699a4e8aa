//! What a state needs of its agent program, as far as that can be told before the run.

use std::collections::BTreeMap;

use raymond_core::input::PromptPlan;
use raymond_core::run::Options;
use raymond_core::tag::{Located, TagName};
use raymond_core::workflow::StateFile;

use super::Names;
use crate::agent::price::line_to_add;
use crate::agent::registry::{Backend, Backends};
use crate::agent::{Capabilities, TokensTold};
use crate::error::UserError;
use crate::workflow::states::TurnSettings;

/// Refuses a state that asks for something that its backend's program cannot do.
pub(super) fn check(
    state: &StateFile,
    backend: &str,
    settings: &TurnSettings,
    options: &Options,
    backends: &Backends,
) -> Result<(), UserError> {
    let program = backends.get(backend).map_err(|error| UserError::usage(format!("{state}: {error}")))?;
    let can: Capabilities = program.capabilities();
    let asks_for = [
        ("model", settings.model.is_some(), can.model),
        ("effort", settings.effort.is_some(), can.effort),
        ("allow_tools", !settings.allow_tools.is_empty(), can.tool_rules),
        ("deny_tools", !settings.deny_tools.is_empty(), can.tool_rules),
        ("add_dirs", !settings.add_dirs.is_empty(), can.add_dirs),
        ("mcp_config", !settings.mcp_config.is_empty(), can.mcp),
        ("require_mcp", settings.require_mcp, can.tells_servers),
        ("permission_mode", settings.permission_mode.is_some(), can.permission_mode),
        ("dangerously_skip_permissions", options.skip_permissions, can.skip_permissions),
    ];
    if let Some((what, ..)) = asks_for.into_iter().find(|(_, is_asked, is_there)| *is_asked && !is_there) {
        let error = format!("{state}: `{what}` is set for it, which its backend `{backend}` does not take");
        return Err(UserError::usage(error).hint("leave it out, or choose another backend for the state"));
    }
    let is_priced = backends.price(program, settings.model.as_deref()).is_some();
    if can.cost || is_priced || program.uncounted || options.budget_usd.is_zero() {
        return Ok(());
    }
    let unpriced = match (can.tokens, &settings.model) {
        (TokensTold::No, _) => String::new(),
        (_, Some(model)) => format!(" (only tokens, and the model `{model}` has no price)"),
        (_, None) => " (only tokens, and without a `model` they have no price)".to_owned(),
    };
    let error = format!(
        "{state}: its backend `{backend}` does not tell the cost of a turn{unpriced}, so that no budget holds it"
    );
    let error = UserError::usage(error).hint("run it without a budget: --budget 0").hint(format!(
        "or do not count its turns: cost = \"none\" under [backend.{backend}] in the config file"
    ));
    Err(match can.tokens {
        TokensTold::No => error,
        _ => error.hint(match &settings.model {
            Some(model) => format!(
                "or choose a `model` with a price; [prices] in the config file adds one: {}",
                line_to_add(model)
            ),
            None => "or choose a `model` with a price; [prices] in the config file adds one".to_owned(),
        }),
    })
}

/// The prompts of a workflow and which of them go on in the conversation of another, as far as their texts tell.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    prompts: BTreeMap<StateFile, Prompt>,
}

#[derive(Debug)]
struct Prompt {
    /// Every backend that may run it.
    backends: Vec<String>,
    /// The names of states that it leads to with its conversation kept, with the tag that does.
    leads_to: Vec<(TagName, String)>,
}

impl Conversations {
    pub(super) fn add(&mut self, state: &StateFile, plan: &PromptPlan, tags: &[Located]) {
        let entries = plan.policy.iter().flat_map(|policy| &policy.entries);
        let in_policy = entries.flat_map(|entry| {
            let part = |name: &str| match name {
                "return" => entry.return_to.clone(),
                "next" => entry.next.clone(),
                _ => entry.target.clone(),
            };
            kept_by(entry.tag).iter().filter_map(move |name| Some((entry.tag, part(name)?)))
        });
        let in_text = tags.iter().map(|located| &located.tag).flat_map(|tag| {
            let attribute =
                |name: &str| tag.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value);
            let part = move |name: &str| match name {
                CONTENT => Some(tag.content.trim().to_owned()),
                name => attribute(name).cloned(),
            };
            kept_by(tag.name).iter().filter_map(move |name| Some((tag.name, part(name)?)))
        });
        let leads_to = in_policy.chain(in_text).collect();
        let backends = std::iter::once(&plan.backend).chain(&plan.fallbacks).cloned().collect();
        self.prompts.insert(state.clone(), Prompt { backends, leads_to });
    }

    /// Refuses a state that would go on in a conversation with a program that cannot branch one.
    pub(super) fn check<'p>(
        &self,
        names: &Names,
        program: impl Fn(&str) -> Option<&'p Backend>,
    ) -> Result<(), UserError> {
        for (from, prompt) in &self.prompts {
            for name in &prompt.backends {
                let Some(backend) = program(name).filter(|backend| !backend.continues()) else { continue };
                // Another backend's conversation is not gone on with.
                let same_backend = |state: &&StateFile| {
                    self.prompts.get(*state).is_some_and(|other| other.backends.contains(name))
                };
                for (tag, target) in &prompt.leads_to {
                    let mut leads_to = names.get(target).into_iter().flatten();
                    if let Some(to) = leads_to.find(same_backend) {
                        return Err(refused((to, from), *tag, name, backend.capabilities()));
                    }
                }
            }
        }
        Ok(())
    }
}

fn refused(
    (to, from): (&StateFile, &StateFile),
    tag: TagName,
    backend: &str,
    can: Capabilities,
) -> UserError {
    let (verb, opt_in) = match can.resume {
        true => ("branch", Some("or continue the conversation itself: without_branch = \"continue\"")),
        false => ("continue", None),
    };
    let error = format!(
        "{to}: <{tag}> in {from} leads there with the conversation kept, and the backend `{backend}` cannot {verb} one"
    );
    let error =
        UserError::usage(error).hint("lead there with <reset> or <function>, or choose another backend");
    match opt_in {
        Some(how) => error.hint(format!("{how} under [backend.{backend}] in the config file")),
        None => error,
    }
}

const CONTENT: &str = "content";

/// The parts of a tag that name states at which the conversation goes on.
fn kept_by(tag: TagName) -> &'static [&'static str] {
    match tag {
        TagName::Goto | TagName::Join => &[CONTENT],
        TagName::Call => &[CONTENT, "return"],
        TagName::Function | TagName::CallWorkflow | TagName::FunctionWorkflow => &["return"],
        TagName::Fork | TagName::ForkWorkflow | TagName::Ask => &["next"],
        TagName::Reset | TagName::ResetWorkflow | TagName::Result | TagName::Print => &[],
    }
}
