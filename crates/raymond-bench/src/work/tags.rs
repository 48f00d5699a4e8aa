//! The tag reader alone.

use std::hint::black_box;
use std::time::Instant;

use raymond_core::tag::TagCollector;

use crate::report::{Kind, Row};
use crate::rig::Rig;
use crate::sample::Sample;

const REPETITIONS: usize = 15;
/// The size of one read from a pipe.
const CHUNK: usize = 64 * 1024;

pub fn measure(_rig: &Rig) -> Result<Vec<Row>, String> {
    let line = "a line of output without any markup, as most programs print it: ok 123 passed\n";
    let text = line.repeat(64 * 1024 * 1024 / line.len());
    let mut sample = Sample::default();
    for _ in 0..REPETITIONS {
        let started = Instant::now();
        let mut tags = TagCollector::new();
        for chunk in text.as_bytes().chunks(CHUNK) {
            tags.feed(black_box(chunk), &mut drop).map_err(|error| error.to_string())?;
        }
        black_box(tags.finish(&mut drop)).map_err(|error| error.to_string())?;
        sample.add_time(started.elapsed());
    }
    let speed = text.len() as f64 / sample.median() / 1e9;
    Ok(vec![Row::amount("tag reader on text without tags", speed, format!("{speed:.1} GB/s")).within(
        1.0,
        " GB/s",
        Kind::AtLeast,
    )])
}
