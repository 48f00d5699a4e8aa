//! Raymond's own command line, with Temporal as the engine for runs elsewhere.

use raymond_temporal::fleet::Temporal;
use raymond_temporal::guard;

static FLEET: Temporal = Temporal::new();

fn main() -> std::process::ExitCode {
    if guard::is_wanted() {
        return guard::main();
    }
    raymond::cli::main_with(commit_stamp::version!(), &FLEET)
}
