//! Tests that every agent program has to pass, with recordings of real turns: `tests/data/KIND/VERSION/CASE.jsonl` is
//! the program's stdout (`CASE.txt` if it is plain text), `CASE.stderr` its stderr, and `CASE.meta.json` has its arguments (`args`) and its exit code
//! or, if negative, its signal (`rc`).

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::registry::program;
use super::testing::Threads;
use super::*;

/// A recorded turn.
pub(crate) struct Sample {
    /// `VERSION/CASE`.
    pub(crate) name: String,
    pub(crate) stdout: Vec<u8>,
    stderr: String,
    ending: TurnEnding,
    turn: Turn,
}

type Ended = Result<TurnReport, Box<TurnFailure>>;

pub(crate) fn of_kind(kind: &str) -> Arc<dyn AgentProgram> {
    // Only a kind that starts any program needs to be told which.
    let command = ["acp", "command"].contains(&kind).then(|| "cat".to_owned());
    program(kind, &BackendSettings { command, ..BackendSettings::default() }).unwrap()
}

/// The recordings of a kind.
pub(crate) fn samples(kind: &str) -> Vec<Sample> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(kind);
    let versions =
        fs::read_dir(&root).unwrap_or_else(|_| panic!("{kind} has no recordings in {}", root.display()));
    let mut stems: Vec<PathBuf> = versions
        .flat_map(|version| fs::read_dir(version.unwrap().path()).unwrap())
        .map(|entry| stem(&entry.unwrap().path()))
        .collect();
    stems.sort();
    stems.dedup();
    assert!(!stems.is_empty(), "{kind} has no recordings in {}", root.display());
    stems.iter().map(|stem| sample(&root, stem)).collect()
}

/// `…/04-streamjson` for all files of that case.
fn stem(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap().to_str().unwrap();
    let known = [".meta.json", ".jsonl", ".json", ".txt", ".stderr"];
    let stem = known.into_iter().find_map(|ending| name.strip_suffix(ending)).unwrap();
    path.with_file_name(stem)
}

