//! Reading a state when its step starts, so that an edit on disk counts from the next step on.

use std::cell::RefCell;
use std::rc::Rc;

use raymond_core::header;
use raymond_core::input::{Plan, Prepared};
use raymond_core::run::Agent;
use sha2::{Digest, Sha256};

use crate::engine::States;
use crate::scope::Folder;

/// How many characters of a file's hash are kept: enough to notice a change.
const HASH_CHARS: usize = 16;

pub struct ScopeStates {
    pub scope: Rc<RefCell<Folder>>,
}

impl States for ScopeStates {
    fn prepare(&mut self, agent: &Agent) -> Result<Prepared, String> {
        let state = &agent.state;
        let source = self.scope.borrow().read(state)?;
        if state.kind().is_prompt() {
            return Err(format!(
                "{state} is a prompt; this version of Raymond can only run scripts yet"
            ));
        }
        let text = String::from_utf8_lossy(&source.bytes);
        let (header, warnings) = header::parse(state.kind(), &text)
            .map_err(|error| format!("{}: {error}", source.path.display()))?;
        let warnings = warnings
            .iter()
            .map(|warning| format!("{}: {warning}", source.path.display()))
            .collect();
        Ok(Prepared {
            hash: hash(&source.bytes),
            plan: Plan::Script(header),
            warnings,
        })
    }
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .take(HASH_CHARS / 2)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
