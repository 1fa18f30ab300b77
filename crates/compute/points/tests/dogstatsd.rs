//! Tests DogStatsD messages with tables, and against the reference implementation.

use crate::recorder::Recorder;
use millstream_points::dogstatsd::{Options, parse, scalar, unescaped};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Returns what both parsers report, after checking that their reports are equal.
fn parsed(message: &[u8], options: Options) -> Vec<String> {
    let (mut parsed, mut expected) = (Recorder::default(), Recorder::default());
    parse(message, options, 7, &mut parsed);
    scalar::parse(message, options, 7, &mut expected);
    assert_eq!(parsed.0, expected.0, "{}", message.escape_ascii());
    parsed.0
}

fn check(table: &[(&str, &[&str])], options: Options) {
    for (message, expected) in table {
        assert_eq!(parsed(message.as_bytes(), options), *expected, "{message:?}");
    }
}

#[test]
fn each_line_is_a_point() {
    check(
        &[
            ("a:1|c", &["Count a 1.0"]),
            ("a.b:12.5|ms|#env:prod,host:x", &["Timing a.b 12.5 #env:prod,host:x"]),
            ("a:-3|g\nb:+4|g", &["Gauge a -3.0", "Gauge b 4.0"]),
            ("a:1e3|h\r\nb:.5|d\r\n", &["DogHistogram a 1000.0", "Distribution b 0.5"]),
            ("a:some text|s", &["Set a member some text"]),
            ("a:1:2|s", &["Set a member 1:2"]),
            ("a:NaN|g\na:inf|g\na:-Inf|c", &["Gauge a NaN", "Gauge a inf", "Count a -inf"]),
            ("\n\r\n\na:1|c\n\n", &["Count a 1.0"]),
            ("", &[]),
            ("\n", &[]),
            ("_a:1|c\n_scx:1|c\n_e:1|g", &["Count _a 1.0", "Count _scx 1.0", "Gauge _e 1.0"]),
            ("na me\u{e9}:1|c", &["Count na me\\xc3\\xa9 1.0"]),
        ],
        Options::default(),
    );
}

#[test]
fn fields_are_accepted_in_any_order() {
    check(
        &[
            ("a:1|c|@0.5|#x:y", &["Count a 1.0 #x:y @0.5"]),
            ("a:1|c|#x:y|@0.5", &["Count a 1.0 #x:y @0.5"]),
            ("a:1|c|T1656581400|#x|@1", &["Count a 1.0 #x at 1656581400"]),
            ("a:1|g|T5", &["Gauge a 1.0 at 5"]),
            ("a:1|ms|T5", &["note timestamp_unused a", "Timing a 1.0"]),
            (
                "a:1|c|card:low|#x:y|c:ci-8,in-9|e:it-false,cn-web",
                &["Count a 1.0 #x:y c=ci-8,in-9 e=it-false,cn-web card=low"],
            ),
            ("a:1|c|#x|#y", &["Count a 1.0 #y"]),
            ("a:1|c|c:1|c:2|@0.5|@1", &["Count a 1.0 c=2"]),
            ("a:1|c|#", &["Count a 1.0"]),
            ("a:1|c|?|x:1|y:2", &["note unknown_field ?", "Count a 1.0"]),
            (
                "a:1|c|\r\nb:1|c|",
                &["note unknown_field ", "Count a 1.0", "note unknown_field ", "Count b 1.0"],
            ),
        ],
        Options::default(),
    );
}

#[test]
fn several_values_are_passed_together() {
    check(
        &[
            ("a:1:2:3.5|ms|@0.5|#x", &["Timing a [1.0, 2.0, 3.5] #x @0.5"]),
            ("a:1::2:|c", &["Count a [1.0, 2.0]"]),
            ("a:::|d", &["fault no_value a:::|d"]),
            ("temp:env:GalaxyX,version:1.2|c", &["fault bad_value temp:env:GalaxyX,version:1.2|c"]),
        ],
        Options::default(),
    );
    // Either all values of a line count, or none of them.
    for count in [1, 2, 63, 64, 65, 128, 129, 200] {
        for bad in [0, count / 2, count] {
            let mut values = vec!["1"; count];
            values.insert(bad, "x");
            let line = format!("a:{}|d|#t", values.join(":"));
            let fault = format!("fault bad_value {line}");
            for gauge_deltas in [false, true] {
                assert_eq!(parsed(line.as_bytes(), Options { gauge_deltas }), [fault.as_str()]);
            }
        }
    }
    let values = vec!["1.0"; 150].join(":");
    let parsed = parsed(format!("a:{values}|ms").as_bytes(), Options::default());
    let packed: Vec<usize> = parsed.iter().map(|point| point.matches("1.0").count()).collect();
    assert_eq!(packed, [64, 64, 22]);
}

