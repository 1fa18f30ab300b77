//! Events that are not single lines, in growing files.

use super::*;
use millstream_model::{PARTIAL, STREAM};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

const TRACE: &str = "2026-11-22 10:00:01 ERROR no\njava.io.IOException: no\n\tat A.b(A.java:1)\n\n";
const NEXT: &str = "2026-11-22 10:00:02 INFO next\n";

fn timestamps() -> Value {
    json!({ "multiline": { "start": "timestamp", "format": "%Y-%m-%d %H:%M:%S", "timeout": "150ms" } })
}

/// An event is emitted whole once the next event begins, and the last event after a timeout. The
/// offset of an event is the offset of its first line.
#[test]
fn a_multiline_event_is_delivered_whole() {
    let mut fixture = Fixture::new(timestamps(), &["out"]);
    let (first, second) = TRACE.split_at(40);
    fixture.append("a.log", first);
    assert!(matches!(fixture.poll(), Polled::Wait(_)));
    fixture.append("a.log", format!("{second}{NEXT}"));
    fixture.rig.advance(STEP);
    let (batch, _) = fixture.next();
    assert_eq!(texts_of(&batch), [&TRACE[..TRACE.len() - 1]]);
    assert_eq!(batch.event_ns(0), 1_795_341_601_000_000_000);
    deliver(&batch);
    let open = fixture.read();
    assert_eq!(
        (texts(&open), open[0].offset),
        (vec![NEXT.trim_end().to_owned()], TRACE.len() as u64)
    );
    fixture.append("a.log", "\tat C\n");
    let rest = fixture.read();
    assert_eq!(texts(&rest), ["\tat C"]);
    let state = &batch.segments[0].origin.state;
    assert_eq!((state.totals().misfits, state.newest()), (1, 1_795_341_602_000_000_000));
}

/// An event that is incomplete at a crash is reread from its first line.
#[test]
fn an_incomplete_event_survives_a_crash() {
    let mut fixture = Fixture::new(timestamps(), &["out"]);
    fixture.append("a.log", format!("{NEXT}{TRACE}"));
    deliver(&fixture.next().0);
    fixture.restart(true);
    fixture.append("a.log", NEXT);
    let texts = fixture.read_texts();
    assert_eq!(texts, [&TRACE[..TRACE.len() - 1], NEXT.trim_end()]);
}

/// With `--until-eof`, the last event of a file is treated as complete.
#[test]
fn the_last_event_of_a_file_is_never_lost() {
    let mut fixture = Fixture::new(timestamps(), &["out"]);
    fixture.append("a.log", TRACE.trim_end());
    end(&mut fixture);
    assert_eq!(fixture.read_texts(), [TRACE.trim_end()]);
}

/// Files in GBK and UTF-16: text is UTF-8, offsets count bytes of the file, and reading resumes at
/// the right byte.
#[test]
fn offsets_of_encoded_files_count_raw_bytes() {
    let gbk = |text: &str| match text {
        "中文\n" => vec![0xD6, 0xD0, 0xCE, 0xC4, b'\n'],
        other => other.as_bytes().to_vec(),
    };
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let cases = [("gbk", &gbk as &dyn Fn(&str) -> Vec<u8>, 5), ("utf-16le", &utf16, 6)];
    for (encoding, encode, bytes) in cases {
        let mut fixture = Fixture::new(json!({ "encoding": encoding }), &["out"]);
        fixture.append("a.log", encode("中文\n"));
        fixture.append("a.log", encode("plain\n"));
        let first = fixture.read();
        assert_eq!(texts(&first), ["中文", "plain"], "{encoding}");
        assert_eq!(first[1].offset, bytes, "{encoding}");
        fixture.restart(true);
        fixture.append("a.log", encode("中文\n"));
        let second = fixture.read();
        assert_eq!(
            (texts(&second), second[0].offset),
            (vec!["中文".to_owned()], bytes + encode("plain\n").len() as u64)
        );
        assert_eq!(second[0].file_id, first[0].file_id);
    }
}

