//! Runs the ignored tests on every installed Java.

use crate::support::{MODES, Mode, check, child, child_in, homes};
use millstream_jvm::{Jvm, JvmOptions, StartError};
use std::path::Path;
use std::process::Output;

/// Runs a test with each Java, both with the JVM inside the process and with the JVM in a separate
/// process.
fn each(test: impl Fn(&Path, Mode)) {
    for home in homes() {
        MODES.iter().for_each(|mode| test(&home, *mode));
    }
}

#[test]
fn processes_that_end_are_started_again_on_every_java() {
    for home in homes() {
        let log = std::env::temp_dir().join("millstream_hs_err_%p.log");
        let option = format!("-XX:ErrorFile={}", log.display());
        check(&child_in(Mode::Process, &home, "process::tests::", 1, &[&option]));
    }
}

#[test]
fn operators_do_the_same_on_every_java() {
    each(|home, mode| _ = check(&child_in(mode, home, "cases::", 4, &[])));
}

#[test]
fn what_jvms_say_of_the_past_is_recorded_on_every_java() {
    each(|home, mode| _ = check(&child_in(mode, home, "recorded::", 1, &[])));
    for home in homes() {
        for collector in ["-XX:+UseG1GC", "-XX:+UseShenandoahGC", "-XX:+UseZGC"] {
            check(&child(&home, "recorded::a_collection", 1, &[collector]));
        }
    }
}

#[test]
fn profiles_have_java_frames_on_every_java() {
    for home in homes() {
        check(&child(&home, "frames::", 1, &[]));
    }
}

#[test]
fn hostile_operators_are_contained_on_every_java() {
    each(|home, mode| _ = check(&child_in(mode, home, "hostile::", 1, &[])));
}

#[test]
fn signals_stay_with_the_agent_on_every_java() {
    for home in homes() {
        check(&child(&home, "signals::", 1, &[]));
    }
}

#[test]
fn memory_does_not_grow_on_every_java() {
    each(|home, mode| check_jni(&child_in(mode, home, "endurance::", 1, &["-Xcheck:jni"])));
}

#[test]
fn calls_pass_the_checks_of_jni_on_every_java() {
    each(|home, mode| check_jni(&child_in(mode, home, "cases::", 2, &["-Xcheck:jni"])));
}

/// Checks that the JVM detected no incorrect use of JNI, such as too many references.
fn check_jni(output: &Output) {
    let text = check(output);
    for word in ["WARNING", "FATAL", "Warning:", "warning:"] {
        assert!(!text.contains(word), "{text}");
    }
}

#[test]
fn another_collector_can_be_chosen_on_every_java() {
    for home in homes() {
        check(&child(&home, "cases::values", 2, &["-XX:+UseG1GC"]));
    }
}

#[test]
fn the_heap_returns_memory_under_pressure_on_every_java() {
    for home in homes() {
        for collector in ["-XX:+UseSerialGC", "-XX:+UseG1GC", "-XX:+UseShenandoahGC", "-XX:+UseZGC"]
        {
            check(&child(&home, "pressure::a_tight_heap", 1, &[collector]));
        }
        let option = ["-XX:+DisableExplicitGC"];
        check(&child(&home, "pressure::ignoring", 1, &option));
    }
}

/// The JVM must not write to standard output, which may be data.
#[test]
fn what_the_jvm_prints_goes_to_the_error_output_on_every_java() {
    for home in homes() {
        for option in ["-Xlog:class+load", "-Xlog:class+load:stdout", "-verbose:class"] {
            let options = [option, "-XX:+PrintFlagsFinal", "-XX:+PrintCompilation"];
            let output = child(&home, "cases::an_operator_is_called", 1, &options);
            check(&output);
            let [out, errors] =
                [&output.stdout, &output.stderr].map(|output| String::from_utf8_lossy(output));
            assert!(errors.contains("[class,load]"), "{option}: {errors}");
            assert!(out.lines().count() < 10, "{option}: {out}");
        }
    }
}

#[test]
fn the_reason_of_a_failed_start_is_in_the_error_on_every_java() {
    for home in homes() {
        let output = child(&home, "cases::an_operator_is_called", 1, &["-XX:+NoSuchOption"]);
        assert!(!output.status.success());
        let text =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("Unrecognized VM option 'NoSuchOption'"), "{text}");
    }
}

#[test]
fn a_start_that_cannot_work_is_refused_before_it_is_tried() {
    let home = homes().remove(0);
    let options = JvmOptions { home: Some(home), allow_root: true, ..JvmOptions::default() };
    let jar = Some("/does/not/exist.jar".into());
    let missing = Jvm::check(&JvmOptions { jar: jar.clone(), ..options.clone() });
    assert!(matches!(missing, Err(StartError::Jar(_))), "{missing:?}");
    let home = Jvm::check(&JvmOptions { home: Some("/tmp".into()), ..options.clone() });
    assert!(matches!(home, Err(StartError::Home(_))), "{home:?}");
    let list = vec!["-Xmx1g".to_owned()];
    let option = Jvm::check(&JvmOptions { options: list, ..options.clone() });
    assert!(matches!(option, Err(StartError::Option { .. })), "{option:?}");
    let root = Jvm::check(&JvmOptions { allow_root: false, jar, ..options });
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(matches!(root, Err(StartError::Root)), is_root, "{root:?}");
}
