//! Real output from programs and container runtimes, with the expected events.

use millstream_framing::{
    Close, Container, Event, EventBuffer, Framed, Framer, HEAD_BYTES, Input, Multiline, Preset,
    Rules, Spec, Start, TIME_UNKNOWN, Tally, TimeSpec,
};

/// The result of framing: the events, their text, the number of bytes consumed, and the counts.
struct Got {
    events: Vec<Event>,
    texts: Vec<String>,
    framed: Framed,
    tally: Tally,
}

fn frame(spec: &Spec, raw: &[u8], close: Close) -> Got {
    let mut framer = Framer::new(Rules::new(spec).unwrap().into());
    framer.detect(&raw[..raw.len().min(HEAD_BYTES)], true);
    let mut out = vec![0; raw.len() * framer.expansion() + 16];
    let mut found = EventBuffer::default();
    let framed =
        framer.frame(Input { raw, close, rows_max: 1000, reference_ns: 0 }, &mut out, &mut found);
    let text = if framer.is_decoding() { &out } else { raw };
    let texts = found.events.iter().map(|e| &text[e.start as usize..e.end as usize]);
    let texts = texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    Got { texts, events: found.events, framed, tally: found.tally }
}

fn texts(spec: &Spec, raw: &str) -> Vec<String> {
    frame(spec, raw.as_bytes(), Close::All).texts
}

fn with_multiline(multiline: Multiline) -> Spec {
    Spec { multiline: Some(multiline), ..Spec::default() }
}

fn preset(preset: Preset) -> Spec {
    with_multiline(Multiline { preset: Some(preset), ..Multiline::default() })
}

fn regex(pattern: &str) -> Multiline {
    Multiline { start: Some(Start::Regex), pattern: Some(pattern.into()), ..Multiline::default() }
}

fn timestamp(format: &str, after: Option<&str>) -> Multiline {
    let time = TimeSpec {
        formats: vec![format.into()],
        after: after.map(str::to_owned),
        ..TimeSpec::default()
    };
    Multiline { start: Some(Start::Timestamp), time: Some(time), ..Multiline::default() }
}

/// Asserts that the events are the parts of `parts`. Lines of `%%` separate the parts.
fn assert_parts(spec: &Spec, parts: &str) {
    let expected: Vec<&str> = parts.split("%%\n").collect();
    let got = texts(spec, &expected.concat());
    assert_eq!(
        got,
        expected.iter().map(|part| part.strip_suffix('\n').unwrap_or(part)).collect::<Vec<_>>()
    );
}

#[test]
fn an_entry_of_the_mysql_slow_log_is_one_event() {
    let parts = "\
/usr/sbin/mysqld, Version: 8.0.36 (MySQL Community Server - GPL). started with:
Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock
Time                 Id Command    Argument
%%
# Time: 2026-11-21T20:29:46.123456Z
# User@Host: root[root] @  [192.0.2.37]  Id:  7234
# Query_time: 15.000182  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 1
SET timestamp=1533630467;
select sleep(15);
%%
# User@Host: app[app] @  [192.0.2.38]  Id:  7235
SET timestamp=1533630467;
select 1;
%%
# Time: 2026-11-21T20:29:47.000000Z
%%
# Time: 2026-11-21T20:29:48.000000Z
# User@Host: app[app] @  [192.0.2.38]  Id:  7235
%%
# User@Host: app[app] @  [192.0.2.38]  Id:  7236
";
    for pattern in ["^# (Time|User@Host):", "^# Time:|^# User@Host:", "^# [TU]"] {
        assert_parts(&with_multiline(regex(pattern)), parts);
    }
}

#[test]
fn a_recovered_go_panic_is_one_event() {
    let parts = "\
2026/11/21 20:29:46 listening
%%
2026/11/21 20:29:47 http: panic serving 127.0.0.1:50123: boom
goroutine 18 [running]:
net/http.(*conn).serve.func1()
\t/usr/local/go/src/net/http/server.go:1947 +0xbe
panic({0x6a1b40?, 0x7b5f10?})
\t/usr/local/go/src/runtime/panic.go:785 +0x132
created by net/http.(*Server).Serve in goroutine 1
\t/usr/local/go/src/net/http/server.go:3360 +0x485
%%
2026/11/21 20:29:48 next
%%
panic: boom [recovered]
\tpanic: again

goroutine 1 [running]:
main.main.func1()
\t/app/main.go:9 +0x45
exit status 2
%%
2026/11/21 20:29:49 done
";
    assert_parts(&preset(Preset::Go), parts);
}

