use std::fs;

use proptest::prelude::*;

use super::from_yaml::to_files;
use super::to_yaml::to_yaml;
use super::zipped::zip;
use super::*;
use crate::paths::is_special_on_windows;
use crate::workflow::scope::{parse_one_file, unpack};

fn files(entries: &[(&str, &str)]) -> Files {
    entries.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
}

#[test]
fn one_file_is_what_a_person_would_write() {
    let folder = files(&[
        ("workflow.yaml", "# Demo\nname: Demo\nbackend: scripted\n"),
        (
            "START.md",
            "---\n# Cheap is enough.\nmodel: haiku\nallowed_transitions:\n  - { tag: goto, target: BUILD }\n---\nPlan it.\n",
        ),
        ("BUILD.sh", "#!/bin/bash\n# raymond: retry=2\necho '<result>ok</result>'\n"),
        ("BUILD.bat", "@echo ^<result^>ok^</result^>"),
        ("replies.yaml", "START: <goto>BUILD</goto>\n"),
    ]);
    let yaml = to_yaml(&folder).unwrap();
    let expected = r"# Demo
name: Demo
backend: scripted
states:
  BUILD:
    bat: |-
      @echo ^<result^>ok^</result^>
    sh: |
      #!/bin/bash
      # raymond: retry=2
      echo '<result>ok</result>'
  START:
    # Cheap is enough.
    model: haiku
    allowed_transitions:
      - { tag: goto, target: BUILD }
    prompt: |
      Plan it.
files:
  replies.yaml: |
    START: <goto>BUILD</goto>
";
    assert_eq!(yaml, expected);
    assert_eq!(to_files(&yaml).unwrap(), folder);
}

#[test]
fn what_cannot_stand_among_the_states_is_kept_whole() {
    let folder = files(&[
        ("START.md", "---\r\nmodel: haiku\r\n---\r\nPlan.\r\n"),
        ("EMPTY.md", "---\n---\nx"),
        ("BOTH.md", "a prompt"),
        ("BOTH.py", "a script"),
        ("A.bat", "1"),
        ("A.foo.md", "2"),
        ("A.sh", "3"),
        ("X.sh.md", "named like a file"),
        ("workflow.yaml", "{ id: x }"),
        ("notes", ""),
    ]);
    let yaml = to_yaml(&folder).unwrap();
    assert_eq!(to_files(&yaml).unwrap(), folder, "{yaml}");
    let contents = parse_one_file(&yaml).unwrap();
    assert_eq!(contents.manifest.id.as_deref(), Some("x"));
    let states: Vec<String> = contents.states.keys().map(|state| state.as_str().to_owned()).collect();
    assert_eq!(states, ["A.bat", "A.foo.md", "A.sh", "BOTH.md"]);
    assert_eq!(contents.listing.states().count(), 8);
}

#[test]
fn keys_become_blocks_and_headers() {
    let yaml = "states:\n  A: { prompt: 'x', model: opus, max_visits: 3 }\n  B:\n    sh: |\n      #!/bin/bash\n      true\n    bat: rem\n    \
                js: '1'\n    retry: 3\n    timeout: 5s\n  C:\n    prompt: |\n      ---\n      not settings\nname: Late\n";
    let back = to_files(yaml).unwrap();
    let expected = files(&[
        ("A.md", "---\nmodel: \"opus\"\nmax_visits: 3\n---\nx"),
        ("B.sh", "#!/bin/bash\n# raymond: retry=3 timeout=5s\ntrue\n"),
        ("B.bat", "@REM raymond: retry=3 timeout=5s\nrem"),
        ("B.js", "// raymond: retry=3 timeout=5s\n1"),
        ("C.md", "---\n---\n---\nnot settings\n"),
        ("workflow.yaml", "name: \"Late\"\n"),
    ]);
    assert_eq!(back, expected);
}

