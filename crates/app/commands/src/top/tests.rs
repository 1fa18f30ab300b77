//! Tests of the model and the screen, without a terminal and an agent.

use super::api::{Answer, Bottleneck, Diagnosis, Files, Part, Transform};
use super::data::Polled;
use super::keys;
use super::model::{Action, Model, Pane};
use super::table::Level;
use super::views::View;
use super::{draw, interval, is_dumb};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

fn component(id: &str, kind: &str, sent: u64) -> Value {
    json!({
        "id": id, "kind": kind, "type": "file", "sent_events": sent, "sent_bytes": sent * 100,
        "received_events": sent, "dropped_events": { "long_line": 3 }, "errors": {},
        "utilization_ratio": 0.5,
    })
}

fn snapshot(uptime: f64, sent: u64) -> Value {
    let mut source = component("app", "source", sent);
    source["sinks"] = json!([
        { "sink": "out", "lag": 4096, "lag_seconds": 2.5 },
        { "sink": "b", "lag": 9, "lag_seconds": 75.0 },
    ]);
    source["held"] = json!({ "files": 2, "bytes": 512, "bytes_max": 1024 });
    let mut metrics = component("statsd", "source", 7);
    metrics["series"] = json!(1234);
    let mut sink = component("out", "sink", sent);
    sink["buffer_bytes"] = json!(2048);
    sink["error"] = json!("refused\u{1b}[2J");
    sink["disk_buffer"] = json!({ "bytes": 1, "bytes_max": 2, "full_in_seconds": 3700.0 });
    json!({
        "version": "1.2.3", "cpu_seconds": uptime, "uptime_seconds": uptime,
        "memory": { "limit_bytes": 1 << 29, "resident_bytes": 1 << 28, "pressure": "low" },
        "components": [source, metrics, sink],
        "jvm": { "heap_used_bytes": 1 << 20, "heap_bytes_max": 1 << 24 },
        "a part of a newer agent": [1],
    })
}

fn answer<T: serde::de::DeserializeOwned>(json: &Value) -> Answer<T> {
    Answer::parse(json.to_string().as_bytes()).unwrap()
}

fn take(model: &mut Model, uptime: f64, sent: u64) {
    let snapshot = Some(Ok(answer(&snapshot(uptime, sent))));
    model.take(Polled { snapshot, ..Polled::default() });
}

fn model() -> Model {
    let mut model = Model::default();
    take(&mut model, 60.0, 1000);
    take(&mut model, 62.0, 3000);
    model
}

/// Draws the screen; returns its lines.
fn draw_on(model: &mut Model, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw::draw(frame, model, true)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..rows).map(line).collect()
}

fn press(model: &mut Model, keys: &str) {
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            _ => KeyCode::Char(c),
        };
        let action = keys::action(model, KeyEvent::new(code, KeyModifiers::NONE));
        action.into_iter().for_each(|action| model.act(action));
    }
}

fn row<'l>(lines: &'l [String], id: &str) -> Option<&'l str> {
    let is_it = |line: &&String| line.split_whitespace().next() == Some(id);
    lines.iter().find(is_it).map(String::as_str)
}

#[test]
fn components_show_rates_and_the_worst_sink() {
    let mut model = model();
    let lines = draw_on(&mut model, 120, 12);
    let cells: Vec<&str> = row(&lines, "app").unwrap().split_whitespace().collect();
    let expected =
        ["app", "file", "source", "1k", "1k", "0.10", "50%", "4KiB", "1m15s", "0", "0", "-"];
    assert_eq!(cells, [&expected[..], &["-", "-"]].concat(), "{lines:#?}");
    assert!(lines[0].starts_with("millstream 1.2.3  up 1m2s  CPU 100%  memory 256MiB/512MiB low"));
    assert!(row(&lines, "out").unwrap().contains("2KiB"));
    // The columns of the highest rank are omitted first.
    let lines = draw_on(&mut model, 80, 24);
    assert!(lines[3].contains("lag") && lines[3].contains("out/s"), "{lines:#?}");
    assert!(lines.iter().all(|line| line.chars().count() == 80));
}