#[test]
fn each_value_may_have_its_own_type_and_rate() {
    check(
        &[
            ("x:1|c:2|c:3|c", &["Count x 1.0", "Count x 2.0", "Count x 3.0"]),
            ("t:1.0|ms|@0.1:2.0|ms|@0.05", &["Timing t 1.0 @0.1", "Timing t 2.0 @0.05"]),
            ("a:1|c:-2|g:3:4|h", &["Count a 1.0", "Gauge a -2.0", "DogHistogram a [3.0, 4.0]"]),
            ("a:x y|s:2|c", &["Set a member x y", "Count a 2.0"]),
            (
                "a:1|c|@0.5:2|c|#t:u|c:ci-1\r\nb:1|c",
                &["Count a 1.0 #t:u @0.5 c=ci-1", "Count a 2.0 #t:u c=ci-1", "Count b 1.0"],
            ),
            ("a:1|c:2|ms|T5", &["Count a 1.0 at 5", "note timestamp_unused a", "Timing a 2.0"]),
            ("a:1|c:2|c|?", &["note unknown_field ?", "Count a 1.0", "Count a 2.0"]),
            // The colon is in a tag, or in the container.
            ("a:1|c|#x:2|@0.5", &["Count a 1.0 #x:2 @0.5"]),
            ("a:1|c|c:2|@0.5", &["Count a 1.0 @0.5 c=2"]),
            ("a:1|c:2", &["fault no_type a:1|c:2"]),
            ("a:1|c:2|", &["fault unknown_type a:1|c:2|"]),
            ("a:1|c:|c", &["fault no_value a:1|c:|c"]),
            ("a:1|c:x|c:3|c", &["fault bad_value a:1|c:x|c:3|c"]),
            ("a:1|c:2|c|@0:3|c", &["fault bad_rate a:1|c:2|c|@0:3|c"]),
            ("a:1|c:2|c|T0", &["fault bad_timestamp a:1|c:2|c|T0"]),
            ("a:1|c|@0.5:2|x", &["fault unknown_type a:1|c|@0.5:2|x"]),
        ],
        Options::default(),
    );
    check(
        &[("a:5|g:-1|g:+2|g", &["Gauge a 5.0", "Gauge a change -1.0", "Gauge a change 2.0"])],
        Options { gauge_deltas: true },
    );
}

#[test]
fn signed_gauges_are_changes_if_enabled() {
    check(
        &[
            ("a:-3|g", &["Gauge a change -3.0"]),
            ("a:+3|g|#x", &["Gauge a change 3.0 #x"]),
            ("a:3|g", &["Gauge a 3.0"]),
            (
                "a:5:-1:+1:2|g",
                &["Gauge a 5.0", "Gauge a change -1.0", "Gauge a change 1.0", "Gauge a 2.0"],
            ),
            ("a:5:-1:+x:2|g", &["fault bad_value a:5:-1:+x:2|g"]),
            ("a:-3|g|T5", &["note timestamp_unused a", "Gauge a change -3.0"]),
            ("a:3|g|T5", &["Gauge a 3.0 at 5"]),
            (
                "a:-1:2:+3|g|T5",
                &[
                    "note timestamp_unused a",
                    "Gauge a change -1.0",
                    "Gauge a 2.0 at 5",
                    "Gauge a change 3.0",
                ],
            ),
            ("a:-3|c", &["Count a -3.0"]),
        ],
        Options { gauge_deltas: true },
    );
}