#[test]
fn all_forms_on_disk() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("wf/.git")).unwrap();
    fs::write(at("wf/START.sh"), "echo '<result>1</result>'").unwrap();
    fs::write(at("wf/logo"), [0, 159, 255]).unwrap();
    let original = disk::read_folder(&at("wf")).unwrap();
    for (from, to) in [("wf", "wf.zip"), ("wf.zip", "wf.yaml"), ("wf.yaml", "back"), ("back", "two.yml")] {
        assert_eq!(convert(&at(from), &at(to), false, false).unwrap(), 2, "{from} to {to}");
    }
    assert_eq!(disk::read_folder(&at("back")).unwrap(), original);
    assert_eq!(fs::read(at("wf.yaml")).unwrap(), fs::read(at("two.yml")).unwrap());

    let refused =
        |from: &str, to: &str, force| convert(&at(from), &at(to), force, false).unwrap_err().message;
    assert!(refused("wf", "wf.zip", false).ends_with("wf.zip is there already"));
    assert!(refused("wf", "wf", true).contains("holds folders"));
    assert!(refused("none", "x", false).contains("is not a workflow"));
    fs::write(at("back/stale.sh"), "old").unwrap();
    convert(&at("wf.zip"), &at("back"), true, false).unwrap();
    assert_eq!(disk::read_folder(&at("back")).unwrap(), original, "what is replaced leaves nothing behind");
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 5, "{left:?}");
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "(1_START|START|A|B|A\\.x|true|12|Ü b)\\.(md|sh|bat|ps1|py|js)",
        "[#' -]?xx[a-z#:' -]{0,5}y(\\.(txt|yaml|png|md\\.orig))?",
        "\\.hidden",
    ]
    .prop_filter("files can have this name here", |name| !cfg!(windows) || !is_special_on_windows(name))
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let prompt = (
        prop_oneof![
            "model: [a-z]{1,5}\n",
            "(# c\n|\n|  \n)?effort: low # why\n(\n|# end\n)?",
            "[a-z{:\\[ ]{0,9}\n"
        ],
        "(?s).{0,30}",
    );
    let line_end = prop_oneof![Just("\n"), Just("\r\n")];
    prop_oneof![
        "(?s).{0,60}".prop_map(String::into_bytes),
        "( {0,2}(a|#|-|\t|:|'|\"|---)?\n){0,6}(x|---)?".prop_map(String::into_bytes),
        (prompt, line_end).prop_map(|((settings, body), end)| {
            format!("---\n{settings}---\n{body}").replace('\n', end).into_bytes()
        }),
        "# raymond: retry=[0-9]\n.{0,20}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn workflow() -> impl Strategy<Value = Files> {
    let manifest = prop_oneof![
        Just(None),
        "(# a\n)?(name: x\n)?(\n|# b)?(input: \\{mode: none\\}\n)?".prop_map(|text| Some(text.into_bytes())),
        "\\{ id: x \\}".prop_map(|text| Some(text.into_bytes())),
    ];
    (prop::collection::btree_map(name(), content(), 0..6), content(), manifest).prop_map(
        |(mut files, start, manifest)| {
            files.insert("START.md".to_owned(), start);
            files.extend(manifest.map(|text| ("workflow.yaml".to_owned(), text)));
            files
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4_000 }))]

    #[test]
    fn nothing_is_lost_in_any_form(files in workflow()) {
        let zipped = zip(&files).unwrap();
        prop_assert_eq!(&unpack(&zipped).unwrap(), &files);
        let yaml = to_yaml(&files);
        prop_assert!(yaml.is_ok(), "{:?}", yaml);
        prop_assert_eq!(&to_files(&yaml.unwrap()).unwrap(), &files);
    }

    /// A one-file workflow means the same after it was converted to a folder and back, though it may look different.
    #[test]
    fn one_files_keep_their_meaning(
        prompt in "(?s)(---\n)?.{0,30}", script in "(#!/bin/bash\n|#.*\n)?.{0,20}", retry in 0..5, model in "[a-z]{1,4}"
    ) {
        let yaml = format!(
            "name: \"x\"\nstates:\n  A: {{ model: \"{model}\", prompt: {} }}\n  B:\n    py: {}\n    retry: {retry}\n",
            crate::workflow::yaml_text::quoted(&prompt),
            crate::workflow::yaml_text::quoted(&script),
        );
        let files = to_files(&yaml).unwrap();
        let text = std::str::from_utf8(&files["A.md"]).unwrap();
        let parts = raymond_core::frontmatter::split_and_parse(text).unwrap();
        prop_assert_eq!((parts.settings.model.as_deref(), parts.body), (Some(model.as_str()), prompt.as_str()));
        let text = std::str::from_utf8(&files["B.py"]).unwrap();
        let kind = raymond_core::workflow::Kind::Python;
        prop_assert_eq!(i64::from(raymond_core::header::parse(kind, text).unwrap().0.retry), i64::from(retry));
        prop_assert_eq!(to_files(&to_yaml(&files).unwrap()).unwrap(), files);
    }
}

#[cfg(unix)]
#[test]
fn what_is_neither_a_file_nor_a_folder_is_never_replaced() {
    use std::os::unix::fs::{FileTypeExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("wf");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("START.md"), "Hello.\n").unwrap();
    let kind = |path: &Path| fs::symlink_metadata(path).unwrap().file_type();
    for suffix in ["", ".zip", ".yaml"] {
        let socket = folder.path().join(format!("socket{suffix}"));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let link = folder.path().join(format!("link{suffix}"));
        symlink("/dev/null", &link).unwrap();
        for force in [false, true] {
            for to in [&socket, &link] {
                let error = convert(&from, to, force, false).unwrap_err();
                assert_eq!(error.exit, crate::error::ExitKind::Usage);
                assert!(error.message.contains("neither a plain file nor a folder"), "{}", error.message);
            }
        }
        assert!(kind(&socket).is_socket() && kind(&link).is_symlink(), "{suffix}");
    }
    let old = folder.path().join("old");
    fs::write(&old, "").unwrap();
    convert(&from, &old, true, false).unwrap();
    assert!(kind(&old).is_dir());
}
