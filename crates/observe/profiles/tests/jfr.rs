//! Files in Flight Recorder format, read by the `jfr` tool of every JDK on the host.

#[path = "../../recorder/tests/jdk/tool.rs"]
mod tool;

use millstream_profiles::{About, Frame, FrameId, FrameKind, Profile, write_jfr};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use tempfile::NamedTempFile;
use tool::{Jdk, jdks};

const DURATION_NS: u64 = 2_000_000_000;

fn about(event: &str) -> About {
    About {
        title: "millstream, process 1".to_owned(),
        event: event.to_owned(),
        interval_ns: 10_000_000,
        duration_ns: DURATION_NS,
        // 2026-11-26T18:30:00Z.
        start_unix_ns: 1_795_717_800_000_000_000,
        notes: vec!["a note".to_owned()],
    }
}

fn thread(name: &str) -> Frame {
    Frame::named(name, FrameKind::Thread)
}

fn rust(name: &str, line: u32) -> Frame {
    let module = Some("millstream".to_owned());
    Frame { line: Some(line), module, ..Frame::named(name, FrameKind::Rust) }
}

/// Returns stacks of two threads of a component, and of one thread without a component.
fn profile() -> Profile {
    let mut profile = Profile::new(about("cpu"));
    let app = || Frame::named("app", FrameKind::Component);
    let fill = || rust("tail::source::FileSource::fill", 70);
    let inlined = Frame { is_inlined: true, ..rust("kernel (scan.rs)", 9) };
    let copy = Frame { module: Some("libc.so.6".into()), ..Frame::named("memcpy", FrameKind::C) };
    let read = Frame::named("vfs_read", FrameKind::Kernel);
    let mut add = |frames: Vec<Frame>, samples| {
        let ids: Vec<FrameId> = frames.into_iter().map(|frame| profile.frame(frame)).collect();
        profile.add(&ids, samples);
    };
    add(vec![thread("worker-0"), app(), fill(), inlined], 40);
    add(vec![thread("worker-1"), app(), fill(), copy], 15);
    add(vec![thread("worker-1"), app()], 4);
    add(vec![thread("network"), rust("<a::B<&str> as c::D>::poll", 3), read], 1);
    profile
}

fn file(profile: &Profile) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".jfr").tempfile().unwrap();
    write_jfr(profile, &mut file).unwrap();
    file.flush().unwrap();
    file
}

/// Returns the number of events of a type, according to `jfr summary`. JDK 17 prints `CheckPoint`.
fn counted(jdk: &Jdk, file: &NamedTempFile, name: &str) -> u64 {
    let text = jdk.run(&["summary"], file.path());
    let cells = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = cells
        .into_iter()
        .find(|cells| cells.first().is_some_and(|cell| cell.eq_ignore_ascii_case(name)));
    row.unwrap_or_else(|| panic!("{text}"))[1].parse().unwrap()
}

fn samples(jdk: &Jdk, file: &NamedTempFile) -> Vec<Value> {
    let arguments = ["print", "--json", "--stack-depth", "64", "--events", "jdk.ExecutionSample"];
    let text = jdk.run(&arguments, file.path());
    let mut parsed: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("JDK {}: {error}: {text}", jdk.version);
    });
    let events = parsed["recording"]["events"].take();
    events.as_array().unwrap().iter().map(|event| event["values"].clone()).collect()
}

/// Formats a stack as text, top frame first.
fn shown(sample: &Value) -> String {
    let frame = |frame: &Value| {
        let (method, line) = (&frame["method"], frame["lineNumber"].as_i64().unwrap());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let class = text(&method["type"]["name"]);
        format!("{class} {} {line} {}", text(&method["name"]), text(&frame["type"]))
    };
    let frames = sample["stackTrace"]["frames"].as_array().unwrap();
    let frames: Vec<String> = frames.iter().map(frame).collect();
    format!("{}: {}", sample["sampledThread"]["osName"].as_str().unwrap(), frames.join("; "))
}

