//! Finding a place in a segment without reading all of its events.
//!
//! Every line begins with the number of its event, and the last line of a batch ends with its commit mark. So the batch
//! that is wanted is found by the first and last bytes of lines. What is passed over is not checked for damage.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::place::RunPaths;
use super::segment::{MAX_LINE_BYTES, Position, START_EVENT, has_mark};
use crate::files::open_plain;

/// What a line begins with.
const NUMBER: &[u8] = b"{\"seq\":";
/// In how many bytes of a line its first fields are, also what kind of event it is.
const BEGINNING: u64 = 512;

/// The end of a batch up to the event of this number, as near to it as possible. None if the segment has to be read from
/// its beginning.
pub(super) fn skip_to(paths: &RunPaths, segment: u32, seq: u64) -> io::Result<Option<Position>> {
    let file = paths.disk().read(&paths.segment(segment), 0)?;
    let mut input = BufReader::with_capacity(128 * 1024, file);
    let mut found = None;
    let (mut offset, mut lines, mut line) = (0, 0, Vec::new());
    loop {
        line.clear();
        let read = input.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
        // The end, or a line that is not whole yet.
        if line.pop() != Some(b'\n') {
            return Ok(found);
        }
        let Some(number) = number_of(&line) else { return Ok(None) };
        if number > seq {
            return Ok(found);
        }
        offset += read as u64;
        lines += 1;
        if has_mark(&line) {
            found = Some(Position { offset, lines, last_seq: Some(number), lacks_line_break: false });
        }
    }
}

/// The number of the first event of a segment; none if it cannot be told from the first bytes.
pub(super) fn first_number(paths: &RunPaths, segment: u32) -> io::Result<Option<u64>> {
    let mut beginning = Vec::new();
    paths.disk().read(&paths.segment(segment), 0)?.take(64).read_to_end(&mut beginning)?;
    Ok(number_of(&beginning))
}

/// Whether a segment begins with the start of a run and not with a snapshot. The fields before that one are short.
pub(super) fn begins_with_start(paths: &RunPaths, segment: u32) -> io::Result<bool> {
    let mut beginning = Vec::new();
    paths.disk().read(&paths.segment(segment), 0)?.take(BEGINNING).read_to_end(&mut beginning)?;
    let field = format!("\"event\":\"{START_EVENT}\"");
    Ok(memchr::memmem::find(&beginning, field.as_bytes()).is_some())
}

/// Whether a file begins with the first event of a run, as its journal does.
pub(super) fn begins_run(path: &Path, id: &str) -> bool {
    let mut beginning = Vec::new();
    let read = open_plain(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning));
    let has = |field: String| memchr::memmem::find(&beginning, field.as_bytes()).is_some();
    read.is_ok()
        && beginning.starts_with(NUMBER)
        && has(format!("\"run\":\"{id}\""))
        && has(format!("\"event\":\"{START_EVENT}\""))
}

fn number_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(NUMBER)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}
