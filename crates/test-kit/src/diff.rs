//! A readable diff of two texts, line by line.

/// Lines that only one text has, marked `-` (expected) or `+` (got), with a few lines around them.
pub fn diff(expected: &str, got: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), got.lines().collect());
    let mut lines = edits(&old, &new);
    if lines.iter().all(|(mark, _)| *mark == ' ') {
        lines.push(('~', "(only the line break at the end differs)"));
    }
    let changed: Vec<usize> = (0..lines.len()).filter(|index| lines[*index].0 != ' ').collect();
    let near = |index: usize| changed.iter().any(|place| place.abs_diff(index) <= AROUND);
    let mut text = String::new();
    let mut skipped = false;
    for (index, (mark, line)) in lines.iter().enumerate() {
        if near(index) {
            text.push_str(&format!("    {mark} {line}\n"));
        } else if !skipped {
            text.push_str("      …\n");
        }
        skipped = !near(index);
    }
    text
}

const AROUND: usize = 2;

/// The shortest edit script between two lists of lines. The texts are small, so a simple table is fast enough.
fn edits<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(char, &'t str)> {
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
    lines
}

#[test]
fn differences_are_marked() {
    let got = diff("a\nb\nc\n", "a\nx\nc\nd\n");
    assert_eq!(got, "      a\n    - b\n    + x\n      c\n    + d\n");
    assert!(diff("a\n", "a").contains("line break"));
}
