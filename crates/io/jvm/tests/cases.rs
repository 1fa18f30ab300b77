//! Tests the features of operators.

use crate::support::{Batch, Mode, jvm, mode, operator, options, process_options, spec};
use millstream_columns::Kind;
use millstream_jvm::{
    ColumnPlace, FailureReason, Jvm, JvmOptions, JvmProcess, OperatorSpec, RegisterError,
    StartError, TIME_UNKNOWN,
};
use std::thread;

#[test]
#[ignore = "run by every_java"]
fn an_operator_is_called() {
    let batch = Batch::new(&["nothing", "nothing"]);
    let operator = operator();
    let answer = batch.call(&operator);
    assert!(answer.columns.is_empty() && answer.buffer.is_empty(), "{answer:?}");
    assert!(answer.emitted.is_empty() && answer.dropped.is_empty() && answer.failed.is_empty());
    assert!(!answer.duration.is_zero());
    let stats = operator.stats().unwrap();
    assert_eq!((stats.rules.len(), stats.rules[0].rows, stats.rules[0].failures), (1, 2, 0));
    jvm().noop(1000).unwrap();
    assert!(Batch::new(&[]).call(&operator).columns.is_empty(), "a batch without rows");
}

#[test]
#[ignore = "run by every_java"]
fn values_of_every_kind_round_trip() {
    let object: &[u8] = br#"{"a":[1,2.5,null,true],"b":{"c":"d"}}"#;
    let cases: &[(Kind, &[u8], Kind, &[u8])] = &[
        (Kind::Null, b"", Kind::Null, b""),
        (Kind::False, b"", Kind::False, b""),
        (Kind::True, b"", Kind::True, b""),
        (Kind::Int, b"0", Kind::Int, b"0"),
        (Kind::Int, b"-42", Kind::Int, b"-42"),
        (Kind::Int, b"9223372036854775807", Kind::Int, b"9223372036854775807"),
        (Kind::Int, b"-9223372036854775809", Kind::Int, b"-9223372036854775809"),
        (Kind::Int, b"12345678901234567890", Kind::Int, b"12345678901234567890"),
        (Kind::Float, b"1.5", Kind::Float, b"1.5"),
        (Kind::Float, b"1e3", Kind::Float, b"1000.0"),
        (
            Kind::Time,
            b"2026-01-02T03:04:05.000000001Z",
            Kind::Time,
            b"2026-01-02T03:04:05.000000001Z",
        ),
        (Kind::Text, b"plain", Kind::Text, b"plain"),
        (Kind::Text, b"", Kind::Text, b""),
        (Kind::Text, b"a\0b", Kind::Text, b"a\0b"),
        (Kind::Text, "é😀".as_bytes(), Kind::Text, "é😀".as_bytes()),
        (Kind::Text, b"a\xffb", Kind::Text, "a\u{fffd}b".as_bytes()),
        (Kind::Escaped, br#"a\n\"\u00e9"#, Kind::Text, "a\n\"é".as_bytes()),
        (Kind::Object, object, Kind::Object, object),
        (Kind::Array, br#"[1,"x"]"#, Kind::Array, br#"[1,"x"]"#),
        (Kind::Object, b"{}", Kind::Object, b"{}"),
        (Kind::Absent, b"", Kind::Null, b""),
    ];
    let mut batch = Batch::new(&vec!["copy"; cases.len()]);
    let values: Vec<(Kind, &[u8])> = cases.iter().map(|case| (case.0, case.1)).collect();
    batch.block_column("value", &values);
    let answer = batch.call(&operator());
    assert!(answer.failed.is_empty(), "{:?}", answer.failed);
    assert_eq!(answer.columns[0].place, ColumnPlace::New("copy".into()));
    for (row, (_, bytes, kind, copied)) in cases.iter().enumerate() {
        let (found, value) = batch.value(&answer, "copy", row);
        let shown = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&value));
        assert_eq!((found, &value[..]), (*kind, *copied), "row {row}: {shown:?}");
    }
}

