use super::{point, redactions, upstream};
use crate::tap::view::View;
use millstream_config::{self as config, Config, Registry};
use millstream_console::{TapFormat, TapRefusal};
use millstream_model::TapSide;
use millstream_model::{
    BatchBuilder, EngineTime, EventSample, Ledger, Origin, OriginId, SinkSet, VALUE_BYTES_MAX,
};
use std::sync::Arc;

/// `cleaned` is limited to a field, and reached with and without a parser upstream of it.
const CONFIG: &str = r#"
sources: { app: { type: stdin }, other: { type: stdin } }
transforms:
  parsed: { type: parse, inputs: [app], format: json, on_error: reject }
  few: { type: filter, inputs: [parsed], where: 'true' }
  cleaned: { type: redact, inputs: [few], fields: [mail], detect: [email] }
  split: { type: route, inputs: [other], routes: { cards: 'true' } }
  no_cards: { type: redact, inputs: [split.cards], detect: [card] }
sinks:
  out: { type: blackhole, inputs: [cleaned, no_cards, split] }
  raw: { type: http, inputs: [other, parsed.rejected], uri: 'http://127.0.0.1:1/' }
"#;

fn config(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.yaml");
    std::fs::write(&path, text).unwrap();
    config::load(&[path], &Registry, &|_| None).unwrap_or_else(|faults| panic!("{}", faults[0]))
}

/// A sample of lines.
fn sample(lines: &[&[u8]]) -> EventSample {
    let (mut builder, mut block) = (BatchBuilder::default(), Vec::new());
    for line in lines {
        builder.row(line, block.len());
        block.extend_from_slice(line);
        block.push(b'\n');
    }
    let ack = Ledger::new().issue(OriginId(1), 0..9, SinkSet::EMPTY, 0, EngineTime::ZERO);
    builder.segment(Arc::new(Origin::new(OriginId(1), "f")), 0, ack);
    let batch = builder.finish(block.into(), Arc::default(), SinkSet::EMPTY, 0);
    batch.sample(&(0..lines.len()).collect::<Vec<_>>())
}

/// Returns a line as a tap on an output shows it.
fn shown(config: &Config, name: &str, line: &[u8], format: TapFormat) -> String {
    let mut view = View::new(redactions(config, name).unwrap(), None, format);
    let shown = view.show(sample(&[line]), 9).unwrap();
    assert_eq!(shown.events, 1);
    String::from_utf8(shown.lines).unwrap()
}

#[test]
fn a_point_is_a_component_or_one_of_its_outputs() {
    let config = config(CONFIG);
    let found = |name: &str| point(&config, name);
    assert_eq!(found("app"), Ok((TapSide::Output, "app".to_owned(), 0)));
    assert_eq!(found("parsed.rejected"), Ok((TapSide::Output, "parsed".to_owned(), 1)));
    assert_eq!(found("split.cards"), Ok((TapSide::Output, "split".to_owned(), 1)));
    assert_eq!(found("out"), Ok((TapSide::Input, "out".to_owned(), 0)));
    let Err(TapRefusal::Unknown(text)) = found("raw.rejected") else { panic!() };
    assert!(text.starts_with("no component reads `raw.rejected`"), "{text}");
    for (name, near) in [("parse", "parsed"), ("split.card", "split.cards"), ("ot", "out")] {
        let Err(TapRefusal::Unknown(text)) = found(name) else { panic!("{name}") };
        let expected = format!(
            "no component or output is named `{name}`; did you mean `{near}`? The names are \
             `app`, `other`, `parsed`, `parsed.rejected`, `few`, `cleaned`, `split`, `split.cards`, \
             `no_cards`, `out`, `raw` and `raw.rejected`"
        );
        assert_eq!(text, expected);
    }
    let Err(TapRefusal::Unknown(text)) = found("xyzxyzxyz") else { panic!() };
    assert!(text.starts_with("no component or output is named `xyzxyzxyz`; the names are `app`"));
}

#[test]
fn a_refused_event_of_a_sink_has_a_point_if_it_is_read() {
    let read = CONFIG.replace("inputs: [cleaned", "inputs: [raw.rejected, cleaned");
    let found = point(&config(&read), "raw.rejected");
    assert_eq!(found, Ok((TapSide::Output, "raw.rejected".to_owned(), 0)));
}