#[test]
fn invalid_lines_are_reported_and_others_are_parsed() {
    for (line, fault) in [
        (":1|c", "no_name"),
        (":", "no_name"),
        ("|c", "no_name"),
        ("a", "no_value"),
        ("a|c|#x:y", "no_value"),
        ("a:|c", "no_value"),
        ("a:1", "no_type"),
        ("a:1:2", "no_type"),
        ("a:1|", "unknown_type"),
        ("a:1|m", "unknown_type"),
        ("a:1|msx|#x:y|@0.5", "unknown_type"),
        ("a:x|c", "bad_value"),
        ("a:0x10|c", "bad_value"),
        ("a: 1|c", "bad_value"),
        ("a:1|c|@0|#x", "bad_rate"),
        ("a:1|c|@1.5", "bad_rate"),
        ("a:1|c|@-1", "bad_rate"),
        ("a:1|c|@NaN", "bad_rate"),
        ("a:1|c|@", "bad_rate"),
        ("a:1|c|T|#x", "bad_timestamp"),
        ("a:1|c|T0", "bad_timestamp"),
        ("a:1|c|T-5", "bad_timestamp"),
        ("a:1|ms|T1.5", "bad_timestamp"),
    ] {
        let message = format!("b:2|c\n{line}\r\nc:3|c\n{line}");
        let fault = format!("fault {fault} {line}");
        assert_eq!(
            parsed(message.as_bytes(), Options::default()),
            ["Count b 2.0", &fault, "Count c 3.0", &fault]
        );
    }
}

#[test]
fn events_are_delimited_by_their_lengths() {
    check(
        &[
            ("_e{5,4}:title|text", &["event \"title\" \"text\" #"]),
            ("_e{5,4}:title|text\nb:1|c", &["event \"title\" \"text\" #", "Count b 1.0"]),
            ("_e{5,4}:title|text\r\nb:1|c", &["event \"title\" \"text\" #", "Count b 1.0"]),
            (
                "_e{3,5}:a|b|c\nd|e|#x:y,z\nb:1|c",
                &["event \"a|b\" \"c\\nd|e\" #x:y,z", "Count b 1.0"],
            ),
            (
                "_e{1,0}:a||d:12|h:web|k:key|p:low|s:src|t:error|#x|c:ci-1|e:ex|card:none",
                &[
                    "event \"a\" \"\" h=web k=key p=low s=src t=error at 12 #x c=ci-1 e=ex card=none",
                ],
            ),
            ("_e{1,1}:a|b|c:1|h:1|c:2|h:2", &["event \"a\" \"b\" h=2 # c=2"]),
            ("_e{2,2}:\u{e9}|\u{e8}", &["event \"\u{e9}\" \"\u{e8}\" #"]),
            (
                "_e{1,1}:a|b|p:high|t:bad|d:x|q:1|r:2",
                &[
                    "note bad_field p:high",
                    "note bad_field t:bad",
                    "note bad_field d:x",
                    "note unknown_field q:1",
                    "event \"a\" \"b\" #",
                ],
            ),
        ],
        Options::default(),
    );
    for line in [
        "_e{5,4}:title|tex",
        "_e{5,4}:title|textmore",
        "_e{5,4}:title|text\rmore",
        "_e{5,4}:title:text",
        "_e{4,5}:title|text",
        "_e{0,4}:|text",
        "_e{5,4}title|text",
        "_e{5}:title|text",
        "_e{-5,4}:title|text",
        "_e{5,x}:title|text",
        "_e{5,4:title|text",
        "_e{",
        "_e{1,1}:\u{e9}|b",
        "_e{9223372036854775807,9223372036854775807}:a|b",
        "_e{9223372036854775807,1}:a|b",
        "_e{99999999999999999999,1}:a|b",
    ] {
        let fault = format!("fault bad_event {}", line.as_bytes().escape_ascii());
        let message = format!("{line}\nb:1|c");
        assert_eq!(parsed(message.as_bytes(), Options::default()), [&fault, "Count b 1.0"]);
        assert_eq!(parsed(line.as_bytes(), Options::default()), [fault]);
    }
    assert_eq!(
        parsed(b"_e{1,1}:\xFF|b\nb:1|c", Options::default()),
        ["fault utf8 _e{1,1}:\\xff|b", "Count b 1.0"]
    );
}

#[test]
fn an_event_that_is_not_utf8_is_rejected_with_all_its_lines() {
    let message = b"_e{1,5}:\xFF|b\nc:1|x\r\nd:1|c";
    assert_eq!(
        parsed(message, Options::default()),
        ["fault utf8 _e{1,5}:\\xff|b\\nc:1|x", "Count d 1.0"]
    );
    let message = b"_e{1,5}:a|b\nc:\xFF\nd:1|c";
    assert_eq!(
        parsed(message, Options::default()),
        ["fault utf8 _e{1,5}:a|b\\nc:\\xff", "Count d 1.0"]
    );
}

