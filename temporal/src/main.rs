//! Raymond's own command line, with Temporal as the engine for runs elsewhere.

use raymond_temporal::fleet::Temporal;

static FLEET: Temporal = Temporal::new();

fn main() -> std::process::ExitCode {
    raymond::cli::main_with(&FLEET)
}