#[test]
fn every_redaction_on_the_way_to_a_sink_is_applied() {
    let config = config(CONFIG);
    let line = b"a@example.com 4111 1111 1111 1111";
    let show = |name: &str| shown(&config, name, line, TapFormat::Text);
    assert_eq!(show("app"), "[email] 4111 1111 1111 1111\n");
    assert_eq!(show("other"), "a@example.com [card]\n");
    assert_eq!(show("split"), "a@example.com 4111 1111 1111 1111\n");
    assert_eq!(show("split.cards"), "a@example.com [card]\n");
    assert_eq!(show("parsed.rejected"), "a@example.com 4111 1111 1111 1111\n");
    for behind in ["cleaned", "out", "raw"] {
        assert_eq!(show(behind), "a@example.com 4111 1111 1111 1111\n", "{behind}");
    }
}

/// If the fields are the same as the fields that the redaction receives, only these fields are
/// searched, as for the sinks.
#[test]
fn a_limited_redaction_is_limited_only_where_the_fields_are_the_same() {
    let config = config(CONFIG);
    let line = br#"{"mail":"a@example.com"}"#;
    let show = |name: &str| shown(&config, name, line, TapFormat::Text);
    assert_eq!(show("app"), "{\"mail\":\"[email]\"}\n");
    // The message is not a field that the redaction searches.
    assert_eq!(show("parsed"), "{\"mail\":\"a@example.com\"}\n");
    assert_eq!(show("few"), show("parsed"));
}

#[test]
fn a_secret_across_the_cut_is_not_shown() {
    let config = config(CONFIG);
    let line = [vec![b'x'; VALUE_BYTES_MAX - 11], b" 4111 1111 1111 1111 z".to_vec()].concat();
    let json = shown(&config, "other", &line, TapFormat::Json);
    assert!(!json.contains("4111"), "{}", &json[json.len() - 300..]);
    let expected = format!("… (+{} bytes)", line.len() - (VALUE_BYTES_MAX - (8 << 10)));
    assert!(json.contains(&expected), "{}", &json[json.len() - 300..]);
    let key = [b"-----BEGIN RSA PRIVATE KEY-----\n".to_vec(), vec![b'k'; 100 << 10]].concat();
    let secrets = CONFIG.replace("detect: [card]", "detect: [key]");
    let text = shown(&self::config(&secrets), "other", &key, TapFormat::Text);
    assert!(!text.contains("kkk"), "{text:.200}");
}

#[test]
fn a_condition_selects_and_a_limit_ends() {
    let condition = millstream_components::util::condition::Condition::new("nam == 'x'").unwrap();
    let mut view = View::new(Vec::new(), Some(condition), TapFormat::Text);
    let shown = view.show(sample(&[b"a"]), 9).unwrap();
    assert_eq!((shown.events, shown.lines.len()), (0, 0));
    assert!(shown.warning.unwrap().contains("missing_field"));
    let condition = millstream_components::util::condition::Condition::new("message != 'b'");
    let mut view = View::new(Vec::new(), Some(condition.unwrap()), TapFormat::Text);
    let shown = view.show(sample(&[b"a", b"b", b"c", b"d"]), 2).unwrap();
    assert_eq!((shown.events, &shown.lines[..]), (2, &b"a\nc\n"[..]));
}

/// The second redaction would hide what the first one looks for.
#[test]
fn redactions_are_applied_in_the_order_of_the_flow() {
    let text = r#"
sources: { app: { type: stdin } }
transforms:
  hide: { type: redact, inputs: [app], detect: [], patterns: { pw: 'password=(\S+)' } }
  also: { type: redact, inputs: [hide], detect: [], patterns: { word: '(password)' }, replace: text, text: x }
sinks: { out: { type: blackhole, inputs: [also] } }
"#;
    let line = shown(&config(text), "app", b"login password=hunter2x ok", TapFormat::Text);
    assert_eq!(line.trim_end(), "login x=[pw] ok");
}

#[test]
fn events_of_an_output_come_from_what_is_before_it_up_to_sources_and_sinks() {
    let config = config(CONFIG);
    assert_eq!(upstream(&config, "app"), ["app"]);
    assert_eq!(upstream(&config, "cleaned"), ["app", "cleaned", "few", "parsed"]);
    assert_eq!(upstream(&config, "parsed.rejected"), ["app", "parsed"]);
    assert_eq!(upstream(&config, "raw.rejected"), ["raw.rejected"]);
    let before_raw = ["app", "other", "parsed", "raw"];
    assert_eq!(upstream(&config, "raw"), before_raw);
}
