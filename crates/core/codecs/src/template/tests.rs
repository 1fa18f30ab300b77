//! Rendering of events, especially of hostile events.

use super::*;
use millstream_model::{Grant, Ledger, SourceInfo};
use millstream_testkit::{Rows, batch};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

fn of(text: &[u8]) -> Batch {
    batch(&[Rows { name: "/var/log/a.log", text }], 16 << 20, &Grant::new(1 << 30), &Ledger::new())
}

/// Returns a batch of one event with attribute `v` set to `value`.
fn with_value(value: &str) -> Batch {
    with_value_and_line(value, b"line")
}

/// Returns a batch of one event with attribute `v` set to `value`, and a message that may be
/// invalid UTF-8.
fn with_value_and_line(value: &str, line: &[u8]) -> Batch {
    let mut batch = of(&[line, b"\n"].concat());
    let attributes = BTreeMap::from([("v".to_owned(), value.to_owned())]);
    batch.source = Arc::new(SourceInfo { attributes, ..(*batch.source).clone() });
    batch
}

fn rendered(template: &str, usage: Use, batch: &Batch, row: usize) -> (Vec<u8>, bool) {
    let template = Template::parse(template, usage).unwrap();
    let mut out = Vec::new();
    let complete = template.render(batch, &batch.segments[0], row, &mut out);
    (out, complete)
}

fn text(template: &str, batch: &Batch, row: usize) -> String {
    String::from_utf8(rendered(template, Use::Text, batch, row).0).unwrap()
}

fn path(value: &str) -> String {
    String::from_utf8(rendered("/out/{{ v }}/x.log", Use::Path, &with_value(value), 0).0).unwrap()
}

fn topic(value: &str) -> String {
    String::from_utf8(rendered("logs-{{v}}", Use::Topic, &with_value(value), 0).0).unwrap()
}

#[test]
fn fields_and_time_come_from_the_event() {
    let batch = of(b"one\ntwo\n");
    assert_eq!(text("{{ host }} {{source}} {{file }}", &batch, 0), "here app /var/log/a.log");
    assert_eq!(text("{{ id }} {{ offset }}", &batch, 1), "a000000000000001-4 4");
    assert_eq!(text("{{ file_id }} {{ truncated }}", &batch, 1), "a000000000000001 false");
    assert_eq!(text("{{ previous_offset }} {{ message }}", &batch, 1), "0 two");
    assert_eq!(
        text("{{ collected }} {{ timestamp }}", &batch, 1),
        "2026-11-21T20:29:46.123Z 2026-11-21T20:29:46.123Z"
    );
    assert_eq!(
        text("%Y %m %d %H %M %S %j %y %F %s", &batch, 0),
        "2026 11 21 20 29 46 325 26 2026-11-21 1795292986"
    );
    assert_eq!(text("100%% {literal} }}", &batch, 0), "100% {literal} }}");
}

#[test]
fn an_event_with_its_own_time_renders_that_time() {
    let mut batch = of(b"one\ntwo\n");
    batch.time = Some(vec![951_827_696_000_000_000, millstream_model::TIME_UNKNOWN].into());
    assert_eq!(text("%F %H {{ timestamp }}", &batch, 0), "2000-02-29 12 2000-02-29T12:34:56.000Z");
    assert_eq!(text("%F {{ timestamp }}", &batch, 1), "2026-11-21 2026-11-21T20:29:46.123Z");
    assert_eq!(text("{{ collected }}", &batch, 0), "2026-11-21T20:29:46.123Z");
}