#[test]
fn a_java_stack_trace_is_one_event() {
    let parts = "\
2026-11-21 20:29:46 INFO Main - up
%%
2026-11-21 20:29:47 ERROR Main - failed
\tat com.example.Main.run(Main.java:12)
%%
java.lang.IllegalStateException: no
\tat com.example.Store.get(Store.java:40)
\tat com.example.Main.main(Main.java:7)
\tSuppressed: java.io.IOException: closed
\t\tat com.example.Store.close(Store.java:50)
Caused by: java.sql.SQLException: gone
\tat com.example.Db.query(Db.java:90)
\t... 12 more
... 3 common frames omitted
%%
Causes are not always causes
%%
... and so on
";
    assert_parts(&preset(Preset::Java), parts);
}

/// Some loggers print an exception unindented after its log entry.
#[test]
fn a_java_exception_joins_the_preceding_log_entry() {
    let parts = "\
2026-11-21 20:29:46 INFO Main - up
%%
2026-11-21 20:29:47 ERROR Main - no such order
java.lang.IllegalStateException: 17
\tat com.example.Orders.get(Orders.java:40)
Caused by: com.example.Store$GoneException
\tat com.example.Store.get(Store.java:7)
\t... 2 more
%%
2026-11-21 20:29:48 WARN Main - out of memory
java.lang.OutOfMemoryError
%%
java.lang.IllegalStateException: of another entry
\tat com.example.Orders.get(Orders.java:40)
%%
com.example.Late.Exception. it is no name
Caused by: java.io.IOException: closed
\t... 2 more
%%
Error: no package
%%
java.io.IOException:8080 is a port
";
    assert_parts(&preset(Preset::Java), parts);
}

#[test]
fn chained_python_tracebacks_are_one_event() {
    let parts = "\
INFO:root:it runs
%%
Traceback (most recent call last):
  File \"a.py\", line 2, in <module>
    x = {}[1]
        ~~^^^
KeyError: 1

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File \"a.py\", line 4, in <module>
    raise ValueError(\"bad\") from None
ValueError: bad
%%
INFO:root:next
%%
Traceback (most recent call last):
  File \"b.py\", line 1
    x ==
       ^
SyntaxError: invalid syntax
%%
  + Exception Group Traceback (most recent call last):
  |   File \"c.py\", line 1, in <module>
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +------------------------------------
%%
INFO:root:last
";
    assert_parts(&preset(Preset::Python), parts);
}

#[test]
fn a_python_traceback_belongs_to_the_error_before_it() {
    let parts = "\
INFO:root:no error
%%
Traceback (most recent call last):
  File \"a.py\", line 2, in <module>
KeyError: 1
%%
ERROR:root:it failed

at last
Traceback (most recent call last):
  File \"a.py\", line 2, in <module>
KeyError: 1
%%
Traceback (most recent call last):
  File \"a.py\", line 2, in <module>
KeyError: 2
";
    assert_parts(&preset(Preset::Python), parts);
}

#[test]
fn text_without_indentation_is_limited() {
    let python = "Traceback (most recent call last):\n  File \"a.py\", line 2\nKeyError: 1";
    let java = "java.io.IOException: 1";
    // In Python, the line that names the exception counts as the first line of the text.
    for (name, head, lines) in [(Preset::Python, python, 19), (Preset::Java, java, 20)] {
        let text = ["line"; 30].join("\n");
        let got = texts(&preset(name), &format!("{head}\n{text}\n"));
        assert_eq!(got.len(), 1 + 30 - lines, "{name:?}");
        assert_eq!(got[0], format!("{head}\n{}", ["line"; 30][..lines].join("\n")));
        let text = ["line\n\n indented"; 30].join("\n");
        let indented = format!("{head}\n{text}");
        assert_eq!(texts(&preset(name), &indented), [indented.as_str()], "{name:?}");
    }
}

#[test]
fn a_go_panic_and_its_goroutines_are_one_event() {
    let parts = "\
2026/11/21 20:29:46 listening
%%
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x46a1c1]

goroutine 1 [running]:
main.(*Server).handle(0x0, {0xc000012345, 0x4})
\t/src/main.go:12 +0x1d
main.main()
\t/src/main.go:7 +0x25

goroutine 18 [chan receive, 2 minutes]:
created by main.main in goroutine 1
\t/src/main.go:6 +0x1a
exit status 2
%%
2026/11/21 20:29:50 listening (again)
%%
fatal error: all goroutines are asleep - deadlock!

goroutine 1 [chan receive]:
main.main()
\t/src/main.go:4 +0x28
%%
panic: second

goroutine 1 [running]:
main.main()
\t/src/main.go:4 +0x28

rip    0x46a1c1
%%
done
";
    assert_parts(&preset(Preset::Go), parts);
}

