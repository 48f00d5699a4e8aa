//! Each rule's folder `lint/CODE/`: the rule finds something in `bad` and nothing in `good`, and `expected` has the
//! report.

use std::fs;
use std::path::{Path, PathBuf};

use raymond::author::check::{Around, Fixed, check, fix};
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

/// Compares the text with the file, or with `UPDATE=1` writes it there.
pub fn expect(file: &Path, got: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(file, got).unwrap();
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    assert_eq!(got, expected, "{} differs; UPDATE=1 writes the new text", file.display());
}

#[test]
fn every_rule_has_findings_in_its_bad_workflow_only() {
    for rule in RULES {
        let case = folder().join(rule.code);
        let bad = check("bad", Around::folder(&case, Platform::Unix));
        let own: Vec<_> = bad.iter().filter(|found| found.code == rule.code).cloned().collect();
        assert!(!own.is_empty(), "{} finds nothing in its bad workflow", rule.code);
        assert!(own.iter().all(|found| found.severity == rule.severity));
        expect(&case.join("expected"), &plain(&report::text(&bad)));
        let good = check("good", Around::folder(&case, Platform::Unix));
        let wrong: Vec<_> = good.iter().filter(|found| found.code == rule.code).collect();
        assert!(wrong.is_empty(), "{} has findings in its good workflow: {wrong:?}", rule.code);
        let errors: Vec<_> = good.iter().filter(|found| found.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{}: the good workflow has errors: {errors:?}", rule.code);
    }
}

#[test]
fn every_folder_has_its_rule() {
    let folders = fs::read_dir(folder()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir());
    for entry in folders {
        let name = entry.file_name().into_string().unwrap();
        assert!(RULES.iter().any(|rule| rule.code == name), "there is no rule with the code {name}");
    }
}

#[test]
fn json_and_sarif_reports_have_positions_and_help() {
    let found = check("bad", Around::folder(&folder().join("R005"), Platform::Unix));
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
        assert!(fixable(check(code, Around::folder(work.path(), Platform::Unix))) > 0, "{code}");
        let fixed = fix(code, Around::folder(work.path(), Platform::Unix)).unwrap();
        assert!(fixed != Fixed::Places(0), "{code}");
        assert_eq!(fixable(check(code, Around::folder(work.path(), Platform::Unix))), 0, "{code}");
    }
}

#[test]
fn broken_tags_are_found_in_scripts_of_windows() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().join("wf");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("START.bat"), "@echo off\r\necho ^<goto input=%X%^>NEXT^</goto^>\r\n").unwrap();
    fs::write(folder.join("NEXT.ps1"), "Write-Output \"<fork item=`\"$x`\">NEXT\"\n'<gotoo>START</gotoo>'\n")
        .unwrap();
    let places = |platform| -> Vec<(String, u32)> {
        let found = check("wf", Around::folder(work.path(), platform)).into_iter();
        let broken = found.filter(|found| found.code == "R034");
        broken.map(|found| (found.file.display().to_string(), found.start.line)).collect()
    };
    let in_file = |name: &str, line| (format!("wf/{name}"), line);
    let expected = [in_file("NEXT.ps1", 1), in_file("NEXT.ps1", 2), in_file("START.bat", 2)];
    assert_eq!(places(Platform::Windows), expected);
    assert_eq!(places(Platform::Unix), []);
}

#[test]
fn a_test_file_can_be_named_itself() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().join("wf");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("START.md"), "Say something.\n\n<result>done</result>\n").unwrap();
    let found_in = |replies: &str| -> Vec<(String, u32, &str)> {
        let text = format!("tests:\n  - name: one\n    replies: {{ {replies}: <result>ok</result> }}\n");
        fs::write(folder.join("one.test.yaml"), text).unwrap();
        let found = check("wf/one.test.yaml", Around::folder(work.path(), Platform::Unix)).into_iter();
        found.map(|found| (found.file.display().to_string(), found.start.line, found.code)).collect()
    };
    assert_eq!(found_in("START"), []);
    assert_eq!(found_in("STRAT"), [("wf/one.test.yaml".to_owned(), 3, "R039")]);
    let text = fs::read(folder.join("one.test.yaml")).unwrap();
    let fixed = fix("wf/one.test.yaml", Around::folder(work.path(), Platform::Unix)).unwrap();
    assert!(matches!(fixed, Fixed::Not(_)), "{fixed:?}");
    assert_eq!(fs::read(folder.join("one.test.yaml")).unwrap(), text);
}

#[test]
fn an_extended_workflow_must_be_in_a_folder_that_runs_may_use_and_is_left_as_it_is() {
    let work = tempfile::tempdir().unwrap();
    let [project, outside] = ["project", "outside"].map(|name| work.path().join(name));
    for folder in [project.join("base"), project.join("wf"), outside.clone()] {
        fs::create_dir_all(folder).unwrap();
    }
    let found_with = |base: &str, listed: &[String]| -> Vec<(&str, bool)> {
        fs::write(project.join("wf").join(base).join("START.md"), "---\nmodle: x\n---\n<result>x</result>\n")
            .unwrap();
        fs::write(project.join("wf/workflow.yaml"), format!("extends: {base}\n")).unwrap();
        let around = Around { workflow_paths: listed, ..Around::folder(&project, Platform::Unix) };
        check("wf", around).into_iter().map(|found| (found.code, found.can_be_fixed)).collect()
    };
    assert_eq!(found_with("../base", &[]), [("R016", false)]);
    assert_eq!(found_with("../../outside", &[]), [("R015", false), ("R016", false)]);
    assert_eq!(found_with("../../outside", &["../outside".to_owned()]), [("R016", false)]);
}

