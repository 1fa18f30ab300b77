use super::Route;
use crate::tap::view::View;
use millstream_config::{self as config, Config, Registry};
use millstream_console::TapFormat;
use millstream_model::TapSide;
use millstream_model::tap::{Taps, Tracing};
use millstream_model::trace::{SamplePoint, Trace, TraceListener};
use millstream_model::{Batch, BatchBuilder, EngineTime, Ledger, Origin, OriginId, SinkSet};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

const CONFIG: &str = r#"
sources: { app: { type: stdin } }
transforms:
  parsed: { type: parse, inputs: [app], format: json, on_error: reject }
sinks: { out: { type: blackhole, inputs: [parsed] } }
"#;

fn config() -> Config {
    config_of(CONFIG)
}

fn config_of(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.yaml");
    std::fs::write(&path, text).unwrap();
    config::load(&[path], &Registry, &|_| None).unwrap_or_else(|faults| panic!("{}", faults[0]))
}

fn batch(lines: &[&str]) -> Batch {
    let (mut builder, mut block) = (BatchBuilder::default(), Vec::new());
    for line in lines {
        builder.row(line.as_bytes(), block.len());
        block.extend_from_slice(line.as_bytes());
        block.push(b'\n');
    }
    let ack = Ledger::new().issue(OriginId(1), 0..9, SinkSet::EMPTY, 0, EngineTime::ZERO);
    builder.segment(Arc::new(Origin::new(OriginId(1), "f")), 0, ack);
    builder.finish(block.into(), Arc::default(), SinkSet::EMPTY, 1_000_000_000)
}

/// Has room, and forgets traces.
struct Forgetful;

impl TraceListener for Forgetful {
    fn room(&self) -> Option<Arc<AtomicUsize>> {
        Some(Arc::default())
    }

    fn begin(&self, _: &Arc<Trace>) {}
}

/// Begins the trace of a batch that was read a millisecond ago.
fn begin(batch: &Batch) -> (Arc<Trace>, Tracing) {
    let (taps, listener) = (Taps::default(), Arc::new(Forgetful) as Arc<dyn TraceListener>);
    let point = taps.point(TapSide::Output, "app");
    let at = SamplePoint { side: TapSide::Output, id: "app".into(), output: 0 };
    let tracing = taps.trace(&["app".to_owned()], &at, &listener);
    (point.trace(&"app".into(), batch, 1_001_000_000).unwrap(), tracing)
}

fn line(trace: &Arc<Trace>, format: TapFormat) -> String {
    let mut view = View::new(Vec::new(), None, format);
    let followed = Route::new(&config()).line(trace, &mut view, format).unwrap();
    assert_eq!((followed.warning, followed.passed > 0), (None, true));
    String::from_utf8(followed.line.unwrap()).unwrap()
}

#[test]
fn a_line_has_the_steps_with_their_waits_and_notes() {
    let (batch, begun) = (batch(&["a", "b"]), Instant::now());
    let (trace, _tracing) = begin(&batch);
    // The event enters immediately, because it could wait on a busy machine.
    let mut parsed = trace.enter(&batch, begun);
    parsed.output("parsed", 0, &batch);
    parsed.leave(&"parsed".into());
    std::thread::sleep(Duration::from_millis(2));
    let encoded = trace.enter(&batch, Instant::now()).encoded(&"out".into(), &batch, true).unwrap();
    encoded.sent();
    encoded.failed(&"refused \u{1b}[2J");
    let json: Value = serde_json::from_str(&line(&trace, TapFormat::Json)).unwrap();
    assert_eq!((&json["event"]["message"], &json["complete"]), (&"a".into(), &false.into()));
    let steps = json["steps"].as_array().unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "run", "wait", "encode", "queue", "send"]);
    assert_eq!(
        (&steps[0]["seconds"], &steps[0]["note"]),
        (&0.001.into(), &"in a batch of 2".into())
    );
    assert_eq!((&steps[2]["component"], steps[1].get("note")), (&"out".into(), None));
    assert!(steps[2]["seconds"].as_f64() >= Some(0.002), "{json}");
    let note = "not settled yet; a failed attempt; last error: refused \u{1b}[2J";
    assert_eq!(steps[5]["note"], note);
}