#[test]
#[ignore = "run by every_java"]
fn unchanged_values_keep_their_bytes() {
    let mut batch = Batch::new(&["change one", "keep", "keep", "remove value", "add new"]);
    batch.own_column("value", &[b"a", b"in\xffvalid", b"c", b"d", b""]);
    let answer = batch.call(&operator());
    assert_eq!(batch.text(&answer, "value", 0), "one");
    assert_eq!(batch.value(&answer, "value", 1), (Kind::Text, b"in\xffvalid".to_vec()));
    assert_eq!(batch.text(&answer, "value", 2), "c");
    assert_eq!(batch.value(&answer, "value", 3).0, Kind::Absent);
    assert_eq!(batch.text(&answer, "value", 4), "");
    assert_eq!(batch.value(&answer, "added", 0).0, Kind::Absent);
    assert_eq!(batch.text(&answer, "added", 4), "new");
    assert_eq!(answer.columns.len(), 2);
}

#[test]
#[ignore = "run by every_java"]
fn rows_that_are_not_selected_stay() {
    let mut batch = Batch::new(&["change x", "drop", "change y", "drop"]);
    batch.own_column("value", &[b"a", b"b", b"c", b"d"]);
    batch.selected = vec![1, 2];
    let answer = batch.call(&operator());
    let values = [0, 1, 2, 3].map(|row| batch.text(&answer, "value", row));
    assert_eq!(values, ["a", "b", "y", "d"]);
    assert_eq!(answer.dropped, [1]);
}

#[test]
#[ignore = "run by every_java"]
fn events_are_emitted_and_dropped() {
    let mut batch = Batch::new(&["keep", "emit first", "drop", "emit other"]);
    batch.own_column("value", &[b"a", b"b", b"c", b"d"]);
    let answer = batch.call(&operator());
    assert_eq!((&answer.emitted[..], &answer.dropped[..]), (&[1, 1, 3, 3][..], &[1, 2, 3][..]));
    let values = [0, 4, 6].map(|row| batch.text(&answer, "value", row));
    assert_eq!(values, ["a", "first", "other"]);
    assert_eq!(batch.value(&answer, "value", 5).0, Kind::Absent);
    assert_eq!(batch.value(&answer, "extra", 5), (Kind::Int, b"2".to_vec()));
    let messages = [4, 5, 6, 7].map(|row| batch.text(&answer, "message", row));
    assert_eq!(messages, ["emit first", "second", "emit other", "second"]);
}

#[test]
#[ignore = "run by every_java"]
fn failed_rows_stay_as_they_were() {
    let mut batch = Batch::new(&["change x", "throw", "undone", "wrong", "change y"]);
    batch.own_column("value", &[b"a", b"b", b"c", b"d", b"e"]);
    let operator = operator();
    let answer = batch.call(&operator);
    let failed: Vec<(u32, FailureReason)> =
        answer.failed.iter().map(|failure| (failure.row, failure.reason)).collect();
    let expected = [
        (1, FailureReason::Exception),
        (2, FailureReason::Exception),
        (3, FailureReason::WrongType),
    ];
    assert_eq!(failed, expected);
    let message = &answer.failed[0].message;
    assert!(message.starts_with("java.lang.IllegalStateException: thrown"), "{message}");
    let values = [0, 1, 2, 3, 4].map(|row| batch.text(&answer, "value", row));
    assert_eq!(values, ["x", "b", "c", "d", "y"]);
    assert!(answer.emitted.is_empty() && answer.dropped.is_empty());
    let rule = &operator.stats().unwrap().rules[0];
    assert_eq!((rule.rows, rule.failures), (5, 3));
}

#[test]
#[ignore = "run by every_java"]
fn every_row_may_fail() {
    let answer = Batch::new(&["throw"; 3000]).call(&operator());
    assert_eq!(answer.failed.len(), 3000);
    assert!(answer.columns.is_empty());
}

#[test]
#[ignore = "run by every_java"]
fn times_and_attributes_are_read_and_times_are_set() {
    let mut batch = Batch::new(&["place", "place", "time 2026-05-06T07:08:09.5Z", "place"]);
    batch.times = Some(vec![TIME_UNKNOWN, 1, 2, -1]);
    let answer = batch.call(&operator());
    assert!(answer.failed.is_empty(), "{:?}", answer.failed);
    let places = [0, 1, 3].map(|row| batch.text(&answer, "place", row));
    assert_eq!(
        places,
        [
            "production 2026-01-02T03:04:05Z",
            "production 1970-01-01T00:00:00.000000001Z",
            "production 1969-12-31T23:59:59.999999999Z"
        ]
    );
    let (kind, time) = batch.value(&answer, "timestamp", 2);
    assert_eq!((kind, &time[..20]), (Kind::Time, &b"2026-05-06T07:08:09."[..]));
    assert_eq!(batch.value(&answer, "timestamp", 1).0, Kind::Absent);
}