fn sample(root: &Path, stem: &Path) -> Sample {
    let file = |ending: &str| fs::read(format!("{}{ending}", stem.display())).unwrap_or_default();
    let stdout = [file(".jsonl"), file(".json"), file(".txt")].concat();
    let meta: Value = serde_json::from_slice(&file(".meta.json")).unwrap_or_default();
    // A few turns were run by hand, so their exit code is not recorded.
    let code = meta["rc"].as_i64().unwrap_or(i64::from(stdout.is_empty())) as i32;
    let args: Vec<&str> = meta["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let chosen = args.iter().position(|arg| *arg == "--session-id").map(|at| args[at + 1].to_owned());
    Sample {
        name: stem.strip_prefix(root).unwrap().display().to_string().replace('\\', "/"),
        ending: if code < 0 { TurnEnding::Signal(-code) } else { TurnEnding::Code(code) },
        turn: Turn { session: chosen, ..Turn::default() },
        stderr: String::from_utf8(file(".stderr")).unwrap(),
        stdout,
    }
}

fn read(
    program: &dyn AgentProgram,
    turn: &Turn,
    pieces: impl Iterator<Item = impl AsRef<[u8]>>,
    end: (TurnEnding, &str),
) -> (Vec<TurnEvent>, Ended) {
    let mut reader = TurnReader::new(program, turn);
    let mut seen: Vec<TurnEvent> = pieces.flat_map(|piece| reader.feed(piece.as_ref())).collect();
    seen.extend(reader.close());
    (seen, reader.finish(end.0, end.1))
}

fn read_sample(program: &dyn AgentProgram, sample: &Sample, chunk: usize) -> (Vec<TurnEvent>, Ended) {
    read(program, &sample.turn, sample.stdout.chunks(chunk), (sample.ending, &sample.stderr))
}

/// What a recorded turn said at its end, if it came to one.
pub(crate) fn reply_of(program: &dyn AgentProgram, sample: &Sample) -> Option<String> {
    read_sample(program, sample, usize::MAX).1.ok().map(|report| report.text)
}

/// How a recorded turn ended, read as this turn.
pub(super) fn ended(kind: &str, name: &str, turn: &Turn) -> Ended {
    let sample = samples(kind).into_iter().find(|sample| sample.name == name).unwrap();
    read_sample(&*of_kind(kind), &Sample { turn: turn.clone(), ..sample }, usize::MAX).1
}

fn cost(ended: &Ended) -> Cost {
    ended.as_ref().map_or_else(|failure| failure.cost, |report| report.cost)
}

#[test]
fn every_recorded_turn_is_understood() {
    for kind in KINDS {
        let program = of_kind(kind.name);
        let mut table = String::new();
        for sample in samples(kind.name) {
            let (seen, ended) = read_sample(&*program, &sample, usize::MAX);
            writeln!(table, "{}: {}{}", sample.name, told(&ended), tokens(&seen)).unwrap();
        }
        insta::assert_snapshot!(format!("{}_turns", kind.name), table);
    }
}

fn told(ended: &Ended) -> String {
    let usd = |cost: &Cost| format!("${:.6}{}", cost.usd, if cost.estimated { " (estimated)" } else { "" });
    match ended {
        Ok(report) if report.permission_denials.is_empty() => {
            format!("{} {:?}", usd(&report.cost), report.text)
        }
        Ok(report) => {
            format!("{} {:?} denied {:?}", usd(&report.cost), report.text, report.permission_denials)
        }
        Err(failure) => {
            let said =
                failure.final_text.as_ref().map_or(String::new(), |text| format!(" (it said {text:?})"));
            format!("{} {:?} {}{said}", usd(&failure.cost), failure.fault.class(), failure.fault)
        }
    }
}

fn tokens(seen: &[TurnEvent]) -> String {
    let used = seen.iter().filter_map(|event| match event {
        TurnEvent::Usage(tokens) if *tokens != Tokens::default() => Some(tokens),
        _ => None,
    });
    let used = used.map(|tokens| {
        let Tokens { input, output, cache_write, cache_read } = tokens;
        format!("; tokens: {input} in, {output} out, cache {cache_write} in, {cache_read} out")
    });
    used.collect()
}

#[test]
fn the_sizes_of_the_pieces_do_not_matter() {
    for kind in KINDS {
        let program = of_kind(kind.name);
        for sample in samples(kind.name) {
            let whole = read_sample(&*program, &sample, usize::MAX);
            for chunk in [1, 7, 4096] {
                let pieces = read_sample(&*program, &sample, chunk);
                assert_eq!(pieces, whole, "{} {} in pieces of {chunk}", kind.name, sample.name);
            }
        }
    }
}

#[test]
fn the_cost_of_a_lost_turn_is_read_from_its_kept_output() {
    for kind in KINDS {
        let program = of_kind(kind.name);
        for sample in samples(kind.name) {
            let Some(lost) = program.cost_of_lost_turn(&Turn::default(), Some(&mut &*sample.stdout), None)
            else {
                panic!("{} cannot estimate the cost of {}", kind.name, sample.name)
            };
            let seen_to_the_end = cost(&read_sample(&*program, &sample, usize::MAX).1);
            // A program that answers in this process loses nothing, because the answer is given again.
            let is_same = (lost.usd, lost.tokens) == (seen_to_the_end.usd, seen_to_the_end.tokens);
            assert!(is_same || lost == Cost::default(), "{}: {lost:?}", sample.name);
            let of_nothing =
                program.cost_of_lost_turn(&Turn::default(), Some(&mut io::empty()), None).unwrap();
            assert_eq!(of_nothing.usd, 0.0, "{}: a program that printed nothing", kind.name);
        }
    }
}

/// A recording with a part cut off, damaged or repeated.
fn damaged() -> impl Strategy<Value = (&'static str, Vec<u8>, usize)> {
    let kinds: Vec<&'static str> = KINDS.iter().map(|kind| kind.name).collect();
    let places = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (prop::sample::select(kinds), places, any::<u8>(), 1_usize..64).prop_map(
        |(kind, (which, at, other), byte, chunk)| {
            let mut samples = samples(kind);
            let mut bytes = samples.swap_remove(which.index(samples.len())).stdout;
            let (at, other) = (at.index(bytes.len() + 1), other.index(bytes.len() + 1));
            let (from, to) = (at.min(other), at.max(other));
            match byte % 4 {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(from..to)),
                2 => drop(bytes.splice(from..from, bytes[from..to].to_vec())),
                _ => bytes.insert(at, byte),
            }
            (kind, bytes, chunk)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_damage_makes_a_decoder_panic_or_the_pieces_matter((kind, bytes, chunk) in damaged()) {
        let program = of_kind(kind);
        let end = (TurnEnding::Code(0), "");
        let whole = read(&*program, &Turn::default(), [&bytes].into_iter(), end);
        let usd = cost(&whole.1).usd;
        prop_assert!(usd.is_finite() && usd >= 0.0, "{usd}");
        prop_assert!(cost(&whole.1).tokens.is_zero() || usd > 0.0, "tokens that cost nothing: {:?}", whole.1);
        prop_assert_eq!(read(&*program, &Turn::default(), bytes.chunks(chunk), end), whole);
    }
}

/// Such a line may have been the result, which would be as long the next time.
#[test]
fn a_result_that_is_too_long_to_be_read_is_paid_once() {
    let long = vec![b'x'; 17 << 20];
    for kind in KINDS {
        let turn = Turn { prompt: "Do it.".to_owned(), ..Turn::default() };
        let end = (TurnEnding::Code(0), "");
        let (_, ended) = read(&*of_kind(kind.name), &turn, [&long].into_iter(), end);
        let failure = ended.unwrap_err();
        assert_eq!(
            (failure.fault.name(), failure.fault.class()),
            ("output_too_long", Class::Fatal),
            "{}",
            kind.name
        );
        if kind.name != "command" {
            assert!(failure.cost.unknown && failure.cost.usd > 0.0, "{}: {:?}", kind.name, failure.cost);
            let share = raymond_core::money::Usd::from_dollars(2.0);
            assert_eq!(failure.cost.counted(Some(share)).usd(), share, "it may have used all of its share");
        }
    }
}

/// Whatever a program tells, tokens have a price: that of the model, or else the dearest.
#[test]
fn tokens_cost_something_whatever_their_program_tells() {
    let used = Tokens { input: 11_000_000, ..Tokens::default() };
    let told = Cost { tokens: used, ..Cost::default() };
    let settled = |turn: &Turn, told_as| Counting::new(told_as, turn).settle(told, None).cost;
    let of = |model: &str| Turn { model: Some(model.to_owned()), ..Turn::default() };
    for told_as in [TokensTold::No, TokensTold::OfTurn, TokensTold::OfSession] {
        let known = settled(&of("gpt-5"), told_as);
        assert_eq!((known.usd, known.estimated), (11.0 * 1.25, true));
        assert!(settled(&of("no-such-model"), told_as).usd > 11.0 * 5.0, "the dearest");
        assert!(settled(&Turn::default(), told_as).usd > 11.0 * 5.0);
    }
    let mut free = of("no-such-model");
    free.pricing.may_be_uncounted = true;
    let free = settled(&free, TokensTold::OfTurn);
    assert!(free.uncounted && free.counted(None).usd().is_zero() && free.counted(None).tokens() == used);
    // A program that counts by the session began a new one.
    let earlier = Tokens { input: 12_000_000, ..Tokens::default() };
    let continues = Some(Continued { total_tokens: Some(earlier), ..Continued::default() });
    let settled = Counting::new(TokensTold::OfSession, &Turn { continues, ..of("gpt-5") }).settle(told, None);
    assert!(settled.began_anew);
    assert_eq!((settled.cost.usd, settled.cost.tokens), (11.0 * 1.25, used));
}

const ITS_OWN: &str = r#"{"type":"thread","id":"t7"}
{"type":"message","text":"done"}
{"type":"completed","input":100,"output":20}
"#;

#[test]
fn a_program_may_choose_its_session() {
    let program = Threads::new(ITS_OWN);
    let mut reader = TurnReader::new(&program, &Turn::default());
    assert_eq!(reader.session(), None);
    reader.feed(ITS_OWN.as_bytes());
    assert_eq!(reader.session(), Some("t7"));
    let report = reader.finish(TurnEnding::Code(0), "").unwrap();
    assert_eq!((report.text.as_str(), report.cost.usd), ("done", 0.12));
}

#[test]
fn a_program_with_conversations_has_to_report_its_session() {
    let untold = ITS_OWN.replace("thread", "other");
    let ended = |program: &Threads| {
        read(program, &Turn::default(), [&untold].into_iter(), (TurnEnding::Code(0), "")).1
    };
    let program = Threads::new("");
    assert_eq!(ended(&program).unwrap_err().fault, TurnFault::SessionUntold);
    let without = Capabilities { branch: false, resume: false, ..program.can };
    ended(&Threads { can: without, ..program })
        .expect("a program without conversations need not report a session");
}

#[test]
fn the_session_has_to_be_the_one_that_was_asked_for() {
    let branch_of = |session: &str| Some(Continued { session: session.to_owned(), ..Continued::default() });
    let chosen = |session: &str| Some(session.to_owned());
    // What was asked for, and the fault if `t7` is not allowed.
    for (session, continues, fault) in [
        (None, None, None),
        (None, branch_of("t6"), None),
        (
            None,
            branch_of("t7"),
            Some("the agent program ran in session t7 though a branch of t7 was asked for"),
        ),
        (chosen("t7"), None, None),
        (chosen("t7"), branch_of("t6"), None),
        (chosen("t8"), None, Some("the agent program ran in session t7 though t8 was asked for")),
        (chosen("t8"), branch_of("t7"), Some("the agent program ran in session t7 though t8 was asked for")),
    ] {
        let turn = Turn { session, continues, ..Turn::default() };
        let (_, ended) = read(&Threads::new(""), &turn, [ITS_OWN].into_iter(), (TurnEnding::Code(0), ""));
        let got = ended.as_ref().err().map(|failure| failure.fault.to_string());
        let got = got.as_ref().map(|told| told.split(';').next().unwrap());
        assert_eq!(got, fault, "{turn:?}");
        assert_eq!(cost(&ended).usd, 0.12, "the cost counts in any case");
    }
}