#[test]
fn secrets_are_not_shown() {
    let found = check("bad", Around::folder(&folder().join("R027"), Platform::Unix));
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

/// The three forms of a workflow: the folder itself, an archive and one file.
fn forms_of(folder: &Path, work: &Path) -> [String; 3] {
    let copy = work.join("wf");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    for form in ["wf.zip", "wf.yaml"] {
        // A workflow that cannot be loaded cannot be converted either; such workflows have their own tests.
        let _ = raymond::author::convert::convert(&copy, &work.join(form), false, false);
    }
    ["wf", "wf.zip", "wf.yaml"].map(str::to_owned)
}

#[test]
fn every_rule_finds_the_same_in_every_form() {
    // Tests lie beside an archive or a one-file workflow, not in it; what R042 finds is not packed.
    for rule in RULES.iter().filter(|rule| !["R015", "R039", "R042"].contains(&rule.code)) {
        let work = tempfile::tempdir().unwrap();
        let forms = forms_of(&folder().join(rule.code).join("bad"), work.path());
        let [in_folder, in_archive, in_one_file] = forms.map(|form| {
            let found = check(&form, Around::folder(work.path(), Platform::Unix));
            for found in found.iter().filter(|found| form.ends_with(".yaml") && found.lines.is_some()) {
                assert_eq!(found.file, Path::new(&form));
                assert_is_underlined(&work.path().join(&form), found);
            }
            let mut said: Vec<String> = found
                .iter()
                .map(|found| format!("{} {} {:?}", found.code, found.message, found.help))
                .collect();
            said.sort();
            said
        });
        assert_eq!(in_folder, in_archive, "{}", rule.code);
        assert_eq!(in_folder, in_one_file, "{}", rule.code);
    }
}

/// The underlined text of a finding is at its line and column of the file.
fn assert_is_underlined(file: &Path, found: &raymond::author::check::Found) {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().nth(found.start.line as usize - 1).unwrap();
    let lines = found.lines.as_ref().unwrap();
    let is_secret = lines.text.contains('*');
    assert!(is_secret || line == lines.text, "{found:?}");
    assert_eq!(line.chars().take(found.start.column as usize - 1).count(), found.start.column as usize - 1);
    let before: String = line.chars().take(found.start.column as usize - 1).collect();
    assert_eq!(before.len(), lines.range.start, "{found:?}");
}

/// A one-file workflow with a mistake in every possible place.
const MISTAKES: &str = r#"nmae: Places
states:
  START:
    prompt: |
      First.

      Then <goto>REVEIW</goto>, or <goto>SCRIPT</goto>.
    allowed_transitions:
      - { tag: goto, target: REVEIW }
      - tag: goto
        target: SCRIPT
    efort: low
  REVIEW:
    prompt: "Say\t{{nobody}} and <goto>\u0053CRIPT</goto> or <goto>NOWHERE</goto>"
  FOLDED: { prompt: 'it''s <goto>MISSING</goto>', model: 5 }
  SCRIPT:
    sh: |
      #!/bin/bash
      # raymond: retyr=2
      echo '<goto>ELSEWHERE</goto>'
    timeot: 5s
    retry: 2
  BROKEN:
    sh: echo '<result>x</result>'
    retry: many
  WITHOUT:
    model: haiku
files:
  EXTRA.md: |
    ---
    timeout: [5]
    ---
    <goto>GONE</goto>
  data.txt: x
"#;

#[test]
fn findings_in_a_one_file_workflow_have_its_lines_and_columns() {
    let work = tempfile::tempdir().unwrap();
    fs::write(work.path().join("wf.yaml"), MISTAKES).unwrap();
    let found = check("wf.yaml", Around::folder(work.path(), Platform::Unix));
    for found in found.iter().filter(|found| found.lines.is_some()) {
        assert_is_underlined(&work.path().join("wf.yaml"), found);
    }
    expect(&folder().join("one_file.expected"), &plain(&report::text(&found)));
    let json: serde_json::Value = serde_json::from_str(&report::json(&found)).unwrap();
    let missing =
        json.as_array().unwrap().iter().find(|found| found["message"] == "there is no state `NOWHERE`");
    let missing = missing.unwrap();
    assert_eq!((missing["line"].as_u64(), missing["column"].as_u64()), (Some(14), Some(68)));
    assert!(report::github(&found).contains("file=wf.yaml,line=14,endLine=14,col=68"));
    assert!(report::sarif(&found).contains("\"startColumn\": 68"));
}

#[test]
fn a_one_file_workflow_is_fixed_in_place_and_an_archive_is_not() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("wf.yaml");
    fs::write(&file, format!("\u{feff}{MISTAKES}")).unwrap();
    let fixed = raymond::author::check::fix("wf.yaml", Around::folder(work.path(), Platform::Unix)).unwrap();
    assert_eq!(fixed, Fixed::Places(5));
    let text = fs::read_to_string(&file).unwrap();
    let expected = MISTAKES
        .replace("REVEIW", "REVIEW")
        .replace("efort", "effort")
        .replace("timeot", "timeout")
        .replace("retyr", "retry");
    assert_eq!(text, format!("\u{feff}{expected}"));

    let copy = work.path().join("R005");
    fs::create_dir(&copy).unwrap();
    forms_of(&folder().join("R005").join("bad"), &copy);
    let before = fs::read(copy.join("wf.zip")).unwrap();
    let fixed = raymond::author::check::fix("wf.zip", Around::folder(&copy, Platform::Unix)).unwrap();
    assert!(matches!(fixed, Fixed::Not(_)), "{fixed:?}");
    assert_eq!(fs::read(copy.join("wf.zip")).unwrap(), before);
}
