//! Tests `millstream test`: exit statuses, places of tests, and that the command opens no
//! component.

use crate::support::{folder, lines, millstream};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A configuration that cannot run because its folders do not exist.
const CONFIG: &str = "
data_dir: ./state
api: { listen: '127.0.0.1:0' }
sources: { app: { type: file, include: [/nonexistent/*.log] } }
transforms: { calm: { type: throttle, inputs: [app], events: 1 } }
sinks: { out: { type: file, inputs: [calm], path: ./out/app.json } }
";

fn case(name: &str, count: usize) -> String {
    format!(
        "tests:\n- {{ name: {name}, input: {{ to: app, lines: [a, b] }}, expect: [{{ from: out, count: {count} }}] }}\n"
    )
}

fn test(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output: Output =
        Command::new(millstream()).arg("test").args(args).current_dir(dir).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn tests_pass_and_fail_and_open_nothing() {
    let dir = folder();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("millstream.yaml", CONFIG);
    write("whole.yaml", &(CONFIG.to_owned() + &case("inside", 1)));
    write("good.yaml", &case("beside", 1));
    write("bad.yaml", &case("wrong", 2));
    let inside = "ok inside\n1 passed, 0 failed\n";
    let beside = "ok beside\n1 passed, 0 failed\n";
    let both = "ok inside\nok beside\n2 passed, 0 failed\n";
    for (args, expected) in [
        (&["-c", "whole.yaml"][..], inside),
        (&["whole.yaml"], inside),
        (&["-c", "whole.yaml", "whole.yaml"], inside),
        (&["good.yaml"], beside),
        (&["-c", "millstream.yaml", "good.yaml"], beside),
        (&["-c", "whole.yaml", "good.yaml"], both),
        (&["good.yaml", "whole.yaml"], "ok beside\nok inside\n2 passed, 0 failed\n"),
    ] {
        assert_eq!(
            test(dir.path(), args),
            (Some(0), expected.to_owned(), String::new()),
            "{args:?}"
        );
    }
    let (status, out, _) = test(dir.path(), &["-c", "whole.yaml", "bad.yaml", "good.yaml"]);
    let expected = "ok inside\nFAILED wrong (bad.yaml:2)\n  out (bad.yaml:2): 2 events expected, 1 found\n    \
        + {\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":\"a\"}\n  counted by calm: dropped throttled 1\n\
        ok beside\n2 passed, 1 failed\n";
    assert_eq!((status, out.as_str()), (Some(1), expected));
    for made in ["state", "out"] {
        assert!(!dir.path().join(made).exists(), "{made} was made");
    }
}

#[test]
fn invalid_or_missing_tests_exit_with_status_two() {
    let dir = folder();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("m.yaml", CONFIG);
    write("name.yaml", &case("n", 1).replace("to: app", "to: apps"));
    write("form.yaml", &case("n", 1).replace("lines", "line"));
    for (args, expected) in [
        (
            &["-c", "m.yaml"][..],
            "no tests found; add a list `tests`, or pass a file that contains one\n",
        ),
        (
            &["-c", "m.yaml", "name.yaml"],
            "name.yaml:2:27: `to`: `apps` does not exist; did you mean `app`?\n",
        ),
        (
            &["-c", "m.yaml", "form.yaml"],
            "form.yaml:2:32: unknown key `line`; did you mean `lines`?\n",
        ),
        (
            &["name.yaml"],
            "no configuration: neither millstream.yaml nor /etc/millstream/millstream.yaml exists; \
             create one of them, or pass another file with -c FILE\n",
        ),
    ] {
        assert_eq!(
            test(dir.path(), args),
            (Some(2), String::new(), expected.to_owned()),
            "{args:?}"
        );
    }
    let (status, _, faults) = test(dir.path(), &["-c", "m.yaml", "none.yaml"]);
    assert!(status == Some(2) && faults.contains("cannot read none.yaml"), "{faults}");
}

/// `run` accepts tests in the configuration and ignores them.
#[test]
fn a_run_ignores_tests() {
    let dir = folder();
    let config = "data_dir: ./state\napi: { listen: '127.0.0.1:0' }\nsources: { app: { type: stdin } }\n\
                  sinks: { out: { type: file, inputs: [app], path: ./out.txt, encoding: { codec: text } } }\n";
    let config = config.to_owned() + &case("names nothing", 7).replace("out", "nowhere");
    fs::write(dir.path().join("m.yaml"), config).unwrap();
    let mut command = Command::new(millstream());
    command.args(["run", "--until-eof", "-c", "m.yaml"]).current_dir(dir.path());
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"a\nb\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines(&dir.path().join("out.txt")), ["a", "b"]);
}
