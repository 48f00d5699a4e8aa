//! A turn that is answered from a file.

use raymond_core::event::TurnStarted;
use raymond_core::input::TurnCost;
use raymond_core::money::Usd;
use raymond_core::run::Session;

use super::{Turned, show_prints};
use crate::run::engine::Launch;
use crate::run::step::StepContext;
use crate::view::debug::StepFiles;

pub(super) fn turn(
    context: &StepContext,
    launch: &Launch,
    started: &TurnStarted,
    backend: &str,
    replies_file: Option<&str>,
    files: &mut StepFiles,
) -> Result<Turned, String> {
    let state = &launch.agent.state;
    let replies = context.scopes.borrow_mut().of(&launch.agent)?.replies(replies_file)?;
    let reply = replies.get(state, started.number).ok_or_else(|| {
        format!("the scripted backend has no reply for `{}`; add one to its file of replies", state.name())
    })?;
    files.stdout(
        format!("{}\n", serde_json::json!({ "reply": reply.text, "cost_usd": reply.cost_usd })).as_bytes(),
    );
    show_prints(context, launch, &reply.text);
    Ok(Turned::Completed {
        text: reply.text.clone(),
        session: Session { id: started.session.clone(), total_usd: None, backend: Some(backend.to_owned()) },
        cost: TurnCost { usd: Usd::from_dollars(reply.cost_usd), estimated: false },
        warnings: Vec::new(),
    })
}