#[test]
fn each_jdk_prints_every_sample_with_its_thread_and_whole_stack() {
    let file = file(&profile());
    for jdk in jdks() {
        assert_eq!(counted(&jdk, &file, "jdk.ExecutionSample"), 60);
        let mut stacks = BTreeMap::<String, u64>::new();
        for sample in samples(&jdk, &file) {
            assert_eq!(sample["state"], "STATE_RUNNABLE");
            assert_eq!(sample["stackTrace"]["truncated"], false);
            *stacks.entry(shown(&sample)).or_default() += 1;
        }
        let fill = "tail::source::FileSource fill 70 Native; component app -1 Native";
        let expected = [
            (
                "network: kernel vfs_read -1 Kernel; <a::B<&str> as c::D> poll 3 Native; \
                 thread network -1 Native"
                    .to_owned(),
                1,
            ),
            (format!("worker-0: millstream kernel (scan.rs) 9 Inlined; {fill}"), 40),
            ("worker-1: component app -1 Native".to_owned(), 4),
            (format!("worker-1: libc.so.6 memcpy -1 Native; {fill}"), 15),
        ];
        assert_eq!(stacks, BTreeMap::from(expected), "JDK {}", jdk.version);
    }
}

#[test]
fn samples_are_spread_over_the_duration() {
    let file = file(&profile());
    for jdk in jdks() {
        let all = samples(&jdk, &file);
        let time = |sample: &Value| sample["startTime"].as_str().unwrap().replace('Z', "");
        let times: Vec<String> = all.iter().map(time).collect();
        assert!(times.is_sorted(), "{times:?}");
        // These are the first and the last of 40 samples.
        assert!(times[0].contains("T18:30:00.025"), "{}", times[0]);
        assert!(times[59].contains("T18:30:01.975"), "{}", times[59]);
    }
}

#[test]
fn tools_for_people_show_methods_and_settings() {
    let file = file(&profile());
    for jdk in jdks() {
        let text = jdk.run(&["print", "--events", "jdk.ExecutionSample"], file.path());
        assert!(text.contains("tail::source::FileSource.fill() line: 70"), "{text}");
        assert!(text.contains("sampledThread = \"worker-0\""), "{text}");
        let text = jdk.run(&["print", "--events", "jdk.ActiveSetting"], file.path());
        assert!(text.contains("\"10 ms\""), "{text}");
        if jdk.version >= 21 {
            let text = jdk.run(&["view", "--width", "160", "hot-methods"], file.path());
            let row = |name: &str| text.lines().find(|line| line.contains(name)).map(str::trim);
            let kernel = row("millstream.kernel (scan.rs)").unwrap_or_else(|| panic!("{text}"));
            assert!(kernel.contains("40") && kernel.ends_with("66.67%"), "{text}");
        }
    }
}

/// The samples fill more than one chunk. Each chunk refers to the same stacks, but has separate
/// pools.
#[test]
fn a_long_profile_has_several_chunks() {
    let mut profile = Profile::new(about("wall"));
    let stacks: Vec<FrameId> =
        (0..7).map(|number| profile.frame(rust(&format!("a::f{number}"), number))).collect();
    stacks.iter().for_each(|id| profile.add(&[*id], 100_000));
    let file = file(&profile);
    for jdk in jdks() {
        assert_eq!(counted(&jdk, &file, "jdk.ExecutionSample"), 700_000);
        assert!(counted(&jdk, &file, "jdk.Metadata") > 1);
        assert_eq!(counted(&jdk, &file, "jdk.Metadata"), counted(&jdk, &file, "jdk.Checkpoint"));
    }
}

#[test]
fn a_profile_without_samples_is_a_file_without_events() {
    let file = file(&Profile::new(About::default()));
    for jdk in jdks() {
        assert_eq!(counted(&jdk, &file, "jdk.ExecutionSample"), 0);
    }
}
