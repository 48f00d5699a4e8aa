//! Each rule's folder `lint/CODE/`: `bad` must be found, `good` must not, and what is said is in `expected`.

use std::fs;
use std::path::{Path, PathBuf};

use raymond::author::check::check;
use raymond::author::report;
use raymond_core::diagnostic::Severity;
use raymond_core::lint::RULES;
use raymond_core::workflow::Platform;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint")
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Compares, or with `UPDATE=1` takes what was got as what is expected.
pub fn expect(file: &Path, got: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(file, got).unwrap();
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    assert_eq!(got, expected, "{} differs; UPDATE=1 takes the new text", file.display());
}

#[test]
fn every_rule_finds_what_it_must_and_nothing_else() {
    for rule in RULES {
        let case = folder().join(rule.code);
        let bad = check("bad", &case, Platform::Unix);
        let own: Vec<_> = bad.iter().filter(|found| found.code == rule.code).cloned().collect();
        assert!(!own.is_empty(), "{} finds nothing in its bad workflow", rule.code);
        assert!(own.iter().all(|found| found.severity == rule.severity));
        expect(&case.join("expected"), &plain(&report::text(&bad)));
        let good = check("good", &case, Platform::Unix);
        let wrong: Vec<_> = good.iter().filter(|found| found.code == rule.code).collect();
        assert!(wrong.is_empty(), "{} complains of its good workflow: {wrong:?}", rule.code);
        let errors: Vec<_> = good.iter().filter(|found| found.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{}: the good workflow has errors: {errors:?}", rule.code);
    }
}

#[test]
fn every_folder_has_its_rule() {
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(RULES.iter().any(|rule| rule.code == name), "{name} is the code of no rule");
    }
}

#[test]
fn programs_get_places_and_help() {
    let found = check("bad", &folder().join("R005"), Platform::Unix);
    let json: serde_json::Value = serde_json::from_str(&report::json(&found)).unwrap();
    let first = json
        .as_array()
        .unwrap()
        .iter()
        .find(|found| found["file"] == "bad/REVIEW.md" && found["code"] == "R005")
        .unwrap();
    assert_eq!(
        *first,
        serde_json::json!({
            "code": "R005", "severity": "error", "message": "`return` of `call`: there is no state `nowhere`",
            "file": "bad/REVIEW.md", "line": 1, "column": 20, "end_line": 1, "end_column": 27, "help": null,
        })
    );
    let sarif: serde_json::Value = serde_json::from_str(&report::sarif(&found)).unwrap();
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), found.len());
    assert!(
        report::github(&found)
            .contains("::error file=bad/REVIEW.md,line=1,endLine=1,col=20,endColumn=27,title=R005::")
    );
    assert_eq!(report::github(&found).lines().count(), found.len());
}

#[test]
fn fixing_leaves_nothing_that_can_be_fixed() {
    let work = tempfile::tempdir().unwrap();
    for code in ["R002", "R005", "R009", "R010", "R016", "R023"] {
        let copy = work.path().join(code);
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(folder().join(code).join("bad")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let fixable = |found: Vec<raymond::author::check::Found>| {
            found.iter().filter(|found| found.can_be_fixed).count()
        };
        assert!(fixable(check(code, work.path(), Platform::Unix)) > 0, "{code}");
        let fixed = raymond::author::check::fix(code, work.path(), Platform::Unix).unwrap();
        assert!(fixed > 0, "{code}");
        assert_eq!(fixable(check(code, work.path(), Platform::Unix)), 0, "{code}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let found = check("bad", &folder().join("R027"), Platform::Unix);
    for report in [report::text(&found), report::json(&found), report::sarif(&found), report::github(&found)]
    {
        assert!(!report.contains("0123456789"), "{report}");
    }
}

#[test]
fn rules_are_documented() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lint.md");
    let text = fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once("this table -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end of rules -->").unwrap();
    let row = |rule: &&raymond_core::lint::Rule| {
        format!("| `{}` | {} | {} | {} |\n", rule.code, rule.severity, rule.name, rule.summary)
    };
    let rows: String = RULES.iter().map(row).collect();
    let table = format!("| code | severity | name | what it finds |\n|---|---|---|---|\n{rows}");
    expect(&file, &format!("{before}this table -->\n{table}<!-- end of rules -->{after}"));
}
