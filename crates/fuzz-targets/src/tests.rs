//! Tests of workflows, and recordings of runs.

use std::path::Path;

use raymond::check::file::parse;
use raymond::recording::{Places, RecordedTurn, parse as parse_recording};

use crate::language::check_place;

/// A test file is read or refused, with a position that exists. Its files stay in the folder of the test.
pub fn test_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text) {
        Ok((tests, workflow)) => {
            assert!(!tests.is_empty());
            if let Some((_, position)) = workflow {
                check_place(text, position);
            }
            for file in tests.iter().flat_map(|test| test.files.keys()) {
                let leads_outside = file.starts_with('/') || file.split('/').any(|part| part == "..");
                assert!(!leads_outside, "{file:?} leads outside of the folder");
            }
        }
        Err(fault) => {
            check_place(text, fault.position);
            assert!(!fault.message.is_empty());
        }
    }
}

/// A recording is read or refused, with a position that exists. One that is written out is read as the same turns,
/// and placeholders of folders are replaced by what stood there.
pub fn recording(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let path = Path::new("x.jsonl");
    match parse_recording(path, &text) {
        Ok(turns) => {
            let written: String = turns.iter().map(RecordedTurn::line).collect();
            assert_eq!(parse_recording(path, &written).as_ref(), Ok(&turns), "written out: {written:?}");
        }
        Err(bad) => {
            let (line, column) = bad.place.expect("only a line can be wrong");
            assert!(
                column >= 1 && (1..=text.lines().count()).contains(&line),
                "line {line}, column {column}"
            );
        }
    }
    let places =
        Places::new("run-1", Path::new("/tmp/tasks/run-1"), "/tmp/project/sub", Path::new("/tmp/project"));
    if !text.contains('⟨') {
        assert_eq!(places.restore(&places.replace(&text, &[])), text);
    }
}