#[test]
fn no_size_panics_and_a_small_window_says_so() {
    for keys in ["", "2", "3", "4", "5", "?", "\n", "/x"] {
        for (columns, rows) in [(1, 1), (10, 3), (29, 8), (30, 8), (31, 9), (80, 24), (300, 100)] {
            let mut model = model();
            press(&mut model, keys);
            let lines = draw_on(&mut model, columns, rows);
            let is_small = columns < 30 || rows < 8;
            let says_so = lines[0].starts_with(&"window too small"[..usize::from(columns).min(16)]);
            assert_eq!(says_so, is_small, "{keys:?} {columns}x{rows}: {lines:#?}");
        }
    }
    let lines = |columns, rows| draw_on(&mut model(), columns, rows);
    assert_eq!(lines(10, 3), ["window too", "small     ", "          "]);
    assert_eq!(lines(10, 1), ["too small "]);
    assert_eq!(lines(6, 3), ["window", "too   ", "small "]);
}

#[test]
fn a_sink_whose_endpoint_refuses_events_fails() {
    let refuses = json!({ "source": "app", "status": "degraded", "cause": "endpoint_refuses",
        "component": "out" });
    let mut other = refuses.clone();
    (other["cause"], other["component"]) = (json!("parse_failures"), json!("app"));
    let mut with_other = other.clone();
    with_other["also"] = json!([refuses]);
    let mut healthy = snapshot(64.0, 3000);
    healthy["components"][2]["error"] = Value::Null;
    for (found, expected, level) in [
        (refuses, ["failing", "endpoint_refuses"], Level::Bad),
        (with_other, ["failing", "endpoint_refuses"], Level::Bad),
        (other, ["-", "-"], Level::Good),
    ] {
        let mut model = model();
        let diagnosis: Answer<Diagnosis> = answer(&json!({ "sources": [found] }));
        let diagnosis = Some(Part::Known(diagnosis.value));
        let snapshot = Some(Ok(answer(&healthy)));
        model.take(Polled { snapshot, diagnosis, ..Polled::default() });
        let lines = draw_on(&mut model, 100, 24);
        let cells: Vec<&str> = row(&lines, "out").unwrap().split_whitespace().collect();
        assert_eq!(cells[cells.len() - 2..], expected, "{lines:#?}");
        let rows = model.table().rows;
        assert_eq!(rows.iter().find(|row| row.key == "sink out").unwrap().level, level);
        press(&mut model, "G\n");
        let text = draw_on(&mut model, 100, 40).join("\n");
        let says_so = text.contains("degraded, cause endpoint_refuses at out");
        assert_eq!(says_so, level == Level::Bad, "{text}");
    }
}

#[test]
fn late_sources_and_failing_sinks_are_first_by_status() {
    let mut model = model();
    let status = |source: &str, status: &str, cause: Option<&str>| json!({ "source": source, "status": status, "cause": cause, "component": "out" });
    let diagnosis: Answer<Diagnosis> = answer(&json!({ "sources": [
        status("app", "healthy", None), status("statsd", "late", Some("endpoint_unreachable")),
    ]}));
    let mut failing = snapshot(64.0, 3000);
    failing["components"][2]["failure"] =
        json!({ "kind": "connect", "message": "refused\u{1b}", "seconds": 75.0, "attempts": 12 });
    let snapshot = Some(Ok(answer(&failing)));
    let diagnosis = Some(Part::Known(diagnosis.value));
    model.take(Polled { snapshot, diagnosis, ..Polled::default() });
    let lines = draw_on(&mut model, 80, 24);
    for (id, status, cause) in [
        ("app", "healthy", "-"),
        ("statsd", "late", "endpoint_unreachable"),
        ("out", "failing", "connect"),
    ] {
        let cells: Vec<&str> = row(&lines, id).unwrap().split_whitespace().collect();
        assert_eq!(cells[cells.len() - 2..], [status, cause], "{lines:#?}");
    }
    press(&mut model, "<<");
    let keys: Vec<String> = model.table().rows.into_iter().map(|row| row.key).collect();
    assert_eq!(keys, ["source statsd", "sink out", "source app"]);
    // The details of the sink, and of the source that waits for the sink.
    for key in ["g", "j"] {
        press(&mut model, &format!("{key}\n"));
        let text = draw_on(&mut model, 100, 40).join("\n");
        let expected = "sink out fails: connect: refused\\u{1b}; 12 attempts in 1m15s";
        assert!(text.contains(expected), "{key}: {text}");
        press(&mut model, "\u{1b}");
    }
    press(&mut model, "g\n");
    let text = draw_on(&mut model, 100, 40).join("\n");
    assert!(text.contains("late, cause endpoint_unreachable at out"), "{text}");
}

