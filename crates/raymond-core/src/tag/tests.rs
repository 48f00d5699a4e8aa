//! Tests of the reader and the collector together, as they are used.

use proptest::prelude::*;

use super::collector::MAX_SURPLUS_TAGS;
use super::reader::{Item, Scanner};
use super::*;
use crate::limits::{MAX_TAG_ATTRIBUTES, MAX_TAG_BYTES, MAX_TAGS_PER_STEP};

const MIB: usize = 1024 * 1024;

/// The result of a reader, for comparing.
type Outcome = (Vec<Tag>, Result<NearMisses, TagError>);

fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Outcome, u64) {
    let mut items = Vec::new();
    let mut scanner = Scanner::default();
    let mut sink = |item| items.push(item);
    let mut fed = Ok(());
    for piece in pieces {
        fed = fed.and_then(|()| scanner.feed(piece, &mut sink));
    }
    let finished = scanner.finish(&mut sink);
    assert!(fed.is_ok() || fed == finished, "a failed reader stays failed");
    let mut misses = NearMisses::default();
    let mut tags = Vec::new();
    for item in items {
        match item {
            Item::Tag(located) => tags.push(located.tag),
            Item::Missed(miss) => misses.note(miss),
        }
    }
    ((tags, finished.map(|()| misses)), scanner.work)
}

fn read(text: impl AsRef<[u8]>) -> Outcome {
    read_pieces([text.as_ref()]).0
}

/// The tags of a text, short: name, attributes as `name=value`, content.
fn short(text: impl AsRef<[u8]>) -> Vec<String> {
    let (tags, finished) = read(text);
    finished.expect("within bounds");
    let attributes = |tag: &Tag| -> String {
        tag.attributes.iter().map(|(name, value)| format!(" {name}={value}")).collect()
    };
    tags.iter().map(|tag| format!("{}{}|{}", tag.name, attributes(tag), tag.content)).collect()
}

fn near_miss(text: &str) -> String {
    let (_, finished) = read(text);
    finished.expect("within bounds").first.map_or_else(String::new, |near_miss| near_miss.to_string())
}

#[test]
fn tags_are_found_in_text() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        ("no tags, but a < b > c", &[]),
        ("<goto>A</goto>", &["goto|A"]),
        ("text<goto>A</goto>text<goto>B</goto>", &["goto|A", "goto|B"]),
        ("```\n<goto>A.md</goto>\n```\n", &["goto|A.md"]),
        ("<goto>\r\n A\r\n</goto>\r\n", &["goto|\r\n A\r\n"]),
        ("<goto\r\n\tinput = 'x'\r\n>A</goto>", &["goto input=x|A"]),
        ("<goto  >A</goto>", &["goto|A"]),
        ("<goto>A</goto", &[]),
        ("<goto>A</goto >", &["goto|A"]),
        ("<result>A</result\r\n\t>B</result>", &["result|A"]),
        ("<goto>A</goto x>", &[]),
        ("<goto>A</ goto>", &[]),
        ("<goto>A</goto                >", &["goto|A"]),
        ("<goto>A</goto                 >", &[]),
        ("<call-workflow return=\"R\">../x/</call-workflow>", &["call-workflow return=R|../x/"]),
        ("<call>A</call-workflow></call>", &["call|A</call-workflow>"]),
        ("<<goto>A</goto>", &["goto|A"]),
        ("<goto<goto>A</goto>", &["goto|A"]),
        ("<fork x='1' x='2'>A</fork>", &["fork x=1 x=2|A"]),
        ("<result></result>", &["result|"]),
        ("<print>p</print><join>J</join>", &["print|p", "join|J"]),
        ("\u{feff}<goto>A</goto>", &["goto|A"]),
    ];
    for (text, tags) in cases {
        assert_eq!(short(text), *tags, "{text}");
    }
}

