use super::*;

fn batch(lines: &[&str]) -> Vec<u8> {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    check_lines(&lines, None).unwrap();
    encode_batch(&lines)
}

fn reader(bytes: &[u8], segment: u32) -> SegmentReader<&[u8]> {
    SegmentReader::new(bytes, Path::new("r.jsonl"), segment, Position::default())
}

type Outcome = (Vec<String>, Option<Torn>);

fn read(bytes: &[u8]) -> Result<Outcome, StoreError> {
    let mut reader = reader(bytes, 0);
    let mut texts = Vec::new();
    while let Some(lines) = reader.next_batch()? {
        assert!(lines.last().unwrap().ends_batch);
        texts.extend(lines.into_iter().map(|line| line.text));
    }
    Ok((texts, reader.torn()))
}

fn damage(bytes: &[u8]) -> (u64, String) {
    match read(bytes) {
        Err(StoreError::Damaged { line, what, .. }) => (line, what),
        other => panic!("expected damage, got {other:?}"),
    }
}

const ONE: &str = r#"{"seq":1,"event":"run_started","é":"\u0000"}"#;
const TWO: &str = r#"{"seq":2,"event":"a"}"#;
const THREE: &str = r#"{"seq":3,"event":"b","text":"x"}"#;
const FOUR: &str = r#"{"seq":4,"event":"c"}"#;

fn sample() -> (Vec<Vec<u8>>, Vec<u8>) {
    let batches = vec![batch(&[ONE]), batch(&[TWO, THREE]), batch(&[FOUR])];
    let all = batches.concat();
    (batches, all)
}

#[test]
fn a_batch_is_lines_with_one_mark_that_stay_json() {
    let bytes = batch(&[TWO, THREE]);
    let text = String::from_utf8(bytes.clone()).unwrap();
    let crc = crc32fast::hash(format!("{TWO}\n{}", &THREE[..THREE.len() - 1]).as_bytes());
    assert!(text.ends_with(&format!(",\"commit\":\"{crc:08x}\"}}\n")), "{text}");
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert_eq!(read(&bytes).unwrap(), (vec![TWO.to_owned(), THREE.to_owned()], None));
}

/// A reader would take such a line for the end of a batch in which a byte has changed.
#[test]
fn a_line_that_ends_like_a_batch_is_not_written_within_one() {
    let head = "{\"seq\":1,\"message\":\"";
    let filler = "x".repeat(MARK_START.len());
    let line = |digits: &str| format!("{head}{filler}{digits}{}", std::str::from_utf8(MARK_END).unwrap());
    let digits = format!("{:08x}", crc32fast::hash(head.as_bytes()));
    let next = "{\"seq\":2}".to_owned();
    assert!(check_lines(&[line("00000000"), next.clone()], None).is_ok());
    assert!(check_lines(&[line(&digits), next], None).is_err());
    assert!(check_lines(&[line(&digits)], None).is_ok(), "behind the last line stands its real mark");
}

#[test]
fn lines_a_reader_would_refuse_are_not_written() {
    let refuse = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        check_lines(&lines, Some(1)).unwrap_err()
    };
    assert!(refuse(&[]).contains("needs a line"));
    assert!(refuse(&["{}"]).contains("not empty"));
    assert!(refuse(&["{ }"]).contains("not empty"));
    assert!(refuse(&["[1]"]).contains("object"));
    assert!(refuse(&["{\"a\":\n1}"]).contains("line break"));
    assert!(refuse(&["{\"a\":\"\0\"}"]).contains("JSON"));
    assert!(refuse(&["{\"a\":1} "]).contains("object"));
    assert!(refuse(&["{\"a\":1}{\"b\":1}"]).contains("JSON"));
    assert!(refuse(&["{\"a\":1,\"commit\":\"00000000\"}"]).contains("commit"));
    assert!(refuse(&["{\"commit\":\"00000000\",\"a\":1}"]).contains("commit"));
    assert!(refuse(&["{\"seq\":1}"]).contains("seq"));
    assert!(refuse(&["{\"seq\":3}", "{\"seq\":2}"]).contains("seq"));
}