#[test]
fn the_day_of_the_year_counts_leap_days() {
    let day = |seconds: i64| {
        let mut out = Vec::new();
        Piece::of('j').unwrap().push(seconds * 1_000_000_000, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        (day(0), day(951_827_696), day(951_913_696)),
        ("001".into(), "060".into(), "061".into())
    );
    assert_eq!((day(1_735_603_200), day(1_767_139_200)), ("366".into(), "365".into()));
}

#[test]
fn a_missing_field_renders_a_placeholder_and_is_reported() {
    let batch = of(b"line\n");
    assert_eq!(rendered("/out/{{ app }}", Use::Path, &batch, 0), (b"/out/none".to_vec(), false));
    assert_eq!(rendered("{{ previous_offset }}", Use::Text, &batch, 0), (b"none".to_vec(), false));
    assert_eq!(rendered("/out/{{ host }}", Use::Path, &batch, 0), (b"/out/here".to_vec(), true));
}

#[test]
fn differences_between_rows_are_predicted() {
    let parse = |text| Template::parse(text, Use::Text).unwrap();
    assert!(
        parse("a %% b").is_constant()
            && !parse("%F").is_constant()
            && !parse("{{ host }}").is_constant()
    );
    let mut batch = of(b"line\n");
    let per_row = |text, batch: &Batch| parse(text).per_row(batch);
    assert!(per_row("{{ offset }}", &batch) && per_row("x{{message}}", &batch));
    assert!(!per_row("{{ file }} %H {{ timestamp }}", &batch));
    batch.time = Some(vec![0].into());
    assert!(per_row("%H", &batch) && per_row("{{ timestamp }}", &batch));
    assert!(!per_row("{{ file }} {{ collected }}", &batch));
    assert_eq!(
        (parse("/a/b-%F").literal_prefix(), parse("{{ host }}").literal_prefix()),
        ("/a/b-", "")
    );
    assert_eq!(parse("/a/{{ host }}-%F").outline(0), "/a/*-1970-01-01");
}

#[test]
fn hostile_values_stay_within_one_path_component() {
    assert_eq!(path("../../etc/passwd"), "/out/..%2F..%2Fetc%2Fpasswd/x.log");
    assert_eq!(path("/abs"), "/out/%2Fabs/x.log");
    assert_eq!(path("a/../b"), "/out/a%2F..%2Fb/x.log");
    assert_eq!(
        (path(""), path("."), path("..")),
        ("/out/%/x.log".into(), "/out/%2E/x.log".into(), "/out/%2E%2E/x.log".into())
    );
    assert_eq!(path("\0\n\u{7f}%41é"), "/out/%00%0A%7F%2541é/x.log");
    assert_eq!(path("..."), "/out/.../x.log");
    let invalid = rendered("/out/{{ message }}", Use::Path, &of(b"a\xff\xc3\n"), 0).0;
    assert_eq!(invalid, b"/out/a%FF%C3");
}

#[test]
fn a_long_value_is_truncated_and_stays_distinct() {
    for long in ["x".repeat(10_000), "/".repeat(10_000), "é".repeat(5_000), "\u{1}é€".repeat(3_000)]
    {
        let (one, two) = (path(&long), path(&(long.clone() + "y")));
        assert_ne!(one, two);
        let name = one.strip_prefix("/out/").unwrap().strip_suffix("/x.log").unwrap();
        assert!(
            (NAME_BYTES_MAX - 8..=NAME_BYTES_MAX).contains(&name.len()),
            "{}: {name}",
            name.len()
        );
        let (one, two) = (topic(&long), topic(&(long.clone() + "y")));
        assert!(one != two && one.len() <= TOPIC_BYTES_MAX, "{one}");
    }
    // Two long values share one name; the text after them is kept.
    let template = "/out/a-{{ v }}-{{ message }}-%F.json.gz";
    let batch = with_value_and_line(&"v".repeat(300), &b"m".repeat(300));
    let name = String::from_utf8(rendered(template, Use::Path, &batch, 0).0).unwrap();
    assert!(
        name.ends_with("-2026-11-21.json.gz") && name.contains("vvv") && name.contains("mmm"),
        "{name}"
    );
    assert!(name.len() - "/out/".len() <= NAME_BYTES_MAX, "{name}");
}

#[test]
fn a_topic_contains_only_legal_characters() {
    assert_eq!(topic("a_b.c-D9"), "logs-a_b.c-D9");
    assert_eq!(topic("a/b é"), "logs-a_2fb_20_c3_a9");
    assert_eq!(
        (topic("_2f"), topic("__"), topic("_-")),
        ("logs-_5f2f".into(), "logs-__".into(), "logs-_5f-".into())
    );
    assert_eq!((topic(""), topic("..")), ("logs-".into(), "logs-..".into()));
}

#[test]
fn the_name_of_an_index_contains_only_legal_characters() {
    let index = |value: &str| {
        String::from_utf8(rendered("logs-{{v}}", Use::Index, &with_value(value), 0).0).unwrap()
    };
    assert_eq!(index("Web_1.a-b"), "logs-web_1.a-b");
    assert_eq!(index("A/b:é*"), "logs-a_2fb_3a_c3_a9_2a");
    let (one, two) = (index(&"x".repeat(300)), index(&("x".repeat(300) + "y")));
    assert!(one != two && one.len() <= INDEX_BYTES_MAX && two.len() <= INDEX_BYTES_MAX);
}

#[test]
fn errors_say_what_to_write_instead() {
    let error = |text, usage| Template::parse(text, usage).unwrap_err();
    let all = [
        (error("%q", Use::Text), "`%q` is not a time specifier; use %Y"),
        (error("50%", Use::Text), "`%` is not a time specifier; use %Y"),
        (error("{{ host", Use::Text), "`{{` is not closed; use, for example, {{ host }}"),
        (error("{{ a {{ b }}", Use::Text), "`{{` is not closed; use"),
        (error("{{ }}", Use::Text), "`{{  }}` is not a field name; use"),
        (error("{{ a b }}", Use::Text), "`{{ a b }}` is not a field name; use"),
        (error("{{ -a }}", Use::Text), "`{{ -a }}` is not a field name; use"),
        (error("", Use::Path), "is not a file path; use"),
        (error("/a/", Use::Path), "is not a file path; use"),
        (error("/a\0", Use::Path), "is not a file path; use"),
        (error("{{ host }}.log", Use::Path), "a field needs a folder before it"),
        (error("/{{ host }}.log", Use::Path), "a field needs a folder before it"),
        (error("app-{{ host }}.log", Use::Path), "a field needs a folder before it"),
        (error("/a/{{ host }}/../b", Use::Path), "every folder after a field needs a name; remove"),
        (error("/a/{{ host }}//b", Use::Path), "every folder after a field needs a name; remove"),
        (
            error(&format!("/a/{}{{{{ host }}}}", "x".repeat(170)), Use::Path),
            "a name of at most 200 bytes has no space for the field values",
        ),
        (error("{{ host }}", Use::Topic), "a field needs text before it; use"),
        (error(".{{ host }}", Use::Topic), "a field needs text before it; use"),
        (error("a b", Use::Topic), "is not a topic name; use"),
        (error("a*", Use::Topic), "is not a topic name; use"),
        (error("..", Use::Topic), "is not a topic name; include"),
        (error(&"x".repeat(250), Use::Topic), "exceeds the 249-byte limit for topic names"),
        (error("{{ host }}", Use::Index), "a field needs text before it; use"),
        (error("Logs", Use::Index), "is not an index name; use lowercase letters"),
        (error("a,b", Use::Index), "is not an index name; use"),
        (error("_all", Use::Index), "an index name cannot begin with `-` or `_`; begin"),
        (error("..", Use::Index), "is not an index name; include"),
        (error(&"x".repeat(256), Use::Index), "exceeds the 255-byte limit for index names"),
    ];
    for (found, expected) in all {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    for good in [
        "out.log",
        "%F.log",
        "/%F/{{ host }}",
        "logs/{{ host }}",
        "./{{ host }}",
        "/a/../b-{{ host }}",
    ] {
        Template::parse(good, Use::Path).unwrap();
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[./%_\u{0}a-]{0,8}",
        "[_0-9a-f]{0,6}",
        any::<String>(),
        ("[a/é]{1,3}", 0..300usize).prop_map(|(text, times)| text.repeat(times)),
    ]
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// No value escapes the folder, and every name has a valid length.
    #[test]
    fn a_path_never_leaves_its_folder(value in value(), message in prop::collection::vec(any::<u8>(), 0..600)) {
        let line = message.split(|b| *b == b'\n').next().unwrap();
        let batch = with_value_and_line(&value, line);
        for template in ["/out/{{ v }}", "/out/{{ v }}/{{ message }}.log", "/out/.{{v}}{{message}}/%F-{{v}}"] {
            let path = String::from_utf8(rendered(template, Use::Path, &batch, 0).0).unwrap();
            let parts: Vec<Component<'_>> = Path::new(&path).components().collect();
            prop_assert!(!path.contains('\0') && path.split('/').count() == template.split('/').count());
            prop_assert_eq!(parts.len(), template.split('/').count());
            prop_assert_eq!(parts[1], Component::Normal("out".as_ref()));
            for part in &parts[1..] {
                prop_assert!(matches!(part, Component::Normal(name) if name.len() <= NAME_BYTES_MAX));
            }
        }
    }

    /// Distinct values render distinct paths and topics.
    #[test]
    fn different_values_stay_different(one in value(), two in value()) {
        prop_assert_eq!(path(&one) == path(&two), one == two);
        prop_assert_eq!(topic(&one) == topic(&two), one == two);
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        prop_assert!(topic(&one).chars().all(legal) && topic(&one).len() <= TOPIC_BYTES_MAX);
    }
}