#[test]
fn a_degraded_source_is_marked() {
    let mut model = model();
    let diagnosis: Answer<Diagnosis> = answer(&json!({ "sources": [
        { "source": "app", "status": "degraded", "cause": "wrong_encoding" }]}));
    model.take(Polled { diagnosis: Some(Part::Known(diagnosis.value)), ..Polled::default() });
    assert_eq!(model.table().rows[0].level, Level::Warning);
}

#[test]
fn what_cannot_be_read_is_first_among_the_files() {
    let mut model = model();
    let files: Answer<Files> = answer(&json!({ "total": 1,
        "files": [{ "source": "app", "file_id": "1", "path": "/log/a", "status": "active" }],
        "unreadable": [{ "source": "app", "path": "/log/b", "reason": "permission denied" }] }));
    model.take(Polled { files: Some(files), ..Polled::default() });
    press(&mut model, "2");
    let lines = draw_on(&mut model, 80, 24);
    assert!(row(&lines, "/log/b").unwrap().contains("unreadable: permission denied"), "{lines:#?}");
    assert!(row(&lines, "/log/a").unwrap().contains("active"), "{lines:#?}");
    let table = model.table();
    assert_eq!((table.rows[0].level, table.rows[1].level), (Level::Bad, Level::Good));
    press(&mut model, "g\n");
    let text = draw_on(&mut model, 80, 24).join("\n");
    assert!(text.contains("reason: permission denied"), "{text}");
}

#[test]
fn before_the_first_answer_the_screen_is_empty() {
    let mut model = Model::default();
    for view in View::ALL {
        model.act(Action::Show(view));
        model.act(Action::Enter);
        assert_eq!(model.pane, Pane::None);
        assert!(draw_on(&mut model, 80, 24)[0].starts_with("millstream  no response yet"));
    }
}

#[test]
fn the_selection_stays_with_its_row() {
    let mut model = model();
    press(&mut model, "j");
    let selected = |model: &mut Model| {
        let table = model.table();
        let place = model.select(&table);
        table.rows[place].key.clone()
    };
    assert_eq!(selected(&mut model), "source statsd");
    press(&mut model, ">r");
    assert_eq!(selected(&mut model), "source statsd");
    press(&mut model, "g");
    assert_eq!(selected(&mut model), "source statsd");
    press(&mut model, "G");
    assert_eq!(selected(&mut model), "source app");
    press(&mut model, "kkkkk");
    assert_eq!(selected(&mut model), "source statsd");
}

#[test]
fn a_filter_is_typed_kept_and_removed() {
    let mut model = model();
    press(&mut model, "/STATq");
    assert!(!model.is_over && model.is_typing);
    assert_eq!(model.table().rows.len(), 0);
    model.act(Action::Erase);
    press(&mut model, "\n");
    assert_eq!((model.table().rows.len(), model.is_typing), (1, false));
    let lines = draw_on(&mut model, 100, 12);
    assert!(lines[2].contains("filter: STAT"), "{lines:#?}");
    press(&mut model, "\u{1b}");
    assert_eq!(model.table().rows.len(), 3);
    press(&mut model, "q");
    assert!(model.is_over);
}