#[test]
fn a_multi_line_json_object_is_one_event() {
    let parts = "\
{\"a\": 1}
%%
{
  \"text\": \"a } that \\\" closes nothing {\",
  \"list\": [
    1,

    {\"b\": []}
  ]
}
%%
no object
%%
[
1
]
";
    let spec = preset(Preset::Json);
    assert_parts(&spec, parts);
    assert_eq!(frame(&spec, b"{\n}\nno object\n", Close::All).tally.misfits, 1);
    // A closed object is returned immediately.
    assert_eq!(frame(&spec, b"{\n}\n{\n", Close::No).texts, ["{\n}"]);
    assert_eq!(frame(&spec, b"{\n}\n", Close::No).framed.used, 4);
}

#[test]
fn an_event_has_the_time_of_its_first_line() {
    let spec = with_multiline(timestamp("%Y-%m-%d %H:%M:%S", Some("[")));
    let raw = "lost\nINFO [2000-02-29 12:34:56] a\n  b\n\n[2000-02-29 12:34:57] c\n";
    let got = frame(&spec, raw.as_bytes(), Close::All);
    assert_eq!(
        got.texts,
        ["lost", "INFO [2000-02-29 12:34:56] a\n  b\n", "[2000-02-29 12:34:57] c"]
    );
    let times: Vec<i64> = got.events.iter().map(|event| event.time_ns).collect();
    assert_eq!(times, [TIME_UNKNOWN, 951_827_696_000_000_000, 951_827_697_000_000_000]);
    assert_eq!(got.tally, Tally { misfits: 1, ..Tally::default() });
}

#[test]
fn regular_expressions_start_continue_and_end_events() {
    let end = Multiline { end: Some("^END".into()), ..regex("^BEGIN") };
    assert_parts(
        &with_multiline(end),
        "out\n%%\nBEGIN\na\n\nEND\n%%\nout\n%%\nout\n%%\nBEGIN\n%%\nBEGIN END\nEND\n",
    );
    let more = Multiline { more: Some("^\\+".into()), ..regex("^\\d") };
    assert_parts(&with_multiline(more), "1\n+a\n+b\n%%\nout\n%%\n+c\n+d\n%%\n2\n\n%%\nout\n");
    let alone = Multiline { more: Some(r"^\s|^and".into()), ..Multiline::default() };
    assert_parts(&with_multiline(alone), "a\n b\nand c\n%%\nd\n");
    let end = Multiline { end: Some(";$".into()), ..Multiline::default() };
    assert_parts(&with_multiline(end), "select\n1;\n%%\nselect 2;\n%%\nselect\n\n");
    let indentation = Multiline { start: Some(Start::Indentation), ..Multiline::default() };
    assert_parts(&with_multiline(indentation), "a:\n  b\n\tc\n\n%%\nd\n");
}