/// With `read_from: end`, reading begins at the start of a UTF-16 line, not within its line ending.
#[test]
fn reading_from_the_end_begins_at_a_line_in_every_encoding() {
    type Encode = fn(&str) -> Vec<u8>;
    let little: Encode = |text| text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Encode = |text| text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    // U+0A0A contains the bytes of a line ending, but is not one.
    let unfinished = format!("second \u{a0a}{}", "x".repeat(100_000));
    let cases = [
        ("utf-16le", little),
        ("utf-16be", big),
        ("utf-16", little),
        ("utf-8", |text| text.into()),
    ];
    for (encoding, encode) in cases {
        let options = json!({ "encoding": encoding, "read_from": "end", "max_line": "1MiB" });
        let mut fixture = Fixture::new(options, &["out"]);
        fixture.append("a.log", encode(&format!("\u{feff}first\n{unfinished}")));
        assert!(fixture.read_texts().is_empty(), "{encoding}");
        fixture.append("a.log", encode(" end\nthird\n"));
        assert_eq!(
            fixture.read_texts(),
            [format!("{unfinished} end"), "third".into()],
            "{encoding}"
        );
    }
}

/// Overlong lines in UTF-16 are truncated, split or dropped, and the next line is complete.
#[test]
fn long_encoded_lines_are_handled_as_configured() {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let long = "é0".repeat(300_000);
    for (treatment, first) in [("truncate", Some(100)), ("split", Some(100)), ("drop", None)] {
        let options =
            json!({ "encoding": "utf-16le", "max_line": "100B", "on_long_line": treatment });
        let mut fixture = Fixture::new(options, &["out"]);
        fixture.append("a.log", utf16(&format!("{long}\nshort\n")));
        let lines = fixture.read();
        assert_eq!(texts(&lines).last().unwrap(), "short", "{treatment}");
        if let Some(most) = first {
            let length = lines[0].text.len();
            assert!(
                length <= most && length >= most / 3 && long.as_bytes().starts_with(&lines[0].text),
                "{treatment}: {length}"
            );
        }
        let all: Vec<u8> = lines.iter().flat_map(|line| line.text.clone()).collect();
        assert!(treatment != "split" || all == format!("{long}short").as_bytes(), "{treatment}");
        assert_eq!(lines.len() == 1, treatment == "drop");
    }
}

/// Partial lines of containers form one event with the time that the runtime reported.
#[test]
fn container_logs_are_unwrapped() {
    let mut fixture = Fixture::new(json!({ "format": "auto" }), &["out"]);
    fixture.append(
        "cri.log",
        "2026-11-22T10:00:01.5Z stdout P one \n2026-11-22T10:00:01.6Z stdout F line\n",
    );
    fixture.append(
        "docker.log",
        "{\"log\":\"t\\u0061b\\t\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-22T10:00:02Z\"}\n",
    );
    fixture.append("plain.log", "just a line\n");
    let batches = fixture.batches();
    let mut all: Vec<String> = batches.iter().flat_map(texts_of).collect();
    all.sort();
    assert_eq!(all, ["just a line", "one line", "tab\t"]);
    let times: Vec<i64> =
        batches.iter().flat_map(|b| (0..b.rows()).map(|row| b.event_ns(row))).collect();
    assert!(
        times.contains(&1_795_341_601_500_000_000) && times.contains(&1_795_341_602_000_000_000),
        "{times:?}"
    );
}