/// Returns a message of `size` bytes, which consists of `begin` and repetitions of `part`. An N in
/// `part` is replaced with the number of remaining bytes.
fn repeated(size: usize, begin: &str, part: &str) -> Vec<u8> {
    let mut message = begin.as_bytes().to_vec();
    while message.len() + 60 < size {
        let left = size - message.len() - 40;
        message.extend_from_slice(part.replace('N', &left.to_string()).as_bytes());
    }
    message.resize(size, b'x');
    message
}

/// Returns the CPU time that this thread has used.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// Returns the CPU time of the fastest run, which other processes on the host hardly change.
fn time_to_parse(message: &[u8]) -> Duration {
    let once = || {
        let start = cpu_time();
        let mut parsed = Recorder::default();
        parse(message, Options::default(), 7, &mut parsed);
        assert!(!parsed.0.is_empty());
        cpu_time() - start
    };
    (0..5).map(|_| once()).min().unwrap()
}

#[test]
fn parsing_takes_linear_time() {
    for (begin, part) in [
        ("", "_e{1,N}:ab\n"),
        ("", "_e{1,N}:a|b\n"),
        ("", "_e{N,1}:a|b\n"),
        ("", "_e{1,1}:a|b|x\n"),
        ("_e{1,1}:a|b", "|x"),
        ("", "_sc|a|1|m:b\n"),
        ("_sc|a|1|m:", "|c:x"),
        ("_sc|a|1", "|x"),
        ("a", ":x"),
        ("a", ":1|c"),
        ("a:1|c", "|@1:1|c"),
        ("a:1|c", "|x"),
    ] {
        let [small, large] =
            [1 << 16, 1 << 20].map(|size| time_to_parse(&repeated(size, begin, part)));
        // The message is 16 times as long. Linear time would be a factor of 16, and quadratic time
        // a factor of 256.
        assert!(large < small * 64, "{begin:?}, {part:?}: {small:?}, {large:?}");
    }
}

#[test]
fn service_checks_have_a_status_and_a_message() {
    check(
        &[
            ("_sc|a b|0", &["check \"a b\" 0 #"]),
            (
                "_sc|a|2|d:12|h:web|#x:y|m:not|well: m:\r\nb:1|c",
                &["check \"a\" 2 h=web m=not|well: m: at 12 #x:y", "Count b 1.0"],
            ),
            ("_sc|a|3|m:x|y|c:ci-1|e:ex|card:low", &["check \"a\" 3 m=x|y # c=ci-1 e=ex card=low"]),
            ("_sc|a|1|c:ci-1|m:", &["check \"a\" 1 m= # c=ci-1"]),
            ("_sc|a|1|m:x|c:1|e:2|c:3|e:4", &["check \"a\" 1 m=x # c=3 e=4"]),
            ("_sc|a|1|c:1|m:x|c:2", &["check \"a\" 1 m=x # c=2"]),
            ("_sc|a|1|h:1|c:1|h:2|c:2", &["check \"a\" 1 h=2 # c=2"]),
            (
                "_sc|a|1|d:-1|zz|y",
                &["note bad_field d:-1", "note unknown_field zz", "check \"a\" 1 #"],
            ),
            ("_sc|a|4", &["fault bad_service_check _sc|a|4"]),
            ("_sc|a|", &["fault bad_service_check _sc|a|"]),
            ("_sc|a", &["fault bad_service_check _sc|a"]),
            ("_sc||1", &["fault bad_service_check _sc||1"]),
            ("_sc|a|00\nb:1|c", &["fault bad_service_check _sc|a|00", "Count b 1.0"]),
        ],
        Options::default(),
    );
    assert_eq!(parsed(b"_sc|\xFF|1", Options::default()), ["fault utf8 _sc|\\xff|1"]);
}

#[test]
fn escapes_are_undone() {
    assert_eq!(unescaped("plain"), "plain");
    assert_eq!(unescaped("a\\nb m\\: c \\x"), "a\nb m: c \\x");
}

/// Generates line fragments in any order, most of which are invalid.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        4 => prop::sample::select(vec![
            "a:1|c", "name.long:12.5|ms", "|#env:prod,host:a", "|@0.5", "|T12", "|c:ci-1", "\n", "\r\n", "|", ":", "1:2:3",
            "_e{1,3}:a|b\nc", "_e{1,3}:a|", "_sc|x|1|m:y", ":2|c", "|@0.5:3|g",  "|e:x|card:low", "_", "\r", "x|g", "-5",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..70),
    ];
    prop::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.concat())
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn every_message_is_parsed_as_by_the_reference(message in messages(), gauge_deltas in any::<bool>()) {
        parsed(&message, Options { gauge_deltas });
    }
}