#[test]
fn events_are_cut_at_the_limits() {
    let spec = with_multiline(Multiline { lines_max: 2, ..regex("^a") });
    let got = frame(&spec, b"a\n1\n2\n3\n4\na\n", Close::All);
    assert_eq!(got.texts, ["a\n1", "2\n3", "4", "a"]);
    assert_eq!(got.tally, Tally { misfits: 2, cut: 2, broken: 0 });
    let spec = Spec { bytes_max: 5, ..with_multiline(regex("^a")) };
    let got = frame(&spec, b"a\n123\n4\na long line\n5\r\n6", Close::All);
    assert_eq!(got.texts, ["a\n123", "4", "a long line", "5\r\n6"]);
    // The next line exceeds the limit, regardless of its contents.
    let got = frame(&spec, b"a\n12\n456789", Close::No);
    assert_eq!((got.texts, got.framed.used), (vec!["a\n12".to_owned()], 5));
}

#[test]
fn an_open_event_is_held_back_until_it_is_closed() {
    let spec = with_multiline(regex("^a"));
    let used = |close| {
        let got = frame(&spec, b"a\n1\na\n2\n3", close);
        (got.texts.len(), got.framed.used)
    };
    assert_eq!(used(Close::No), (1, 4));
    assert_eq!(used(Close::Lines), (2, 8));
    assert_eq!(used(Close::All), (2, 9));
}

const PREFIX: &str = "2026-11-21T20:29:46.5Z";
const TIME_NS: i64 = 1_795_292_986_500_000_000;

fn cri(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{PREFIX} {line}\n").into_bytes()).collect()
}

#[test]
fn cri_prefixes_are_stripped_and_parts_are_joined() {
    let spec = Spec { container: Container::Cri, ..Spec::default() };
    let raw = cri(&[
        "stdout F one",
        "stderr P t",
        "stderr P:x w",
        "stderr F:y o\r",
        "stdout F",
        "stdout F ",
    ]);
    let got = frame(&spec, &raw, Close::No);
    assert_eq!(got.texts, ["one", "two", "", ""]);
    assert!(got.events.iter().all(|event| event.time_ns == TIME_NS));
    assert_eq!((got.framed.used, got.tally), (raw.len(), Tally::default()));
    let got = frame(&spec, b"no prefix\r\n\n2026-11-21 stdout F x\nrest", Close::All);
    assert_eq!(got.texts, ["no prefix", "", "2026-11-21 stdout F x", "rest"]);
    assert_eq!(got.tally.broken, 4);
}

#[test]
fn interleaved_parts_of_different_streams_are_joined() {
    let spec = Spec { container: Container::Cri, ..Spec::default() };
    let lines = [
        "stdout F a",
        "stdout P b",
        "stderr F c",
        "stderr P d",
        "stdout F e",
        "stderr F f",
        "stdout F g",
    ];
    let raw = cri(&lines);
    let got = frame(&spec, &raw, Close::No);
    assert_eq!(got.texts, ["a", "be", "c", "df", "g"]);
    let line = raw.len() as u32 / 7;
    let end = raw.len() as u32;
    let nexts: Vec<u32> = got.events.iter().map(|event| event.next).collect();
    // The three events in the middle are consumed together.
    assert_eq!((nexts[0], nexts[1], nexts[2], nexts[4]), (line, line, line, end));
    assert_eq!(nexts[3], end - line);
    // A pending part delays the lines that follow it.
    let open = frame(&spec, &cri(&lines[..4]), Close::No);
    assert_eq!((open.texts, open.framed.used), (vec!["a".to_owned()], line as usize));
    let open = frame(&spec, &cri(&lines[..4]), Close::Lines);
    assert_eq!(open.texts, ["a", "b", "c", "d"]);
}

#[test]
fn a_pending_part_is_flushed_at_a_limit() {
    let spec = Spec { container: Container::Cri, bytes_max: 100, ..Spec::default() };
    let got =
        frame(&spec, &cri(&["stdout P a", "stderr F b", "stderr F c", "stdout F d"]), Close::No);
    assert_eq!((got.texts.len(), got.tally.cut), (4, 1));
    assert_eq!(got.texts, ["a", "b", "c", "d"]);
    let many: Vec<&str> =
        std::iter::once("stdout P a").chain(std::iter::repeat_n("stderr F b", 1500)).collect();
    let spec = Spec { container: Container::Cri, ..Spec::default() };
    assert_eq!(frame(&spec, &cri(&many), Close::No).texts.len(), 1000);
}

