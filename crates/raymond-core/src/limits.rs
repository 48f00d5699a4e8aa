//! All limits of the language and of a run, in one place.
//!
//! A queue, stack or buffer without a limit here is a defect.

/// The longest content of one tag and the longest opening tag, so also the longest text passed from state to state.
pub const MAX_TAG_BYTES: usize = 8 * 1024 * 1024;

/// How many attributes one tag may have.
pub const MAX_TAG_ATTRIBUTES: usize = 1_000;

/// How many transition tags one step may emit; only forks may be repeated.
pub const MAX_TAGS_PER_STEP: usize = 10_000;

/// How much text all transition tags of one step may contain in total.
pub const MAX_TAG_BYTES_PER_STEP: usize = 32 * 1024 * 1024;

/// How deep calls may nest in one agent.
pub const MAX_STACK_DEPTH: usize = 64;

/// How many scripts run at the same time, unless the options of the run say otherwise.
pub const MAX_PARALLEL_SCRIPTS: usize = 256;

/// Payloads longer than this are stored in files next to the journal.
pub const MAX_INLINE_PAYLOAD_BYTES: usize = 64 * 1024;

/// How much room on the disk a running step needs at least, so that its end and its cost can be recorded.
pub const STEP_ROOM_BYTES: u64 = 4 * 1024;

/// Payloads longer than this are not passed in environment variables, because the system would refuse them.
pub const MAX_ENVIRONMENT_PAYLOAD_BYTES: usize = 96 * 1024;

/// How much of a step's stderr is kept for its error message.
pub const MAX_STDERR_TAIL_BYTES: usize = 8 * 1024;
/// How much of it is kept in the run's state for each failed agent; small, because it is part of every snapshot.
pub const MAX_REMEMBERED_STDERR_BYTES: usize = 1024;

/// How many of a script's first lines are searched for directives.
pub const MAX_HEADER_LINES: usize = 20;

/// The longest name that `exclusive` may give.
pub const MAX_EXCLUSIVE_NAME_BYTES: usize = 64;

/// The longest duration that can be set: ten years.
pub const MAX_DURATION: std::time::Duration = std::time::Duration::from_secs(3650 * 86_400);

/// How often a script may be run again after a failure.
pub const MAX_RETRIES: u32 = 1_000;

/// How often a step is run again after the machine that it ran on was lost. A step may itself be what ends its machines,
/// for example by using up their memory.
pub const MAX_LOSSES: u32 = 20;

/// How often a step may stop at its share of the budget and go on with another one. Every time is paid for.
pub const MAX_SHARES: u32 = 20;

/// How often it may do that long before the share is used up.
pub const MAX_EARLY_STOPS: u32 = 10;

/// How often a step may meet a usage limit after it was paid for something. It begins anew each time.
pub const MAX_PAID_LIMITS: u32 = 20;

/// How many warnings one state file can get; a user would not read more.
pub const MAX_WARNINGS: usize = 100;

/// How long the frontmatter of a prompt may be.
pub const MAX_FRONTMATTER_BYTES: usize = 1024 * 1024;

/// How deep YAML may nest.
pub const MAX_YAML_DEPTH: usize = 32;

/// How many nodes YAML may hold, aliases expanded.
pub const MAX_YAML_NODES: usize = 500_000;

/// The most nodes that aliases may repeat. Each repetition is read again, so many of them take long.
pub const MAX_YAML_REPEATED_NODES: usize = 10_000;

/// How much text YAML may hold, aliases expanded.
pub const MAX_YAML_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// How many workers of one agent are kept for a join; above that, the results of the oldest are dropped.
pub const MAX_UNJOINED_WORKERS: usize = 10_000;

/// The longest title of a worker, in characters.
pub const MAX_TITLE_CHARS: usize = 60;

/// How many agents may be alive at once.
pub const MAX_AGENTS: usize = 100_000;

/// How many git worktrees a run may make. They are remembered until its end.
pub const MAX_WORKTREES: usize = 10_000;
