//! Numbers from a noisy machine.

use std::fmt;
use std::time::Duration;

/// Several measurements of the same thing, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    pub const fn new() -> Self {
        Sample(Vec::new())
    }

    pub fn add(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    pub fn add_time(&mut self, time: Duration) {
        self.add(time.as_secs_f64());
    }

    /// The median of the ratios to the other's measurement in the same repetition, because both had the same noise.
    pub fn beside(&self, other: &Sample) -> f64 {
        Sample(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect()).median()
    }

    /// Each measurement minus the other's in the same repetition.
    pub fn less(&self, other: &Sample) -> Sample {
        Sample(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours - theirs).collect())
    }

    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => sorted[count / 2],
            count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&seconds(self.median()))
    }
}

/// A time, formatted for people.
pub fn seconds(time: f64) -> String {
    match time.abs() {
        t if t >= 1.0 => format!("{time:.2} s"),
        t if t >= 0.001 => format!("{:.2} ms", time * 1e3),
        _ => format!("{:.1} µs", time * 1e6),
    }
}

pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}