#[test]
fn docker_lines_are_unwrapped() {
    let spec = Spec { container: Container::Docker, ..Spec::default() };
    let line = |log: &str, stream: &str| {
        format!("{{\"log\":\"{log}\",\"stream\":\"{stream}\",\"time\":\"{PREFIX}\"}}\n")
    };
    let cases = [
        (r"plain\n", "plain"),
        (r"\n", ""),
        (r#"a \"b\" \\ \/ \t\b\f\n"#, "a \"b\" \\ / \t\u{8}\u{c}"),
        (r"\u00e9\u4f60\ud83d\ude00\r\n", "é你😀"),
        (r"not \\n\n", "not \\n"),
    ];
    for (log, expected) in cases {
        let got = frame(&spec, line(log, "stdout").as_bytes(), Close::No);
        assert_eq!((got.texts, got.tally.broken), (vec![expected.to_owned()], 0), "{log}");
        assert_eq!(got.events[0].time_ns, TIME_NS);
    }
    for (log, expected) in
        [(r"half \ud83d\n", "half \u{FFFD}"), (r"\udc00\x\u12\n", "\u{FFFD}\\x\\u12")]
    {
        let got = frame(&spec, line(log, "stdout").as_bytes(), Close::No);
        assert_eq!(got.texts, [expected]);
        assert!(got.tally.broken > 0, "{log}");
    }
    let parts = [line("a", "stdout"), line(r"b\\n", "stdout"), line(r"c\n", "stdout")].concat();
    assert_eq!(frame(&spec, parts.as_bytes(), Close::No).texts, ["ab\\nc"]);
    let other = r#"{ "stream": "stderr", "attrs": {"a": ["}"]}, "time": "2026-11-21T20:29:46.5Z", "log": "x\n"}"#;
    assert_eq!(texts(&spec, other), ["x"]);
    let behind = format!("{} x", line(r"x\n", "stdout").trim_end());
    assert_eq!(texts(&spec, &behind), [behind.as_str()]);
    let broken = [
        r#"{"log":"x\n"}"#,
        r#"{"log":"x"#,
        "{}",
        "[]",
        r#"{"log":"x\n","stream":"x","time":"y"}"#,
    ];
    let got = frame(&spec, broken.join("\n").as_bytes(), Close::All);
    assert_eq!(
        (got.texts.iter().map(String::as_str).collect::<Vec<_>>(), got.tally.broken),
        (broken.into(), 5)
    );
}

#[test]
fn the_format_is_detected_from_the_first_line() {
    let spec = Spec { container: Container::Auto, ..Spec::default() };
    assert_eq!(frame(&spec, &cri(&["stdout F a"]), Close::No).texts, ["a"]);
    let docker = format!("{{\"log\":\"a\\n\",\"stream\":\"stdout\",\"time\":\"{PREFIX}\"}}\nb\n");
    assert_eq!(texts(&spec, &docker), ["a", "b"]);
    let long = docker.replace("\"a", &format!("\"{}", "a".repeat(2 * HEAD_BYTES)));
    assert_eq!(texts(&spec, &long), ["a".repeat(2 * HEAD_BYTES).as_str(), "b"]);
    assert_eq!(texts(&spec, "plain\n{\"log\":1}\n"), ["plain", "{\"log\":1}"]);
    let mut framer = Framer::new(Rules::new(&spec).unwrap().into());
    framer.detect(b"too litt", false);
    assert!(framer.needs_head());
    let input = Input { raw: b"x\n", close: Close::All, rows_max: 9, reference_ns: 0 };
    assert_eq!(
        framer.frame(input, &mut [0; 9], &mut EventBuffer::default()),
        Framed { used: 0, written: 0 }
    );
    framer.detect(b"too little\n", false);
    assert!(!framer.needs_head() && !framer.is_decoding());
}

#[test]
fn rules_join_the_decoded_lines_of_one_stream() {
    let spec = Spec { container: Container::Cri, ..preset(Preset::Java) };
    let lines = [
        "stderr F E: x",
        "stderr F \tat A.b",
        "stdout F \tz",
        "stderr P \tat",
        "stderr F  C.d",
        "stderr F y",
    ];
    let got = frame(&spec, &cri(&lines), Close::All);
    assert_eq!(got.texts, ["E: x\n\tat A.b\n\tat C.d", "\tz", "y"]);
    assert_eq!(got.tally.misfits, 1);
    let raw: Vec<u8> = "a\n b\r\nc\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let spec = Spec { encoding: Some("utf-16le".into()), ..preset(Preset::Java) };
    assert_eq!(frame(&spec, &raw, Close::All).texts, ["a\n b", "c"]);
}

/// Returns container log lines with times that are given in milliseconds.
fn cri_at(lines: &[(u64, &str)]) -> Vec<u8> {
    let line = |(ms, line): &(u64, &str)| {
        format!("2026-11-21T20:{:02}:{:02}.{:03}Z {line}\n", ms / 60_000, ms / 1000 % 60, ms % 1000)
    };
    lines.iter().map(line).collect::<String>().into_bytes()
}

#[test]
fn lines_of_another_stream_do_not_end_an_event() {
    let spec = Spec { container: Container::Cri, ..preset(Preset::Java) };
    let lines = [
        "stdout F before",
        "stderr F E: 1",
        "stderr F \tat A.a",
        "stdout F access",
        "stderr F \tat B.b",
        "stdout F more",
        "stderr F y",
    ];
    let raw = cri(&lines);
    let got = frame(&spec, &raw, Close::No);
    assert_eq!(got.texts, [""; 0], "each event begins before the one before it has ended");
    let got = frame(&spec, &raw, Close::Lines);
    assert_eq!(got.texts, ["before", "E: 1\n\tat A.a\n\tat B.b", "access", "more", "y"]);
    let ends: Vec<usize> = got.events.iter().map(|event| event.next as usize).collect();
    assert_eq!(ends, [0, 0, 0, 0, raw.len()], "they are consumed together");
    let offsets: Vec<usize> = got.events.iter().map(|event| event.offset as usize).collect();
    assert_eq!(offsets, [0, 1, 3, 5, 6].map(|lines_before| cri(&lines[..lines_before]).len()));
    assert_eq!(got.tally, Tally::default());
}

#[test]
fn an_event_ends_when_its_stream_is_silent() {
    let spec = Spec { container: Container::Cri, ..preset(Preset::Java) };
    let raw = cri_at(&[
        (0, "stderr F E: 1"),
        (900, "stdout F soon"),
        (1001, "stdout F late"),
        (1002, "stderr F \tat A.a"),
    ]);
    let got = frame(&spec, &raw, Close::No);
    assert_eq!(got.texts, ["E: 1", "soon"]);
    assert_eq!(frame(&spec, &raw, Close::All).tally, Tally { misfits: 1, ..Tally::default() });
}

#[test]
fn two_busy_streams_hold_back_few_lines() {
    let spec = Spec { container: Container::Cri, ..preset(Preset::Java) };
    let sample = |ms_between: u64| {
        let line = |n: u64| {
            (n * ms_between, if n.is_multiple_of(2) { "stdout F x" } else { "stderr F y" })
        };
        frame(&spec, &cri_at(&(0..2000).map(line).collect::<Vec<_>>()), Close::No)
    };
    let got = sample(6);
    assert!(got.texts.len() >= 640 && got.tally.cut == 0, "{} {:?}", got.texts.len(), got.tally);
    // All lines have the same time.
    let got = sample(0);
    assert_eq!((got.texts.len(), got.tally.cut), (1000, 2));
}

#[test]
fn byte_order_marks_are_stripped_and_select_the_byte_order() {
    let wide = |bytes: fn(u16) -> [u8; 2], text: &str| {
        text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>()
    };
    let spec = Spec { encoding: Some("utf-16".into()), ..Spec::default() };
    for raw in [wide(u16::to_le_bytes, "\u{FEFF}a\nb\n"), wide(u16::to_be_bytes, "\u{FEFF}a\nb\n")]
    {
        assert_eq!(frame(&spec, &raw, Close::No).texts, ["a", "b"]);
    }
    assert_eq!(frame(&spec, &wide(u16::to_le_bytes, "a\n"), Close::No).texts, ["a"]);
    assert_eq!(texts(&with_multiline(regex("^a")), "\u{FEFF}a\nb\n"), ["a\nb"]);
}
