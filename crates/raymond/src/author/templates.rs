//! Workflows to start from. Each runs without an agent program, with answers from a file.

/// A workflow that `init` can write.
#[derive(Debug)]
pub struct Template {
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// Names and texts of its files.
    pub files: &'static [(&'static str, &'static str)],
}

/// The files of a template's folder.
macro_rules! files {
    ($folder:literal: $($file:literal),+) => {
        &[$(($file, include_str!(concat!("templates/", $folder, "/", $file)))),+]
    };
}

/// All templates; the first is the default.
pub static TEMPLATES: [Template; 3] = [
    Template {
        name: "hello",
        about: "a prompt and a script",
        files: files!("hello": "START.md", "CHECK.sh", "CHECK.bat", "workflow.yaml", "replies.yaml", "hello.test.yaml"),
    },
    Template {
        name: "review",
        about: "a text is written and reviewed until it is good",
        files: files!("review": "START.md", "WRITE.md", "REVIEW.md", "workflow.yaml", "replies.yaml", "review.test.yaml"),
    },
    Template {
        name: "fan-out",
        about: "workers at the same time, and a summary",
        files: files!("fan-out": "START.md", "WORK.md", "SUMMARY.md", "workflow.yaml", "replies.yaml", "fan-out.test.yaml"),
    },
];

pub fn template(name: &str) -> Option<&'static Template> {
    TEMPLATES.iter().find(|template| template.name == name)
}