#[test]
fn other_tags_are_text() {
    for text in
        ["<Goto>A</Goto>", "<gotos>A</gotos>", "<goto2>A</goto2>", "<goto_x>", "< goto>A</goto>", "<b>"]
    {
        assert_eq!(short(text), [""; 0], "{text}");
    }
    assert_eq!(short("<b><goto>A</goto></b>"), ["goto|A"]);
}

#[test]
fn attributes_are_decoded_once() {
    let cases = [
        (r#"a="x > y""#, "x > y"),
        (r#"a="<b>""#, "<b>"),
        (r#"a="it's""#, "it's"),
        (r#"a='say "hi"'"#, "say \"hi\""),
        (r#"a="&quot;&apos;&lt;&gt;&amp;""#, "\"'<>&"),
        (r#"a="&amp;lt;""#, "&lt;"),
        (r#"a="&nbsp; & &#65; &LT; &lt""#, "&nbsp; & &#65; &LT; &lt"),
        (r#"a="\n""#, "\\n"),
        ("a=\"x\r\ny\"", "x\r\ny"),
        ("a\n=\n'v'", "v"),
    ];
    for (written, value) in cases {
        assert_eq!(short(format!("<goto {written}>A</goto>")), [format!("goto a={value}|A")]);
    }
    let names = short("<fork _a='1' B-c.d='2'>W</fork>");
    assert_eq!(names, ["fork _a=1 B-c.d=2|W"]);
}

#[test]
fn content_runs_to_its_own_closing_tag() {
    let cases = [
        ("<result>use <goto>X</goto> next</result>", "result|use <goto>X</goto> next"),
        ("<result>a<result>b</result>", "result|a<result>b"),
        ("<result>a<goto input=\"</result>\">b", "result|a<goto input=\""),
        ("<result>a</resul</result>", "result|a</resul"),
        ("<result> &lt; </result>", "result| &lt; "),
    ];
    for (text, tag) in cases {
        assert_eq!(short(text), [tag], "{text}");
    }
}

#[test]
fn tags_that_are_never_closed_are_text() {
    let cases: &[(&str, &[&str])] = &[
        ("<result>abc <goto>X</goto>", &["goto|X"]),
        ("<result>abc <goto>X <call return='R'>Y</call>", &["call return=R|Y"]),
        ("<goto a=\"<goto>X</goto>", &["goto|X"]),
        ("<goto a='<result>\"</result>", &["result|\""]),
        // A complete opening tag without a closing tag is text as a whole: tags in its attribute values are not read.
        ("<goto a='<result>x</result>'>X", &[]),
        ("<result><result><result><goto>X</goto><result>", &["goto|X"]),
        ("<result><goto>A</goto><goto>", &["goto|A"]),
    ];
    for (text, tags) in cases {
        assert_eq!(short(text), *tags, "{text}");
    }
}

#[test]
fn malformed_opening_tags_are_text() {
    let cases: &[(&str, &[&str])] = &[
        ("<goto input=x>A</goto>", &[]),
        ("<result/><goto>A</goto>", &["goto|A"]),
        ("<result /><goto>A</goto>", &["goto|A"]),
        ("<goto a='1'b='2'>A</goto>", &[]),
        ("<goto x=<result>r</result>", &["result|r"]),
        ("<goto x=\"<result>r</result>\"!>", &["result|r"]),
        ("<goto 1='1'>A</goto>", &[]),
    ];
    for (text, tags) in cases {
        assert_eq!(short(text), *tags, "{text}");
    }
}

#[test]
fn the_first_near_miss_is_explained() {
    let cases = [
        ("fine <goto>A</goto> <b x=1>", ""),
        (
            "so: <goto input=x>A</goto> <result/>",
            "`<goto input=x>` looks like a tag, but attribute values need quotes: `name=\"value\"`",
        ),
        (
            "<goto input=x\n>A</goto>",
            "`<goto input=x` looks like a tag, but attribute values need quotes: `name=\"value\"`",
        ),
        (
            "<result/>",
            "`<result/>` looks like a tag, but a tag needs a closing tag of its own: `<result>…</result>`",
        ),
        ("<goto>A\nx", "`<goto>A` looks like a tag, but its closing tag `</goto>` is missing"),
        ("<GOTO>A</GOTO>", "`<GOTO>` looks like a tag, but tag names are lower case: `<goto>…</goto>`"),
        (
            "<goto now>A</goto>",
            "`<goto now>` looks like a tag, but its attribute `now` has no value: `now=\"value\"`",
        ),
        (
            "<goto a='\n",
            "`<goto a='` looks like a tag, but its opening tag has no end; a quote may be missing (one inside a value \
             is written `&quot;` or `&apos;`)",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(near_miss(text), message, "{text}");
    }
    let long = near_miss(&format!("<goto x={}", "é".repeat(100)));
    assert_eq!(
        long,
        format!(
            "`<goto x={}…` looks like a tag, but attribute values need quotes: `name=\"value\"`",
            "é".repeat(71)
        )
    );
}

#[test]
fn bytes_that_are_not_utf8_are_replaced() {
    assert_eq!(short(b"\xff\0<goto a='\xff\0'>A\xff\0\xc3</goto>"), ["goto a=��|A���"]);
    let text = "<result>grün</result>".as_bytes();
    let bytewise = read_pieces(text.chunks(1)).0;
    assert_eq!(bytewise, read(text));
    assert_eq!(short(text), ["result|grün"]);
    // Replacing makes text longer; it must not exceed the limit.
    let bad = [b"<result>".as_slice(), &vec![0xff; 3 * MIB], b"</result>"].concat();
    assert_eq!(read(bad).1, Err(too_long(TagName::Result)));
}

fn too_long(name: TagName) -> TagError {
    TagError::TooLong { name, limit: MAX_TAG_BYTES }
}

#[test]
fn content_may_be_exactly_as_long_as_the_limit() {
    for piece in [usize::MAX, 64 * 1024, 1_000_003] {
        let exact =
            [b"<result a='b'>".as_slice(), &vec![b'x'; MAX_TAG_BYTES], b"</result> <goto>A</goto>"].concat();
        let ((tags, finished), _) = read_pieces(exact.chunks(piece));
        assert_eq!((tags.len(), finished), (2, Ok(NearMisses::default())));
        assert_eq!(tags.first().map(|tag| tag.content.len()), Some(MAX_TAG_BYTES));

        let longer = [b"<result>".as_slice(), &vec![b'x'; MAX_TAG_BYTES + 1], b"</result>"].concat();
        assert_eq!(read_pieces(longer.chunks(piece)).0, (vec![], Err(too_long(TagName::Result))));

        let unclosed = longer.get(..longer.len() - 9).unwrap();
        assert_eq!(read_pieces(unclosed.chunks(piece)).0.1, Err(too_long(TagName::Result)));
        let unclosed = unclosed.get(..unclosed.len() - 1).unwrap();
        assert!(matches!(read_pieces(unclosed.chunks(piece)).0.1, Ok(NearMisses { first: Some(_), .. })));
    }
    assert_eq!(
        too_long(TagName::Result).to_string(),
        "a `<result>` tag runs past 8 MiB without its end `</result>`"
    );
}

#[test]
fn opening_tags_have_limits_too() {
    let value = [b"<goto a='".as_slice(), &vec![b'x'; MAX_TAG_BYTES - 11], b"'>A</goto>"].concat();
    assert_eq!(read(&value).0.len(), 1);
    let longer = [b"<goto a='".as_slice(), &vec![b'x'; MAX_TAG_BYTES - 10], b"'>A</goto>"].concat();
    for piece in [usize::MAX, 99_991] {
        assert_eq!(read_pieces(longer.chunks(piece)).0, (vec![], Err(too_long(TagName::Goto))));
    }
    let many = |count: usize| format!("<fork{}>W</fork>", " a=''".repeat(count));
    assert_eq!(short(many(MAX_TAG_ATTRIBUTES)).len(), 1);
    let error = TagError::TooManyAttributes { name: TagName::Fork, limit: MAX_TAG_ATTRIBUTES };
    assert_eq!(read(many(MAX_TAG_ATTRIBUTES + 1)).1, Err(error));
}

#[test]
fn only_a_possible_tag_is_buffered() {
    let mut reader = TagReader::new();
    let text = [vec![b'x'; MIB], b"a <b> < c <goto".to_vec(), vec![b'<'; MIB]].concat();
    reader.feed(&text, &mut |_| {}).unwrap();
    assert_eq!(reader.scanner.held, b"<");
    reader.feed(b"goto>", &mut |_| {}).unwrap();
    reader.feed(&text, &mut |_| {}).unwrap();
    assert_eq!(reader.scanner.held.len(), text.len() + 6);
    reader.feed(b"</goto>x", &mut |_| {}).unwrap();
    assert_eq!(reader.scanner.held.capacity(), 0);
}

/// Checks the work per byte, for the whole text at once and in pieces.
fn assert_linear(text: &[u8], factor: u64) {
    let (whole, work) = read_pieces([text]);
    assert!(work <= factor * text.len() as u64, "{work} for {}", text.len());
    let (pieces, work) = read_pieces(text.chunks(511));
    assert!(work <= factor * text.len() as u64, "{work} for {} in pieces", text.len());
    assert_eq!(pieces, whole);
}

#[test]
fn work_is_linear_in_unclosed_openers() {
    let all: String = TagName::ALL.iter().map(|name| format!("<{name}>")).collect();
    assert_linear(&all.as_bytes().repeat(4 * MIB / all.len()), 16);
    for unit in ["<result><goto><call>", "<result a='<goto>'>", "<result", "<", "<result>x</goto>"] {
        assert_linear(&unit.as_bytes().repeat(MIB / 4 / unit.len()), 16);
    }
}

#[test]
fn work_is_linear_in_malformed_openers() {
    let units =
        ["<goto a=", "<goto a='", "<goto a=\"<goto a='", "<goto ", "<goto a='\" ", "<goto a=\"' b='\" "];
    for unit in units {
        assert_linear(&unit.as_bytes().repeat(MIB / 4 / unit.len()), 8);
    }
    assert_linear(&[b"<result>".as_slice(), &vec![b'x'; 4 * MIB]].concat(), 3);
}

#[test]
fn work_is_linear_in_mixed_quotes() {
    // Two readings that both continue to the end, one outside of quotes where the other is inside.
    let text = format!("<goto a=\"<goto b='\" c='{}", " n=' n='".repeat(MIB));
    assert_linear(text.as_bytes(), 8);
    let text = format!("<goto a=\"<goto b='\" c='{}", " d=\"' e=\" f='\" g='".repeat(MIB / 4));
    assert_linear(text.as_bytes(), 8);
}

#[test]
fn prints_come_as_soon_as_they_are_complete() {
    let mut collector = TagCollector::new();
    let mut printed = Vec::new();
    collector.feed(b"<print>a</print><print>b</prin", &mut |text| printed.push(text)).unwrap();
    assert_eq!(printed, ["a"]);
    collector.feed(b"t><goto>A</goto>", &mut |text| printed.push(text)).unwrap();
    let collected = collector.finish(&mut |_| {}).unwrap();
    assert_eq!((printed.len(), collected.tags.len(), collected.total), (2, 1, 1));
}

fn collect(text: &str, times: usize) -> Result<Collected, TagError> {
    let mut collector = TagCollector::new();
    for _ in 0..times {
        collector.feed(text.as_bytes(), &mut |_| {})?;
    }
    collector.finish(&mut |_| {})
}

#[test]
fn surplus_tags_are_only_counted() {
    let collected = collect("<goto>A</goto>", 20_000).unwrap();
    assert_eq!((collected.tags.len(), collected.total), (MAX_SURPLUS_TAGS, 20_000));
    let big = format!("<result>{}</result>", "x".repeat(5 * MIB));
    let collected = collect(&big, 10).unwrap();
    assert_eq!((collected.tags.len(), collected.total), (6, 10));
}

#[test]
fn forks_have_limits() {
    let fork = "<fork next='N'>W</fork>";
    assert_eq!(collect(fork, MAX_TAGS_PER_STEP).unwrap().tags.len(), MAX_TAGS_PER_STEP);
    let error = collect(fork, MAX_TAGS_PER_STEP + 1).unwrap_err();
    assert_eq!(error.to_string(), "the output holds more than 10000 transition tags");
    let big = format!("<fork a='{}'>W</fork>", "x".repeat(5 * MIB));
    let error = collect(&big, 7).unwrap_err();
    assert_eq!(error.to_string(), "the transition tags of the output hold more than 32 MiB of text");
}

#[test]
fn messages_quote_tags_briefly() {
    let tag = |text: &str| read(text).0.pop().unwrap();
    assert_eq!(tag("<goto input='a \"b\"'>A\n</goto>").brief(), "<goto input=\"a &quot;b&quot;\">A </goto>");
    let long = tag(&format!("<fork a='{0}' b='{0}'>{0}</fork>", "y".repeat(1000))).brief();
    assert_eq!((long.chars().count(), long.ends_with("yy…")), (80, true));
}

/// Text made of pieces that often form tags or broken tags.
fn tag_like_text() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "<",
        ">",
        "/",
        "=",
        "\"",
        "'",
        " ",
        "\r\n",
        "&lt;",
        "&",
        "é",
        "\0",
        "x",
        "input",
        "goto",
        "result",
        "print",
        "<goto",
        "<goto>",
        "</goto>",
        "</goto",
        "</goto >",
        "<result>",
        "</result>",
        "</result \n",
        "<result a='",
        "<call return=\"",
        "\">",
        "'>",
        "</call>",
        "<call-workflow>",
        "<call>",
        "</call-workflow>",
        "<GOTO>",
        "<fork next='N'>W</fork>",
        "<result/>",
        "<print>",
        "</print>",
        "<ask next=\"N\">",
        "</ask>",
    ]);
    let piece = prop_oneof![
        8 => words.prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_result_does_not_depend_on_how_text_is_cut(text in tag_like_text(), size in 1_usize..20) {
        let whole = read(&text);
        for at in 0..=text.len() {
            let (before, after) = text.split_at(at);
            prop_assert_eq!(&read_pieces([before, after]).0, &whole);
        }
        prop_assert_eq!(&read_pieces(text.chunks(size)).0, &whole);
    }

    #[test]
    fn a_written_tag_is_read_back(
        name in prop::sample::select(TagName::ALL.to_vec()),
        attributes in prop::collection::vec(("[A-Za-z_][A-Za-z0-9_.-]{0,5}", "[^\0]{0,12}"), 0..4),
        content in "[^<\0]{0,20}",
        around in "[^<\0]{0,10}",
    ) {
        let tag = Tag { name, attributes, content };
        let (tags, finished) = read(format!("{around}{tag}{around}"));
        prop_assert_eq!(finished, Ok(NearMisses::default()));
        prop_assert_eq!(tags, vec![tag]);
    }

    #[test]
    fn work_grows_with_the_text(unit in tag_like_text()) {
        let text = unit.repeat(50);
        let (_, work) = read_pieces([text.as_slice()]);
        prop_assert!(work <= 40 * text.len() as u64 + 64, "{} for {}", work, text.len());
    }

    #[test]
    fn mixed_quotes_do_not_make_reading_slow(text in "(<goto| a=|\"|'| |=){0,60}") {
        let (_, work) = read_pieces([text.as_bytes()]);
        prop_assert!(work <= 5 * text.len() as u64, "{} for {}", work, text.len());
    }

    #[test]
    fn any_value_is_the_same_after_quoting(value in any::<String>()) {
        prop_assert_eq!(unescape_attribute(&escape_attribute(&value)), value);
    }
}