/// A container's events include its stream, and parts of lines are marked.
#[test]
fn events_of_containers_have_their_stream() {
    let mut fixture = Fixture::new(json!({ "format": "auto" }), &["out"]);
    fixture.append("0.log", "just a line\n");
    let plain = &fixture.batches()[0];
    assert!(plain.metadata.is_none());
    let line = |rest: &str| format!("2026-11-22T10:00:01.5Z {rest}\n");
    let lines = ["stdout F one", "stderr P two ", "stderr F lines", "broken", "stderr P part"];
    fixture.append("cri.log", lines.map(line).concat());
    fixture.append(
        "docker.log",
        "{\"log\":\"three\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-22T10:00:02Z\"}\n",
    );
    end(&mut fixture);
    let mut all = Vec::new();
    for batch in fixture.batches() {
        let value = |name: &str, row: usize| {
            let value = batch.metadata(name).and_then(|column| batch.value(column, row).plain());
            String::from_utf8(value.unwrap_or_default().into_owned()).unwrap()
        };
        all.extend((0..batch.rows()).map(|row| {
            let text = String::from_utf8_lossy(batch.text(row)).into_owned();
            format!("{text}|{}|{}", value(STREAM, row), value(PARTIAL, row))
        }));
    }
    all.sort();
    let broken = "2026-11-22T10:00:01.5Z broken||";
    assert_eq!(
        all,
        [
            broken,
            "one|stdout|false",
            "part|stderr|true",
            "three|stderr|false",
            "two lines|stderr|false"
        ]
    );
}

/// The line endings within an event are line feeds, regardless of the line endings of the file.
#[test]
fn line_ends_within_events_are_line_feeds() {
    for name in ["utf-8", "utf-16le"] {
        let encoded = |text: &str| -> Vec<u8> {
            match name {
                "utf-8" => text.as_bytes().to_vec(),
                _ => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            }
        };
        let mut options = timestamps();
        if name != "utf-8" {
            options["encoding"] = name.into();
        }
        let mut fixture = Fixture::new(options, &["out"]);
        let text = format!("{TRACE}{NEXT}").replace('\n', "\r\n");
        fixture.append("a.log", encoded(&text));
        end(&mut fixture);
        assert_eq!(fixture.read_texts(), [&TRACE[..TRACE.len() - 1], NEXT.trim_end()], "{name}");
        // Data that was read is recognized after a restart.
        fixture.restart(true);
        fixture.append("a.log", encoded("2026-11-22 10:00:03 x\r\n"));
        end(&mut fixture);
        assert_eq!(fixture.read_texts(), ["2026-11-22 10:00:03 x"], "{name}");
    }
}

/// Returns the lines that are read within about this many seconds.
fn texts_within(fixture: &mut Fixture, seconds: u64) -> Vec<String> {
    let end = fixture.rig.now.since_start + Duration::from_secs(seconds);
    let mut texts = Vec::new();
    while fixture.rig.now.since_start < end {
        texts.extend(fixture.read_texts());
    }
    texts
}

/// A last line without a line ending is delivered once the file has not grown for the timeout.
#[test]
fn an_unfinished_line_is_delivered_after_the_timeout() {
    for more in [json!({}), json!({ "max_line": "4B" }), timestamps()] {
        let mut options = json!({ "read_timeout": "10s" });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let cut = |text: &str| match options.get("max_line") {
            Some(_) => text[..text.len().min(4)].to_owned(),
            None => text.to_owned(),
        };
        let mut fixture = Fixture::new(options.clone(), &["out"]);
        fixture.append("a.log", "2026-11-22 10:00:01 a\n2026-11-22 10:00:02 b");
        assert_eq!(texts_within(&mut fixture, 7), [cut("2026-11-22 10:00:01 a")], "{more}");
        fixture.append("a.log", "cd");
        assert_eq!(texts_within(&mut fixture, 7), [""; 0], "it has grown: {more}");
        assert_eq!(texts_within(&mut fixture, 5), [cut("2026-11-22 10:00:02 bcd")], "{more}");
        fixture.append("a.log", "ef\n2026-11-22 10:00:03 g\n");
        let rest = [cut("ef"), cut("2026-11-22 10:00:03 g")];
        assert_eq!(texts_within(&mut fixture, 4), rest, "{more}");
        fixture.append("a.log", "2026-11-22 10:00:04 h");
        assert_eq!(texts_within(&mut fixture, 40), [cut("2026-11-22 10:00:04 h")], "{more}");
        fixture.restart(true);
        fixture.append("a.log", "i\n");
        assert_eq!(texts_within(&mut fixture, 4), ["i"], "{more}");
    }
    let mut fixture = Fixture::new(json!({}), &["out"]);
    fixture.append("a.log", "a\nb");
    assert_eq!(texts_within(&mut fixture, 60), ["a"], "it waits");
    let mut fixture = Fixture::new(json!({ "read_timeout": "5s" }), &["out"]);
    fixture.append("a.log", "\u{FEFF}");
    fixture.append("b.log", "b\r");
    assert_eq!(texts_within(&mut fixture, 20), [""; 0], "half a mark or line ending");
    fixture.append("a.log", "a");
    fixture.append("b.log", "\n");
    let mut texts = texts_within(&mut fixture, 20);
    texts.sort();
    assert_eq!(texts, ["a", "b"]);
}