#[test]
fn a_long_table_scrolls() {
    let mut model = Model::default();
    let components: Vec<Value> =
        (0..100).map(|n| component(&format!("c{n:02}"), "sink", 1)).collect();
    let snapshot = answer(&json!({ "uptime_seconds": 1.0, "components": components }));
    model.take(Polled { snapshot: Some(Ok(snapshot)), ..Polled::default() });
    assert!(row(&draw_on(&mut model, 80, 15), "c09").is_some());
    let lines = draw_on(&mut model, 80, 15);
    assert!(row(&lines, "c10").is_none() && lines[2].ends_with("  90 more below"), "{lines:#?}");
    model.act(Action::Page(1));
    let lines = draw_on(&mut model, 80, 15);
    assert!(
        row(&lines, "c10").is_some() && lines[2].ends_with("  1 above, 89 below"),
        "{lines:#?}"
    );
    model.act(Action::Last);
    let lines = draw_on(&mut model, 80, 15);
    assert!(row(&lines, "c99").is_some() && row(&lines, "c90").is_some(), "{lines:#?}");
    assert!(lines[2].ends_with("  90 more above"), "{lines:#?}");
    assert!(!draw_on(&mut model, 80, 120)[2].contains("more"));
    draw_on(&mut model, 80, 15);
    // A taller window shows more rows and no empty rows.
    let lines = draw_on(&mut model, 80, 35);
    assert!(row(&lines, "c70").is_some() && row(&lines, "c99").is_some(), "{lines:#?}");
    model.act(Action::First);
    assert!(row(&draw_on(&mut model, 80, 15), "c00").is_some());
}

#[test]
fn a_failure_is_shown_above_dimmed_values() {
    let mut model = model();
    let failure = Some(Err("no agent\u{1b}[2J".to_owned()));
    model.take(Polled { snapshot: failure, ..Polled::default() });
    let lines = draw_on(&mut model, 80, 24);
    assert!(lines[1].starts_with("not connected: no agent\\u{1b}[2J, retrying"), "{lines:#?}");
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw::draw(frame, &mut model, true)).unwrap();
    let y = lines.iter().position(|line| line.starts_with("app")).unwrap() as u16;
    assert!(terminal.backend().buffer()[(0, y)].modifier.contains(Modifier::DIM));
    take(&mut model, 1.0, 5);
    assert!(!draw_on(&mut model, 80, 24)[1].contains("not connected"));
}

#[test]
fn without_color_what_is_bad_is_bold() {
    let mut model = model();
    press(&mut model, "k");
    let mut styles = |has_color: bool| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw::draw(frame, &mut model, has_color)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let has = |is: &dyn Fn(&ratatui::buffer::Cell) -> bool| buffer.content().iter().any(is);
        let colored = has(&|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        let y = (0..24).find(|y| buffer[(0, *y)].symbol() == "o").unwrap();
        (colored, buffer[(0, y)].modifier.contains(Modifier::BOLD))
    };
    assert_eq!((styles(true), styles(false)), ((true, false), (false, true)));
}