/// The encoder produces no data from the event, like the encoder of the `blackhole` sink.
#[test]
fn an_event_of_which_an_encoder_makes_nothing_ends_there() {
    let batch = batch(&["a"]);
    let (trace, _tracing) = begin(&batch);
    assert!(trace.enter(&batch, Instant::now()).encoded(&"out".into(), &batch, false).is_none());
    let text = line(&trace, TapFormat::Text);
    assert!(text.contains(" ms  nothing to send\n") && !text.contains("queue"), "{text}");
}

#[test]
fn text_is_harmless_and_names_where_an_event_ends() {
    let (batch, begun) = (batch(&["\u{1b}[2Ja"]), Instant::now());
    let (trace, _tracing) = begin(&batch);
    // The event enters immediately, because it could wait on a busy machine.
    let mut parsed = trace.enter(&batch, begun);
    parsed.output("parsed", 1, &batch);
    parsed.leave(&"parsed".into());
    let text = line(&trace, TapFormat::Text);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "\\x1b[2Ja");
    assert_eq!(lines[1], "  app     read          1.000 ms  in a batch of 1");
    assert!(lines[2].starts_with("  parsed  run  "), "{text}");
    assert!(lines[2].ends_with("to parsed.rejected, which no component reads"), "{text}");
    assert!(lines[3].starts_with("  total ") && !lines[3].contains("so far"), "{text}");
    assert_eq!(lines.len(), 4, "{text}");
    let (dropped, _tracing) = begin(&batch);
    dropped.enter(&batch, Instant::now()).leave(&"parsed".into());
    assert!(line(&dropped, TapFormat::Text).contains(" ms  ends here\n"));
}

const TWO_SINKS: &str = r#"
sources: { app: { type: stdin } }
transforms:
  by: { type: route, inputs: [app], routes: { even: 'true', odd: 'true' } }
sinks:
  even: { type: blackhole, inputs: [by.even] }
  odd: { type: blackhole, inputs: [by.odd] }
"#;

/// Routes the first of two events to `even` and the second to `odd`.
fn routed(batch: &Batch) -> (Arc<Trace>, Tracing, [Batch; 2]) {
    let begun = Instant::now();
    let (trace, tracing) = begin(batch);
    let halves = [0, 1].map(|row| {
        let mut half = batch.clone();
        half.select_range(row, row + 1);
        half
    });
    let mut by = trace.enter(batch, begun);
    by.output("by", 1, &halves[0]);
    by.output("by", 2, &halves[1]);
    by.leave(&"by".into());
    (trace, tracing, halves)
}

#[test]
fn an_event_does_not_wait_for_the_others_of_its_batch() {
    let route = Route::new(&config_of(TWO_SINKS));
    let (batch, begun) = (batch(&["a", "b"]), Instant::now());
    let (trace, _tracing, [even, odd]) = routed(&batch);
    assert!(!route.is_done(&trace), "the sinks have not encoded them");
    // The events enter immediately, because they could wait on a busy machine.
    let enter = |batch: &Batch| trace.enter(batch, begun);
    let stalled = enter(&odd).encoded(&"odd".into(), &odd, true).unwrap();
    assert!(enter(&even).encoded(&"even".into(), &even, false).is_none());
    assert!(!route.is_done(&trace), "`odd` is not settled");
    std::thread::sleep(Duration::from_secs(1));
    let mut view = View::new(Vec::new(), None, TapFormat::Json);
    let line = route.line(&trace, &mut view, TapFormat::Json).unwrap().line.unwrap();
    let json: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!((&json["event"]["message"], &json["complete"]), (&"a".into(), &true.into()));
    assert!(json["total_seconds"].as_f64() < Some(1.0), "only its own steps count: {json}");
    let names: Vec<_> =
        json["steps"].as_array().unwrap().iter().map(|step| &step["step"]).collect();
    assert_eq!(names, ["read", "run", "encode"], "{json}");
    drop(stalled);
}

#[test]
fn a_sink_that_does_not_get_the_batch_is_named() {
    let route = Route::new(&config_of(TWO_SINKS));
    let batch = batch(&["a", "b"]);
    let (trace, _tracing, [even, odd]) = routed(&batch);
    trace.skip(&"even".into(), &even);
    trace.skip(&"odd".into(), &odd);
    let _held = trace.clone();
    assert!(route.is_done(&trace));
    let mut view = View::new(Vec::new(), None, TapFormat::Text);
    let line = route.line(&trace, &mut view, TapFormat::Text).unwrap().line.unwrap();
    let text = String::from_utf8(line).unwrap();
    assert!(text.contains("  even    skip  ") || text.contains("  even   skip  "), "{text}");
    assert!(text.contains("read for this component at another time"), "{text}");
}