/// The event that makes a sink panic is found among multi-line events; only that event is rejected.
#[test]
fn only_the_event_that_panics_a_sink_is_rejected() {
    let mut fixture = Fixture::new(timestamps(), &["out"]);
    for n in 0..8 {
        fixture.append("a.log", format!("2026-11-22 10:00:0{n} event\n more of {n}\n"));
    }
    let (mut delivered, mut polls) = (Vec::new(), 0);
    while delivered.len() < 7 && polls < 200 {
        polls += 1;
        match fixture.poll() {
            Polled::Batch(batch, _)
                if texts_of(&batch).iter().any(|text| text.contains("more of 5")) =>
            {
                drop(batch)
            }
            Polled::Batch(batch, _) => {
                deliver(&batch);
                delivered.extend(texts_of(&batch));
            }
            _ => fixture.rig.advance(STEP),
        }
    }
    assert_eq!(fixture.dropped("panic"), 1);
    assert_eq!(delivered.len(), 7, "{delivered:?}");
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 40, long: 1000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// For any write sizes and restart times, the events are the same as for the complete content.
    #[test]
    fn events_do_not_depend_on_how_a_file_grows(
        lines in prop::collection::vec((any::<bool>(), 0usize..60), 1..80),
        cuts in prop::collection::vec(1usize..400, 1..20),
        restarts in prop::collection::vec(any::<bool>(), 20),
    ) {
        let mut text = String::new();
        for (n, (starts, length)) in lines.iter().enumerate() {
            let head = if *starts || n == 0 { "2026-11-22 10:00:00 " } else { " " };
            text.push_str(&format!("{head}{}\n", "x".repeat(*length)));
        }
        let mut fixture = Fixture::new(json!({ "multiline": {
            "start": "timestamp", "format": "%Y-%m-%d %H:%M:%S", "timeout": "100s" } }), &["out"]);
        let (mut rest, mut got) = (text.as_bytes(), Vec::new());
        for (cut, restart) in cuts.iter().zip(&restarts) {
            let (piece, next) = rest.split_at((*cut).min(rest.len()));
            fixture.append("a.log", piece);
            got.extend(fixture.read());
            rest = next;
            if *restart {
                fixture.restart(true);
            }
        }
        fixture.append("a.log", rest);
        end(&mut fixture);
        got.extend(fixture.read());
        let whole: String = got.iter().map(|line| format!("{}\n", String::from_utf8_lossy(&line.text))).collect();
        prop_assert_eq!(&whole, &text);
        let starts = text.match_indices("2026").map(|(at, _)| at as u64).collect::<Vec<_>>();
        prop_assert_eq!(got.iter().map(|line| line.offset).collect::<Vec<_>>(), starts);
    }
}