#[test]
#[ignore = "run by every_java"]
fn options_reach_the_class() {
    let mut spec = spec();
    spec.options = serde_json::from_str(r#"{"list":[1,"é"],"text":"x"}"#).unwrap();
    let operator = jvm().register(&spec).unwrap();
    let batch = Batch::new(&["option text", "option list"]);
    let answer = batch.call(&operator);
    assert_eq!(batch.text(&answer, "option", 0), "x");
    assert_eq!(batch.value(&answer, "option", 1), (Kind::Array, r#"[1,"é"]"#.into()));
}

fn fault(spec: &OperatorSpec) -> String {
    match jvm().register(spec) {
        Err(RegisterError::Fault { message, .. }) => message,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("was registered"),
    }
}

#[test]
#[ignore = "run by every_java"]
fn faults_of_a_jar_are_named() {
    let jar = Some("/does/not/exist.jar".into());
    assert!(fault(&OperatorSpec { jar, ..spec() }).contains("/does/not/exist.jar"));
    let class_name = Some("test.Missing".to_owned());
    assert!(fault(&OperatorSpec { class_name, ..spec() }).contains("test.Missing"));
    let class_name = Some("java.lang.String".to_owned());
    assert!(fault(&OperatorSpec { class_name, ..spec() }).contains("implements neither"));
    let mut refused = spec();
    refused.options = serde_json::from_str(r#"{"refuse":true}"#).unwrap();
    let operator = jvm().register(&refused).unwrap();
    let answer = Batch::new(&["keep", "keep"]).call(&operator);
    assert_eq!(answer.failed.len(), 2);
    assert!(answer.failed[1].message.contains("refused to open"), "{:?}", answer.failed);
}

#[test]
#[ignore = "run by every_java"]
fn the_buffer_grows_and_shrinks() {
    let message = format!("size {}", 1 << 20);
    let mut batch = Batch::new(&[message.as_str(); 24]);
    batch.own_column("value", &[&b"old"[..]; 24]);
    let operator = operator();
    let large = batch.call(&operator);
    assert!(large.failed.is_empty(), "{:?}", large.failed);
    for row in 0..24 {
        let (_, value) = batch.value(&large, "value", row);
        assert!(value.len() == 1 << 20 && value.iter().all(|byte| *byte == b'x'));
    }
    let mut small = Batch::new(&["change a"]);
    small.own_column("value", &[b"b"]);
    let answer = small.call(&operator);
    assert_eq!(small.text(&answer, "value", 0), "a");
    assert_eq!(large.buffer.len(), 24 << 20, "the first answer is still whole");
}

#[test]
#[ignore = "run by every_java"]
fn many_threads_call_and_end() {
    let operator = operator();
    let threads: Vec<_> = (0..64)
        .map(|index| {
            let operator = operator.clone();
            let call = move || {
                let argument = format!("change {index}");
                let mut batch = Batch::new(&[argument.as_str(), "keep"]);
                batch.own_column("value", &[b"a", b"b"]);
                let answer = batch.call(&operator);
                assert_eq!(batch.text(&answer, "value", 0), index.to_string());
            };
            thread::Builder::new().name(format!("worker-{index}")).spawn(call).unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let threads = jvm().stats().unwrap().threads;
    assert!(threads < 40, "{threads} threads are attached");
}

#[test]
#[ignore = "run by every_java"]
fn a_second_start_needs_the_same_options() {
    let start = |options: JvmOptions| match mode() {
        Mode::Inside => Jvm::start(&options).map(drop),
        Mode::Process => JvmProcess::open("test", &process_options(options)).map(drop),
    };
    let _kept = jvm();
    assert!(start(options()).is_ok());
    let other = JvmOptions { heap_bytes: 50 << 20, ..options() };
    assert!(matches!(start(other), Err(StartError::Different)));
}
