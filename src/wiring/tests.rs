//! What is refused between components.

use super::*;
use std::fs;

/// Messages about sinks with these paths, with `DIR` for a folder that is there and has the data.
fn messages(paths: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut text = "data_dir: DIR/data\nsources: { app: { type: generate } }\nsinks:\n".to_owned();
    for (index, path) in paths.iter().enumerate() {
        text += &format!("  s{index}: {{ type: file, inputs: [app], path: '{path}' }}\n");
    }
    let file = dir.path().join("c.yaml");
    fs::write(&file, text.replace("DIR", &dir.path().display().to_string())).unwrap();
    let config = crate::config::load(&[file], &Registry, &|_| None);
    let config = config.unwrap_or_else(|faults| panic!("{}", faults[0]));
    faults(&config).iter().map(ToString::to_string).collect()
}

#[test]
fn sinks_whose_templates_can_meet_in_a_file_are_refused() {
    for (one, other) in [
        ("/o/{{ x }}.txt", "/o/app.txt"),
        ("/o/app.txt", "/o/{{ x }}.txt"),
        ("/o/{{ x }}/a.log", "/o/b/{{ y }}.log"),
        ("/o/{{ x }}-1.log", "/o/a-{{ y }}.log"),
        ("/o/%F/{{ x }}", "/o/%Y-%m-%d/a"),
    ] {
        let found = messages(&[one, other]);
        assert!(found.len() == 1 && found[0].contains("; write into different folders"), "{found:?}");
    }
    assert!(messages(&["/o/{{ x }}.log", "/o/{{ y }}.log"])[0].contains("both use the same file"));
    for (one, other) in [
        ("/o/a/{{ x }}.log", "/o/b/{{ x }}.log"),
        ("/o/{{ x }}.log", "/o/{{ x }}.txt"),
        ("/o/{{ x }}", "/o/a/b"),
        ("/o/app{{ x }}.txt", "/o/app.txt"),
        ("/o/a{{ x }}", "/o/b{{ x }}"),
    ] {
        assert_eq!(messages(&[one, other]), [""; 0], "{one} {other}");
    }
}

#[test]
fn nothing_is_written_among_the_files_of_the_agent() {
    for path in ["DIR/data/token", "DIR/data/{{ x }}", "DIR/data/a-{{ x }}/b", "DIR/{{ x }}/token"] {
        let found = messages(&[path]);
        assert!(found.len() == 1 && found[0].contains("write elsewhere"), "{path}: {found:?}");
    }
    for path in ["DIR/data/out/{{ x }}", "DIR/out/{{ x }}", "DIR/{{ x }}", "DIR/database"] {
        assert_eq!(messages(&[path]), [""; 0], "{path}");
    }
}
