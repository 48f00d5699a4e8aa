//! Every bound of the language and of a run, in one place.
//!
//! A queue, stack or buffer without a bound here is a defect.

/// The longest content of one tag, opening tag included, and so the longest text that passes from state to state.
pub const MAX_TAG_BYTES: usize = 8 * 1024 * 1024;

/// How many transition tags one step may emit; only forks can be many.
pub const MAX_TAGS_PER_STEP: usize = 10_000;

/// How much text all transition tags of one step may hold together.
pub const MAX_TAG_BYTES_PER_STEP: usize = 32 * 1024 * 1024;

/// How deep calls may nest in one agent.
pub const MAX_STACK_DEPTH: usize = 64;

/// How many scripts run at the same time.
pub const MAX_PARALLEL_SCRIPTS: usize = 256;

/// Payloads longer than this lie in files beside the journal.
pub const MAX_INLINE_PAYLOAD_BYTES: usize = 64 * 1024;

/// Payloads longer than this are not handed over in environment variables, because the system would refuse them.
pub const MAX_ENVIRONMENT_PAYLOAD_BYTES: usize = 96 * 1024;

/// How much of a step's stderr is kept for its error message.
pub const MAX_STDERR_TAIL_BYTES: usize = 8 * 1024;

/// In how many of a script's first lines directives are looked for.
pub const MAX_HEADER_LINES: usize = 20;
