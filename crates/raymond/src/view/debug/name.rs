//! The names of debug files, and what can be read from a name.

use super::StepName;

const MOST_AGENT_BYTES: usize = 120;
/// File systems allow 255 bytes for a name, and a round and a suffix are added to the stem.
const MOST_STEM_BYTES: usize = 200;

/// What a file of an attempt contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suffix {
    Prompt,
    /// The stream of an agent program.
    Stream,
    Stdout,
    Stderr,
    Meta,
    /// Why the step failed. Its files are kept because of it.
    Error,
}

impl Suffix {
    pub(super) const ALL: [Suffix; 6] =
        [Suffix::Prompt, Suffix::Stream, Suffix::Stdout, Suffix::Stderr, Suffix::Meta, Suffix::Error];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Suffix::Prompt => ".prompt.md",
            Suffix::Stream => ".jsonl",
            Suffix::Stdout => ".stdout.txt",
            Suffix::Stderr => ".stderr.txt",
            Suffix::Meta => ".meta.json",
            Suffix::Error => ".error.txt",
        }
    }
}

/// What the names of an attempt's files start with: `{agent}_{state}_{step}`, from the second attempt on with its number.
pub(super) fn stem(name: &StepName<'_>) -> String {
    let agent = shortened(&plain(name.agent.as_str()), MOST_AGENT_BYTES);
    let number = match name.attempt {
        0 | 1 => name.step.to_string(),
        attempt => format!("{}.{attempt}", name.step),
    };
    let room = MOST_STEM_BYTES.saturating_sub(agent.len() + number.len() + 2);
    let state = shortened(&plain(name.state.name()), room);
    format!("{agent}_{state}_{number}")
}

/// The stem for an attempt that was started before by a Raymond that was killed, so that there are files of it.
pub(super) fn in_round(stem: &str, round: u32) -> String {
    match round {
        0 | 1 => stem.to_owned(),
        round => format!("{stem}.r{round}"),
    }
}

/// The stem and suffix of a file, if it belongs to an attempt.
pub(super) fn split(file_name: &str) -> Option<(&str, Suffix)> {
    Suffix::ALL.into_iter().find_map(|suffix| Some((file_name.strip_suffix(suffix.as_str())?, suffix)))
}

/// The step, attempt and round at the end of a stem, after the last `_`.
pub(super) fn place(stem: &str) -> Option<(u64, u32, u32)> {
    let (_, numbers) = stem.rsplit_once('_')?;
    let mut parts = numbers.split('.').peekable();
    let step = parts.next()?.parse().ok()?;
    let attempt = parts.next_if(|part| !part.starts_with('r'));
    let round = parts.next().map(|part| part.trim_start_matches('r'));
    Some((step, attempt.map_or(Ok(1), str::parse).ok()?, round.map_or(Ok(1), str::parse).ok()?))
}

/// The name without characters that are special to shells or to some file systems.
fn plain(name: &str) -> String {
    name.chars()
        .map(|character| match character {
            '.' | '_' | '-' => character,
            letter if letter.is_alphanumeric() => letter,
            _ => '_',
        })
        .collect()
}

/// The name cut to a number of bytes, with a hash so that names that differ only in the rest stay different.
fn shortened(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let hash = format!("-{:08x}", crc32fast::hash(name.as_bytes()));
    let mut end = most.saturating_sub(hash.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{hash}", &name[..end])
}

#[cfg(test)]
mod tests {
    use raymond_core::name::AgentId;
    use raymond_core::workflow::StateFile;

    use super::*;

    fn stem_of(agent: &str, state: &str, step: u64, attempt: u32) -> String {
        stem(&StepName { agent: &AgentId::new(agent), state: &StateFile::new(state).unwrap(), step, attempt })
    }

    #[test]
    fn names_tell_agent_state_step_and_later_attempts() {
        assert_eq!(stem_of("main", "START.sh", 1, 1), "main_START_1");
        assert_eq!(stem_of("main", "START.sh", 1, 2), "main_START_1.2");
        assert_eq!(stem_of("main", "a b:*ü.v2.md", 7, 1), "main_a_b__ü.v2_7");
    }

    #[test]
    fn long_names_are_bounded_and_stay_different() {
        let long = format!("main{}", "_work1".repeat(100));
        let (one, other) = (stem_of(&long, "A.sh", 1, 1), stem_of(&format!("{long}x"), "A.sh", 1, 1));
        assert_ne!(one, other);
        assert!(one.len() <= MOST_AGENT_BYTES + "_A_1".len());
        let state = format!("{}.sh", "ü".repeat(400));
        let stem = stem_of(&long, &state, u64::MAX, u32::MAX);
        assert!(stem.len() <= MOST_STEM_BYTES, "{}", stem.len());
        assert_eq!(place(&stem), Some((u64::MAX, u32::MAX, 1)));
    }

    #[test]
    fn names_can_be_read_back() {
        let read = |file: &str| split(file).and_then(|(stem, suffix)| Some((place(stem)?, suffix)));
        assert_eq!(read("main_A_5.meta.json"), Some(((5, 1, 1), Suffix::Meta)));
        assert_eq!(read("main_A_5.2.jsonl"), Some(((5, 2, 1), Suffix::Stream)));
        assert_eq!(read("main_A_5.r2.stdout.txt"), Some(((5, 1, 2), Suffix::Stdout)));
        assert_eq!(read("main_3.v_12.10.r3.error.txt"), Some(((12, 10, 3), Suffix::Error)));
        assert_eq!(read("transitions.log"), None);
        assert_eq!(read("a_note.stderr.txt"), None);
    }
}
