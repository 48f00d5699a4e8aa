use proptest::prelude::*;

use super::*;

fn listing(files: &str) -> Listing {
    Listing::new(files.split_whitespace().map(str::to_owned))
}

/// The state, or a word for the error.
fn outcome(result: Result<StateFile, ResolveError>) -> String {
    match result {
        Ok(state) => state.to_string(),
        Err(ResolveError::BadName { .. }) => "bad name".to_owned(),
        Err(ResolveError::UnknownExtension { .. }) => "unknown extension".to_owned(),
        Err(ResolveError::WrongPlatform { .. }) => "wrong platform".to_owned(),
        Err(ResolveError::NotFound { .. }) => "not found".to_owned(),
        Err(ResolveError::Ambiguous { .. }) => "ambiguous".to_owned(),
        Err(ResolveError::NoEntry { .. }) => "no entry".to_owned(),
        Err(ResolveError::TwoEntries { .. }) => "two entries".to_owned(),
    }
}

#[test]
fn resolution_on_both_platforms() {
    let cases = [
        // files present, target, on Unix, on Windows
        ("POLL.md", "POLL", "POLL.md", "POLL.md"),
        ("POLL.sh", "POLL", "POLL.sh", "not found"),
        ("POLL.bat", "POLL", "not found", "POLL.bat"),
        ("POLL.ps1", "POLL", "not found", "POLL.ps1"),
        ("POLL.py", "POLL", "POLL.py", "POLL.py"),
        ("POLL.js", "POLL", "POLL.js", "POLL.js"),
        ("POLL.sh POLL.bat", "POLL", "POLL.sh", "POLL.bat"),
        ("POLL.sh POLL.ps1", "POLL", "POLL.sh", "POLL.ps1"),
        ("POLL.bat POLL.ps1", "POLL", "not found", "ambiguous"),
        ("POLL.md POLL.sh", "POLL", "ambiguous", "POLL.md"),
        ("POLL.md POLL.bat", "POLL", "POLL.md", "ambiguous"),
        ("POLL.md POLL.ps1", "POLL", "POLL.md", "ambiguous"),
        ("POLL.sh POLL.bat POLL.ps1", "POLL", "POLL.sh", "ambiguous"),
        ("POLL.py POLL.sh", "POLL", "ambiguous", "POLL.py"),
        ("POLL.py POLL.bat", "POLL", "POLL.py", "ambiguous"),
        ("POLL.js POLL.md", "POLL", "ambiguous", "ambiguous"),
        ("POLL.py POLL.js", "POLL", "ambiguous", "ambiguous"),
        ("POLL.txt POLL.MD POLL", "POLL", "not found", "not found"),
        // With an extension none of these rules apply.
        ("POLL.md POLL.sh POLL.bat", "POLL.md", "POLL.md", "POLL.md"),
        ("POLL.md POLL.sh POLL.bat", "POLL.sh", "POLL.sh", "wrong platform"),
        ("POLL.md POLL.sh POLL.bat", "POLL.bat", "wrong platform", "POLL.bat"),
        ("POLL.sh", "POLL.ps1", "wrong platform", "not found"),
        ("POLL.py POLL.js", "POLL.py", "POLL.py", "POLL.py"),
        ("POLL.py POLL.js", "POLL.js", "POLL.js", "POLL.js"),
        ("POLL.md", "POLL.txt", "unknown extension", "unknown extension"),
        ("POLL.md", "POLL.MD", "unknown extension", "unknown extension"),
        ("POLL.md", "POLL.", "unknown extension", "unknown extension"),
        ("POLL.v2.md", "POLL.v2", "unknown extension", "unknown extension"),
        ("POLL.v2.md", "POLL.v2.md", "POLL.v2.md", "POLL.v2.md"),
        ("POLL.md", "poll", "not found", "not found"),
        ("POLL.md", "", "bad name", "bad name"),
        ("POLL.md", ".", "bad name", "bad name"),
        ("POLL.md", "..", "bad name", "bad name"),
        ("POLL.md", ".md", "bad name", "bad name"),
        ("POLL.md", "./POLL", "bad name", "bad name"),
        ("POLL.md", "sub/POLL.md", "bad name", "bad name"),
        ("POLL.md", r"..\POLL.md", "bad name", "bad name"),
        ("POLL.md", "POLL\0", "bad name", "bad name"),
        ("POLL.md", "POLL\nPOLL", "bad name", "bad name"),
    ];
    for (files, target, on_unix, on_windows) in cases {
        let listing = listing(files);
        assert_eq!(outcome(listing.resolve(target, Platform::Unix)), on_unix, "{target} in {files}, Unix");
        assert_eq!(
            outcome(listing.resolve(target, Platform::Windows)),
            on_windows,
            "{target} in {files}, Windows"
        );
    }
}