#[test]
fn details_have_every_counter_the_cause_and_the_advice() {
    let mut model = model();
    let diagnosis: Answer<Diagnosis> = answer(&json!({ "late": true, "sources": [{
        "source": "app", "status": "late", "cause": "sink_slow", "since": "2026-11-27T10:00:00Z",
        "advice": "raise batch\u{202e}.bytes", "also": [{ "status": "warning", "cause": "cpu" }],
    }]}));
    let bottleneck: Answer<Bottleneck> = answer(&json!({
        "component": "app", "kind": "source", "reason": "reads slowly", "confidence": 0.8,
        "numbers": {}, "advice": "look at the disk",
    }));
    let (diagnosis, bottleneck) =
        (Some(Part::Known(diagnosis.value)), Some(Part::Known(bottleneck.value)));
    model.take(Polled { diagnosis, bottleneck, ..Polled::default() });
    let lines = draw_on(&mut model, 100, 24);
    assert!(lines[0].contains("late sources 1"), "{lines:#?}");
    assert!(lines[1].starts_with("bottleneck: app: reads slowly (80% sure)"), "{lines:#?}");
    press(&mut model, "\n");
    let text = draw_on(&mut model, 100, 60).join("\n");
    for expected in [
        "diagnosis: late, cause sink_slow, since 2026-11-27T10:00:00Z",
        "advice: raise batch\\u{202e}.bytes",
        "diagnosis: warning, cause cpu",
        "bottleneck: reads slowly",
        "dropped_events.long_line: 3",
        "sinks.1.lag_seconds: 75.0",
        "held.bytes_max: 1024",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    model.act(Action::Last);
    assert!(draw_on(&mut model, 100, 12).join("\n").contains("held.bytes_max"));
    model.act(Action::Move(-1));
    assert!(matches!(model.pane, Pane::Details(line) if line < 1000));
    press(&mut model, "\u{1b}");
    assert_eq!(model.pane, Pane::None);
}

#[test]
fn an_agent_without_a_diagnosis_is_older() {
    let mut model = model();
    let (diagnosis, bottleneck) = (Some(Part::Missing), Some(Part::Missing));
    model.take(Polled { diagnosis, bottleneck, ..Polled::default() });
    let lines = draw_on(&mut model, 100, 24);
    assert!(
        lines[0].contains("late sources ?") && lines[1].contains("the agent is an older release")
    );
}

#[test]
fn a_file_that_floods_is_marked() {
    let mut model = model();
    let file = |n: u32, rate: f64| {
        json!({ "source": "app", "file_id": n.to_string(), "path": format!("/log/\u{1b}{n}"),
                "status": "active", "held_by": null, "lag_bytes": n,
                "log_delay_seconds": null, "rate_bytes_per_second": rate })
    };
    let files: Answer<Files> =
        answer(&json!({ "total": 9, "files": [file(1, 9e6), file(2, 1e6)] }));
    model.take(Polled { files: Some(files), ..Polled::default() });
    press(&mut model, "2");
    let lines = draw_on(&mut model, 100, 24);
    let flooding = row(&lines, "/log/\\u{1b}1").unwrap();
    assert!(flooding.contains("9.00") && flooding.contains("90%"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("the 2 of 9 files")), "{lines:#?}");
    let levels: Vec<_> = model.table().rows.iter().map(|row| row.level).collect();
    assert_ne!(levels[0], levels[1]);
    press(&mut model, "\n");
    assert!(draw_on(&mut model, 100, 24).join("\n").contains("rate_bytes_per_second: 9000000.000"));
}

#[test]
fn series_rules_and_memory_have_their_rows() {
    let mut model = model();
    press(&mut model, "3");
    assert!(row(&draw_on(&mut model, 100, 24), "statsd").unwrap().contains("1.2k"));
    let rules: Answer<Vec<Transform>> =
        answer(&json!([{ "transform": "web", "total": 1, "tasks": [
        { "task": "slow", "examined": 10, "matched": 4, "time_share": 0.75, "groups": 3,
          "memory_bytes": 100, "emit_delay_seconds_max": 1.5, "overdue_windows": 0 }]}]));
    model.take(Polled { rules: Some(rules), ..Polled::default() });
    press(&mut model, "4");
    assert!(row(&draw_on(&mut model, 100, 24), "slow").unwrap().contains("75%"));
    press(&mut model, "\n");
    assert!(draw_on(&mut model, 100, 24).join("\n").contains("overdue_windows: 0"));
    press(&mut model, "5");
    let text = draw_on(&mut model, 100, 24).join("\n");
    for expected in [
        "resident memory",
        "JVM heap",
        "held by source app",
        "disk buffer of sink out",
        "full in 1h1m",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn control_keys_and_views_turn_around() {
    let mut model = model();
    let with_control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!(keys::action(&model, with_control('c')), Some(Action::Quit));
    assert_eq!(keys::action(&model, with_control('z')), Some(Action::Suspend));
    model.act(Action::Turn(-1));
    assert_eq!(model.view, View::Memory);
    press(&mut model, "\t");
    assert_eq!(model.view, View::Components);
    for _ in 0..15 {
        model.act(Action::SortBy(1));
    }
    assert_eq!(model.sort().column, None);
    model.act(Action::SortBy(-1));
    assert_eq!(model.sort().column, Some(13));
}

#[test]
fn intervals_and_terminals_are_checked() {
    assert!(interval("100ms").is_ok() && interval("1h").is_ok());
    assert!(interval("99ms").is_err() && interval("2h").is_err() && interval("x").is_err());
    assert!(is_dumb(None) && is_dumb(Some("dumb")) && !is_dumb(Some("xterm")));
}
