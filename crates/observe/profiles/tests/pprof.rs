//! Tests files in pprof format: read back, read by Go's tools, and damaged.

use millstream_profiles::{About, Frame, FrameId, FrameKind, Profile, read_pprof, write_pprof};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

const LIMIT: u64 = 1 << 24;

fn about() -> About {
    About {
        title: "millstream, process 1".to_owned(),
        event: "cpu".to_owned(),
        interval_ns: 10_000_000,
        duration_ns: 3_000_000_000,
        start_unix_ns: 1_700_000_000_000_000_000,
        notes: vec!["2 samples were lost".to_owned()],
    }
}

/// Returns the stacks as names, independent of the numbering of frames.
fn stacks(profile: &Profile) -> BTreeMap<Vec<String>, u64> {
    let mut all = BTreeMap::new();
    for (stack, samples) in profile.stacks() {
        let frames = stack.iter().map(|id| format!("{:?}", profile.get(*id))).collect();
        *all.entry(frames).or_default() += samples;
    }
    all
}

fn written(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_pprof(profile, &mut bytes).unwrap();
    bytes
}

fn frame() -> impl Strategy<Value = Frame> {
    let kinds = prop::sample::select(FrameKind::ALL);
    let text = || prop::option::of("[a-z<>;]{1,4}");
    let place = (prop::option::of(1_u32..9), prop::option::of(1_u64..9));
    ("\\PC{0,6}", kinds, text(), text(), place).prop_map(|(name, kind, module, file, place)| {
        let (line, address) = place;
        Frame { name, kind, is_inlined: false, module, file, line, address }
    })
}

/// Generates stacks in which some frames are inlined into the previous frame and share its place.
fn profiles() -> impl Strategy<Value = Profile> {
    let stack = prop::collection::vec((frame(), any::<bool>()), 1..6);
    prop::collection::vec((stack, 1_u64..1 << 40), 0..8).prop_map(|stacks| {
        let mut profile = Profile::new(about());
        for (stack, samples) in stacks {
            let mut ids = Vec::<FrameId>::new();
            for (mut frame, is_inlined) in stack {
                if let Some(outer) = ids.last().filter(|_| is_inlined) {
                    let outer = profile.get(*outer);
                    (frame.module, frame.address) = (outer.module.clone(), outer.address);
                    frame.is_inlined = true;
                }
                ids.push(profile.frame(frame));
            }
            profile.add(&ids, samples);
        }
        profile
    })
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn what_is_written_is_read_again(profile in profiles()) {
        let read = read_pprof(&mut &written(&profile)[..], LIMIT).unwrap();
        prop_assert_eq!(stacks(&read), stacks(&profile));
        prop_assert_eq!(read.about(), profile.about());
    }

    #[test]
    fn any_bytes_are_a_profile_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_pprof(&mut &bytes[..], LIMIT);
    }

    #[test]
    fn a_cut_file_is_an_error(profile in profiles(), cut in 1_usize..40) {
        let bytes = written(&profile);
        let end = bytes.len().saturating_sub(cut);
        prop_assert!(read_pprof(&mut &bytes[..end], LIMIT).is_err());
    }
}

#[test]
fn a_file_that_unpacks_to_more_than_the_limit_is_an_error() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..64 {
        gzip.write_all(&[0; 1 << 20]).unwrap();
    }
    let error = read_pprof(&mut &gzip.finish().unwrap()[..], LIMIT).unwrap_err();
    assert_eq!(error.to_string(), "it is larger than 16777216 bytes");
}

#[test]
fn millions_of_empty_samples_are_an_error_before_they_are_decoded() {
    // Field 2, with length 0.
    let samples = [2 << 3 | 2, 0].repeat(3_000_000);
    let error = read_pprof(&mut &samples[..], LIMIT).unwrap_err();
    assert!(error.to_string().contains("more than 2 million"), "{error}");
}

#[test]
fn another_file_is_an_error_that_says_so() {
    for bytes in [&b""[..], b"sources: {}\n", b"\x1f\x8b"] {
        let error = read_pprof(&mut &bytes[..], LIMIT).unwrap_err().to_string();
        assert!(!error.is_empty());
    }
    let error = read_pprof(&mut &b"sources: {}\n"[..], LIMIT).unwrap_err().to_string();
    assert!(error.starts_with("it is not a pprof profile"), "{error}");
}

/// Returns the `go` program, which `scripts/servers` installs if it is missing.
fn go() -> PathBuf {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&in_path)
        .chain(["/usr/local/go/bin".into(), "/usr/lib/go/bin".into()]);
    let found = folders.map(|folder| folder.join("go")).find(|path| path.exists());
    found.expect("go is installed; scripts/servers does it")
}

#[test]
fn go_tool_pprof_shows_functions_and_inlined_functions() {
    let mut profile = Profile::new(about());
    let root = profile.frame(Frame::named("app", FrameKind::Component));
    let outer = Frame {
        file: Some("src/outer.rs".to_owned()),
        line: Some(7),
        module: Some("millstream".to_owned()),
        address: Some(0x1000),
        ..Frame::named("outer", FrameKind::Rust)
    };
    let inner = Frame {
        is_inlined: true,
        line: Some(3),
        ..Frame { name: "inner".into(), ..outer.clone() }
    };
    let [outer, inner] = [outer, inner].map(|frame| profile.frame(frame));
    profile.add(&[root, outer, inner], 75);
    profile.add(&[root], 25);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pb.gz");
    write_pprof(&profile, &mut File::create(&path).unwrap()).unwrap();
    let top = |args: &[&str]| {
        let mut command = Command::new(go());
        command.args(["tool", "pprof", "-symbolize=none"]).args(args).arg(&path);
        let output = command.env("PPROF_TMPDIR", dir.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let text = top(&["-top", "-sample_index=cpu"]);
    assert!(text.contains("750ms 75.00% 75.00%      750ms 75.00%  inner (inline)"), "{text}");
    assert!(text.contains("250ms 25.00%   100%     1000ms   100%  app"), "{text}");
    let text = top(&["-raw"]);
    assert!(text.contains("samples/count cpu/nanoseconds"), "{text}");
    assert!(
        text.contains("inner src/outer.rs:3") && text.contains("outer src/outer.rs:7"),
        "{text}"
    );
}
