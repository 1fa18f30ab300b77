//! Tests flame graphs: the image, and the page in a browser.

use millstream_profiles::{
    About, Frame, FrameId, FrameKind, Profile, write_diff_html, write_diff_svg, write_html,
    write_svg,
};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn about() -> About {
    About {
        title: "millstream, process 1".to_owned(),
        event: "cpu".to_owned(),
        interval_ns: 10_000_000,
        duration_ns: 15_000_000_000,
        start_unix_ns: 0,
        notes: Vec::new(),
    }
}

fn kind_of(name: &str) -> FrameKind {
    match name {
        "app" | "out" => FrameKind::Component,
        "network" => FrameKind::Thread,
        "memcpy" | "rd_kafka_poll" => FrameKind::C,
        _ => FrameKind::Rust,
    }
}

fn profile(stacks: &[(&str, u64)]) -> Profile {
    let mut profile = Profile::new(about());
    for (stack, samples) in stacks {
        let frames = stack.split(';').map(|name| Frame::named(name, kind_of(name)));
        let ids: Vec<FrameId> = frames.map(|frame| profile.frame(frame)).collect();
        profile.add(&ids, *samples);
    }
    profile
}

/// Returns a profile with names that could break a page or an image.
fn busy() -> Profile {
    profile(&[
        ("app;millstream_tail::source::FileSource::fill;millstream_scan::kernel_of_lines", 400),
        ("app;millstream_tail::source::FileSource::fill;memcpy", 200),
        ("app;millstream_tail::source::FileSource::fill", 40),
        ("out;<serde::Ser<&str> as \"X\">::write;millstream_scan::kernel_of_json", 300),
        ("out;</script><script>alert(1)</script>;memcpy", 30),
        ("network;tokio::runtime::park;rd_kafka_poll", 29),
        ("network;control\u{1}\u{fffe}bytes", 1),
    ])
}

fn svg(profile: &Profile) -> String {
    let mut bytes = Vec::new();
    write_svg(profile, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_picture_has_a_rectangle_for_each_frame_as_wide_as_its_share() {
    let svg = svg(&profile(&[("app;f", 3), ("out", 1)]));
    let frame = |title: &str| {
        let line = svg.lines().find(|line| line.contains(title)).unwrap_or_else(|| panic!("{svg}"));
        let attribute = |key: &str| {
            let from = line.split(&format!(" {key}=\"")).nth(1).unwrap();
            from.split('"').next().unwrap().parse::<f64>().unwrap()
        };
        (attribute("x"), attribute("width"), attribute("y"))
    };
    let (app, f, out) =
        (frame("<title>app"), frame("<title>f (Rust): 3 samples, 75.00%"), frame("<title>out"));
    assert_eq!((app.0, app.1), (10.0, 885.0));
    assert_eq!((f.0, f.1), (10.0, 885.0));
    assert_eq!((out.0, out.1), (895.0, 295.0));
    assert!(f.2 < app.2 && app.2 == out.2, "the root is at the bottom");
    assert!(svg.contains("4 samples of cpu in 15.0 s every 10 ms"), "{svg}");
}

#[test]
fn pictures_are_xml_whatever_the_names_are() {
    let long = "x".repeat(10_000);
    let deep: String = (0..200).map(|depth| format!("f{depth};")).collect::<String>() + &long;
    for stacks in [&[(deep.as_str(), 5)][..], &[][..]] {
        roundtrip_xml(&svg(&profile(stacks)));
    }
    roundtrip_xml(&svg(&busy()));
    let mut bytes = Vec::new();
    write_diff_svg(&busy(), &profile(&[("app", 1)]), &mut bytes).unwrap();
    roundtrip_xml(&String::from_utf8(bytes).unwrap());
}

/// Checks that Python's parser accepts a text as XML.
fn roundtrip_xml(text: &str) {
    use std::io::Write;
    use std::process::Stdio;
    let script =
        "import sys, xml.dom.minidom; xml.dom.minidom.parseString(sys.stdin.buffer.read())";
    let mut python = Command::new("python3");
    let mut child = python.args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{:.300}", text);
}

#[test]
fn narrow_frames_are_left_out_of_a_picture_and_counted() {
    let svg = svg(&profile(&[("app;wide", 1_000_000), ("app;narrow", 1)]));
    assert!(!svg.contains("narrow ("), "{svg}");
    assert!(svg.contains("1 narrower frames are not shown"), "{svg}");
}

/// Opens a page in Chromium and returns what the page shows. If the `PICTURES` variable is set, it
/// names a folder for screenshots.
fn used(page: &Path) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let installed = Command::new(root.join("scripts/clients")).arg("browser").output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let folder = String::from_utf8(installed.stdout).unwrap();
    let mut command = Command::new(Path::new(folder.trim()).join("run"));
    command.arg(page).args(std::env::var_os("PICTURES"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_page_is_searched_and_zoomed_by_keyboard_and_mouse() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("flame.html");
    let mut file = std::fs::File::create(&page).unwrap();
    write_html(&busy(), &mut file).unwrap();
    let seen = used(&page);
    assert_eq!(seen["errors"], serde_json::json!([]));
    assert_eq!(seen["title"], "millstream, process 1");
    assert_eq!(seen["found"], "2 frames, 70.00%");
    assert_eq!(seen["expression"], "1 frames, 64.00%");
    assert_eq!(seen["wrong"], "not a regular expression");
    let path = |at: usize| seen["path"][at].as_str().unwrap().to_owned();
    let fill = "millstream_tail::source::FileSource::fi…";
    assert_eq!(path(0), format!("all›app›{}›millstream_scan::kernel_of_lines", fill));
    assert_eq!(path(1), format!("all›app›{fill}"));
    assert_eq!((path(2), path(3)), ("all".to_owned(), "all›app".to_owned()));
    let detail = |at: usize| seen["details"][at].as_str().unwrap();
    assert!(
        detail(0)
            .starts_with("millstream_scan::kernel_of_lines (Rust) · 400 samples, 40.00% of all"),
        "{seen}"
    );
    assert!(detail(1).starts_with("app (component) · 640 samples"), "{seen}");
    assert!(detail(2).contains("FileSource::fill (Rust) · 640 samples"), "{seen}");
    assert!(detail(2).contains("self 40, 4.00%"), "{seen}");
    assert_eq!(seen["functions"][0], "40.00%40.00%millstream_scan::kernel_of_lines");
    assert_eq!(seen["functions"][2], "23.00%23.00%memcpy");
    assert_eq!(seen["byTotal"][0], "0.00%64.00%app");
    assert_eq!(seen["searched"], "/^app$/");
}

#[test]
fn a_page_of_two_profiles_shows_what_changed() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("diff.html");
    let before = profile(&[("app;millstream_scan::kernel_of_lines", 100), ("app;f", 300)]);
    let mut file = std::fs::File::create(&page).unwrap();
    let after = profile(&[("app;millstream_scan::kernel_of_lines", 100), ("app;f", 100)]);
    write_diff_html(&before, &after, &mut file).unwrap();
    let seen = used(&page);
    assert_eq!(seen["errors"], serde_json::json!([]));
    let detail = seen["details"][0].as_str().unwrap();
    assert!(detail.ends_with("change +25.00% of all"), "{seen}");
}