#[test]
fn entries_on_both_platforms() {
    let cases = [
        ("1_START.md PLAN.md", "1_START.md", "1_START.md"),
        ("START.sh START.bat", "START.sh", "START.bat"),
        ("START.md 1_START.md", "two entries", "two entries"),
        ("START.sh 1_START.bat", "START.sh", "1_START.bat"),
        ("START.sh START.md", "ambiguous", "START.md"),
        ("START.sh START.md 1_START.md", "two entries", "two entries"),
        ("PLAN.md", "no entry", "no entry"),
        ("START.bat", "no entry", "START.bat"),
        ("", "no entry", "no entry"),
    ];
    for (files, on_unix, on_windows) in cases {
        let listing = listing(files);
        assert_eq!(outcome(listing.entry(Platform::Unix)), on_unix, "{files}, Unix");
        assert_eq!(outcome(listing.entry(Platform::Windows)), on_windows, "{files}, Windows");
    }
}

#[test]
fn errors_say_what_to_do() {
    let listing = listing("REVIEW.md PLAN.md PLAN.sh POLL.bat BUILD.v2.md");
    let cases = [
        ("REVEIW", "there is no state `REVEIW`; did you mean `REVIEW`?"),
        ("review.md", "there is no state `review.md`; did you mean `REVIEW.md`?"),
        ("REVIEW.py", "there is no state `REVIEW.py`; did you mean `REVIEW.md`?"),
        ("XYZ", "there is no state `XYZ`"),
        ("POLL", "there is no state `POLL`; `POLL.bat` exists but runs on Windows only"),
        (
            "PLAN",
            "`PLAN` is ambiguous: `PLAN.md` and `PLAN.sh` exist; add the extension or remove all but one",
        ),
        (
            "BUILD.v2",
            "`BUILD.v2` has the unknown extension `v2` (known are `md`, `sh`, `ps1`, `bat`, `py` and `js`); did you \
             mean `BUILD.v2.md`?",
        ),
        (
            "POLL.bat",
            "`POLL.bat` runs on Windows only, and this is Unix; name the state without an extension to let each \
             platform take its own file",
        ),
        (
            "A\u{1b}",
            "`A\\u{1b}` cannot be a state: it holds control characters; write the name alone, on one line",
        ),
    ];
    for (target, message) in cases {
        let error = listing.resolve(target, Platform::Unix).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn huge_listings_and_targets_stay_cheap() {
    let listing = Listing::new((0..5_000).map(|number| format!("{}{number}.md", "STATE".repeat(10))));
    let message = |target: &str| listing.resolve(target, Platform::Unix).unwrap_err().to_string();
    assert!(message(&"x".repeat(8 * 1024 * 1024)).len() < 400);
    assert!(message(&format!("a.{}", "x".repeat(8 * 1024 * 1024))).len() < 800);
    assert!(message(&format!("{}77777", "STATE".repeat(10))).contains("did you mean"));
}

#[test]
fn state_files_are_plain_strings_on_disk() {
    let state = StateFile::new("REVIEW.v2.md").unwrap();
    assert_eq!((state.name(), state.kind()), ("REVIEW.v2", Kind::Prompt));
    let json = serde_json::to_string(&state).unwrap();
    assert_eq!(json, "\"REVIEW.v2.md\"");
    assert_eq!(serde_json::from_str::<StateFile>(&json).unwrap(), state);
    for bad in ["REVIEW", "REVIEW.txt", "../X.md", ".md", "a\\b.md", ""] {
        assert_eq!(StateFile::new(bad), None, "{bad}");
        assert!(serde_json::from_value::<StateFile>(bad.into()).is_err(), "{bad}");
    }
}

#[test]
fn states_are_listed_once_and_sorted() {
    let listing = listing("B.sh A.py B.md notes.txt B.sh");
    let states: Vec<String> = listing.states().map(String::from).collect();
    assert_eq!(states, ["A.py", "B.md", "B.sh"]);
    assert!(listing.contains(&StateFile::new("B.md").unwrap()));
    assert!(!listing.contains(&StateFile::new("A.md").unwrap()));
}

proptest! {
    #[test]
    fn resolving_anything_gives_a_listed_state_or_a_clean_message(target in "\\PC*|[A-C./\\\\\\x00]{0,6}|(?s).*") {
        let listing = listing("A.md B.sh B.bat C.py C.js");
        for platform in [Platform::Unix, Platform::Windows] {
            match listing.resolve(&target, platform) {
                Ok(state) => {
                    prop_assert!(listing.contains(&state) && state.kind().runs_on(platform));
                    prop_assert!(state.as_str() == target || state.name() == target);
                }
                Err(error) => prop_assert!(!error.to_string().contains(char::is_control)),
            }
        }
    }
}