#[test]
fn cut_at_every_byte_gives_the_whole_batches_before() {
    let (batches, all) = sample();
    let ends: Vec<usize> = batches
        .iter()
        .scan(0, |end, batch| {
            *end += batch.len();
            Some(*end)
        })
        .collect();
    let texts = [ONE, TWO, THREE, FOUR];
    let lines_after = [1, 3, 4];
    for cut in 0..=all.len() {
        // A batch is whole without its last line break.
        let whole = ends.iter().filter(|end| **end - 1 <= cut).count();
        let offset = if whole == 0 { 0 } else { ends[whole - 1].min(cut) };
        let expected = if whole == 0 { 0 } else { lines_after[whole - 1] };
        let (lines, torn) = read(&all[..cut]).unwrap();
        assert_eq!(lines, &texts[..expected]);
        let bytes = (cut - offset) as u64;
        assert_eq!(torn, (bytes > 0).then_some(Torn { offset: offset as u64, bytes }), "cut {cut}");
    }
}

#[test]
fn every_changed_byte_is_damage_or_a_zero_in_the_last_batch() {
    let (batches, all) = sample();
    let last_start = all.len() - batches[2].len();
    for place in 0..all.len() {
        for change in 1..=255u8 {
            let mut bytes = all.clone();
            bytes[place] ^= change;
            match read(&bytes) {
                Err(StoreError::Damaged { .. }) => {}
                Ok((lines, torn)) => {
                    assert_eq!(bytes[place], 0, "place {place} change {change}");
                    assert!(place >= last_start);
                    assert_eq!(lines, [ONE, TWO, THREE]);
                    assert_eq!(torn.unwrap().offset, last_start as u64);
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn zeros_at_the_end_are_torn_wherever_they_begin() {
    let (batches, all) = sample();
    let last_start = all.len() - batches[2].len();
    for start in last_start..all.len() {
        let mut bytes = all.clone();
        bytes[start..].fill(0);
        let (lines, torn) = read(&bytes).unwrap();
        assert_eq!(lines.len(), 3);
        let bytes = (all.len() - last_start) as u64;
        assert_eq!(torn, Some(Torn { offset: last_start as u64, bytes }));
    }
}

#[test]
fn zeros_inside_the_last_batch_are_torn_though_its_mark_arrived() {
    let mut bytes = batch(&[ONE]);
    let whole = bytes.len();
    bytes.extend(batch(&[TWO, THREE, FOUR]));
    bytes[whole + 5..whole + 30].fill(0);
    let (lines, torn) = read(&bytes).unwrap();
    assert_eq!(lines, [ONE]);
    assert_eq!(torn, Some(Torn { offset: whole as u64, bytes: (bytes.len() - whole) as u64 }));
}

#[test]
fn zeros_before_something_whole_are_damage() {
    let (batches, all) = sample();
    for start in 0..all.len() - batches[2].len() {
        let mut bytes = all.clone();
        let end = all.len() - batches[2].len();
        bytes[start..end].fill(0);
        damage(&bytes);
    }
    let mut padded = all.clone();
    padded.extend([0; 512]);
    padded.push(b'\n');
    assert_eq!(read(&padded).unwrap().1.unwrap().bytes, 513);
    padded.extend(batch(&["{\"seq\":5}"]));
    assert_eq!(damage(&padded), (5, "this line holds zero bytes".to_owned()));
}

#[test]
fn damage_is_told_with_its_line() {
    let (_, mut all) = sample();
    all.extend(b"oops\n");
    assert_eq!(damage(&all).0, 5);
    let (_, mut all) = sample();
    all.extend(b"{\"a\":\"\xff\"}\n");
    assert_eq!(damage(&all), (5, "this is not UTF-8".to_owned()));
    let (batches, _) = sample();
    let without_middle_line = [&batches[0][..], &batches[1][TWO.len() + 1..]].concat();
    assert_eq!(damage(&without_middle_line), (2, "the checksum does not match".to_owned()));
    let changed = String::from_utf8(batches.concat()).unwrap().replace("\"x\"", "\"y\"");
    assert_eq!(damage(changed.as_bytes()), (3, "the checksum of lines 2 to 3 does not match".to_owned()));
}

/// What editors and other tools make of a journal. The last batch is never taken for a torn tail.
#[test]
fn a_rewritten_journal_is_damage_in_every_line_that_has_a_mark() {
    type Rewrite = fn(&str) -> String;
    let rewritten: [(&str, Rewrite); 8] = [
        ("CRLF", |text| text.replace('\n', "\r\n")),
        ("CR", |text| text.replace('\n', "\r")),
        ("trailing blank", |text| text.replace('\n', " \n")),
        ("trailing tab without a line break", |text| format!("{}\t", text.trim_end())),
        ("blank without a line break", |text| format!("{} ", text.trim_end())),
        ("blank behind colons", |text| text.replace("\":", "\": ")),
        ("blank before the end", |text| text.replace("}\n", " }\n")),
        ("other order of the fields", |text| {
            let sorted = |line: &str| {
                let fields: std::collections::BTreeMap<String, serde_json::Value> =
                    serde_json::from_str(line).unwrap();
                serde_json::to_string(&fields).unwrap() + "\n"
            };
            text.lines().map(sorted).collect()
        }),
    ];
    let batches = [batch(&[ONE]), batch(&[TWO]), batch(&[THREE])];
    for (name, rewrite) in rewritten {
        for from in 0..batches.len() {
            let changed = rewrite(std::str::from_utf8(&batches[from..].concat()).unwrap());
            let bytes = [&batches[..from].concat()[..], changed.as_bytes()].concat();
            let found = read(&bytes);
            let Err(StoreError::Damaged { .. }) = found else { panic!("{name} from {from}: {found:?}") };
        }
    }
}

#[test]
fn a_commit_field_inside_another_object_is_no_mark() {
    let fork = r#"{"seq":5,"event":"agent_started","attributes":{"branch":"b","commit":"deadbeef"},"x":1}"#;
    let (_, mut all) = sample();
    let whole = all.len();
    all.extend(batch(&[fork]));
    assert_eq!(read(&all).unwrap().0.len(), 5);
    for cut in whole + 1..all.len() - 1 {
        assert_eq!(read(&all[..cut]).unwrap().1.unwrap().offset, whole as u64, "cut {cut}");
    }
}

#[test]
fn a_line_break_that_arrives_late_is_passed_over() {
    let (_, all) = sample();
    let without = &all[..all.len() - 1];
    let mut first = reader(without, 0);
    while first.next_batch().unwrap().is_some() {}
    assert_eq!(first.torn(), None);
    let position = first.position();
    assert_eq!(position.offset, without.len() as u64);
    let grown = [&all[..], &batch(&[r#"{"seq":5,"event":"d"}"#])].concat();
    let rest = &grown[position.offset as usize..];
    let mut second = SegmentReader::new(rest, Path::new("r.jsonl"), 0, position);
    assert_eq!(second.next_batch().unwrap().unwrap()[0].number, 5);
    assert_eq!(second.position().offset, grown.len() as u64);
}

#[test]
fn a_repeated_or_lost_batch_is_damage() {
    let (batches, _) = sample();
    let repeated = [&batches[0][..], &batches[1], &batches[1]].concat();
    let (line, what) = damage(&repeated);
    assert_eq!(line, 4);
    assert!(what.contains("seq is 2 where more than 3"), "{what}");
}

#[test]
fn a_later_segment_begins_with_a_snapshot() {
    let snapshot = r#"{"event":"snapshot","seq":4}"#;
    let good = [batch(&[snapshot]), batch(&["{\"seq\":5}"])].concat();
    let mut segment = reader(&good, 1);
    assert_eq!(segment.next_batch().unwrap().unwrap()[0].text, snapshot);
    assert!(segment.next_batch().unwrap().is_some());
    assert!(segment.next_batch().unwrap().is_none());
    for bad in [batch(&[TWO]), batch(&[snapshot, "{\"seq\":5}"]), Vec::new(), good[..10].to_vec(), vec![0; 9]]
    {
        let result = reader(&bad, 1).next_batch();
        assert!(matches!(result, Err(StoreError::Damaged { line: 1, .. })), "{bad:?}");
    }
}

#[test]
fn a_line_beyond_the_bound_is_damage_and_not_read_whole() {
    let (_, mut all) = sample();
    all.extend([b'x'; 200]);
    let mut segment = reader(&all, 0);
    segment.max_line = 100;
    for _ in 0..3 {
        assert!(segment.next_batch().unwrap().is_some());
    }
    let error = segment.next_batch().unwrap_err().to_string();
    assert!(error.contains("line 5: this line is longer"), "{error}");
}

#[test]
fn reading_goes_on_from_a_position() {
    let (_, all) = sample();
    let mut first = reader(&all, 0);
    first.next_batch().unwrap();
    let position = first.position();
    let rest = &all[position.offset as usize..];
    let mut second = SegmentReader::new(rest, Path::new("r.jsonl"), 0, position);
    let lines = second.next_batch().unwrap().unwrap();
    assert_eq!((lines[0].number, lines[0].text.as_str()), (2, TWO));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(0u8..128, 0..300)) {
        let _ = read(&bytes);
        let (_, mut all) = sample();
        all.extend(&bytes);
        if let Ok((lines, _)) = read(&all) {
            assert_eq!(lines, [ONE, TWO, THREE, FOUR]);
        }
    }
}
