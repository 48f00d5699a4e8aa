//! The table: the measurements, their baselines, and whether the targets are met.

use std::fmt;
use std::path::{Path, PathBuf};

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub work: String,
    pub ours: String,
    pub baseline: String,
    /// The value that is compared with the limit.
    pub value: f64,
    pub shown: String,
    pub target: Option<Target>,
    /// The same work done by another program, if one was named.
    pub peer: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub limit: f64,
    /// The unit, written after the limit.
    pub unit: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AtMost,
    AtLeast,
}

impl Row {
    /// A multiple of the baseline.
    pub fn ratio(work: &str, ours: impl fmt::Display, baseline: impl fmt::Display, ratio: f64) -> Self {
        Row {
            work: work.to_owned(),
            ours: ours.to_string(),
            baseline: baseline.to_string(),
            value: ratio,
            shown: format!("{ratio:.2}×"),
            target: None,
            peer: None,
        }
    }

    /// An absolute amount.
    pub fn amount(work: &str, value: f64, shown: String) -> Self {
        Row {
            work: work.to_owned(),
            ours: shown.clone(),
            baseline: "–".to_owned(),
            value,
            shown,
            target: None,
            peer: None,
        }
    }

    pub fn at_most(self, limit: f64) -> Self {
        self.within(limit, "×", Kind::AtMost)
    }

    pub fn within(mut self, limit: f64, unit: &'static str, kind: Kind) -> Self {
        self.target = Some(Target { limit, unit, kind });
        self
    }

    pub fn beside(mut self, peer: Option<impl fmt::Display>) -> Self {
        self.peer = peer.map(|peer| peer.to_string());
        self
    }

    pub fn is_met(&self) -> bool {
        self.target.is_none_or(|target| match target.kind {
            Kind::AtMost => self.value <= target.limit,
            Kind::AtLeast => self.value >= target.limit,
        })
    }

    fn target_text(&self) -> String {
        let Some(target) = self.target else { return "–".to_owned() };
        let sign = if target.kind == Kind::AtMost { "≤" } else { "≥" };
        format!("{sign} {}{}", target.limit, target.unit)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_met() { " " } else { "✗" };
        write!(
            f,
            "{mark} {}: {} (beside {}) = {}, target {}",
            self.work,
            self.ours,
            self.baseline,
            self.shown,
            self.target_text()
        )
    }
}

pub fn table(rows: &[Row]) -> String {
    let has_peer = rows.iter().any(|row| row.peer.is_some());
    let mut lines = vec![
        format!(
            "| work | Raymond | baseline | measured | target | met |{}",
            if has_peer { " peer |" } else { "" }
        ),
        format!("|---|---:|---:|---:|---:|---|{}", if has_peer { "---:|" } else { "" }),
    ];
    for row in rows {
        let met = match row.target {
            None => "–",
            Some(_) if row.is_met() => "yes",
            Some(_) => "**no**",
        };
        let mut line = format!(
            "| {} | {} | {} | {} | {} | {met} |",
            row.work,
            row.ours,
            row.baseline,
            row.shown,
            row.target_text()
        );
        if has_peer {
            line += &format!(" {} |", row.peer.as_deref().unwrap_or("–"));
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// Everything between these two lines of the page is written by this program.
const BEGIN: &str = "<!-- table: begin -->";
const END: &str = "<!-- table: end -->";

pub fn write(rows: &[Row], peer: Option<&Path>) -> std::io::Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md").canonicalize()?;
    let page = std::fs::read_to_string(&path)?;
    let (head, rest) = page.split_once(BEGIN).unwrap_or((&page, ""));
    let tail = rest.split_once(END).map_or("\n", |(_, tail)| tail);
    let peer = peer
        .map(|peer| format!(" The peer is `{}`.", peer.file_name().unwrap_or_default().display()))
        .unwrap_or_default();
    let about = format!("{}.{peer}", machine());
    std::fs::write(&path, format!("{head}{BEGIN}\n{about}\n\n{}\n{END}{tail}", table(rows)))?;
    Ok(path)
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("an unnamed processor", |(_, name)| name);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{}: {cores} cores, {}, Linux {}",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        name.trim(),
        kernel.trim()
    )
}
