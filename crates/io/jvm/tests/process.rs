//! A JVM in a separate process that exits in different ways.

use millstream_jvm::serve_process;

/// Runs a child; see `support::process_options`.
#[test]
#[ignore = "run by the tests of this module"]
fn serves() {
    serve_process();
}

mod tests {
    use crate::support::{Batch, options, process_options, spec};
    use millstream_jvm::{CallError, JvmProcess, Operator, OperatorSpec, RuleSource, StartError};
    use rustix::process::{Pid, Signal, kill_process};
    use std::cell::OnceCell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// Pause between the calls of a thread that keeps calling an operator.
    const BETWEEN_CALLS: Duration = Duration::from_millis(1);

    /// Returns the process of the current test. A process shared with other tests would wait longer
    /// and longer before each restart.
    fn process() -> JvmProcess {
        thread_local! {
            static PROCESS: OnceCell<JvmProcess> = const { OnceCell::new() };
        }
        let open = || {
            let thread = thread::current();
            JvmProcess::open(thread.name().unwrap(), &process_options(options())).unwrap()
        };
        PROCESS.with(|process| process.get_or_init(open).clone())
    }

    fn operator() -> Operator {
        process().register(&spec()).unwrap()
    }

    /// Waits until the child is running; returns its id.
    fn pid() -> Pid {
        let begin = Instant::now();
        loop {
            if let Some(pid) = process().state().pid {
                return Pid::from_raw(pid as i32).unwrap();
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", process().state());
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn send(signal: Signal) {
        _ = kill_process(pid(), signal);
    }

    fn restarts() -> u64 {
        process().state().restarts
    }

    /// Calls an operator, and checks the result.
    fn check(operator: &Operator, argument: &str) {
        let message = format!("change {argument}");
        let mut batch = Batch::new(&[message.as_str(), "keep", "drop"]);
        batch.own_column("value", &[b"a", b"b", b"c"]);
        let answer = batch.call(operator);
        assert_eq!(batch.text(&answer, "value", 0), argument);
        assert_eq!(answer.dropped, [2]);
    }

    #[test]
    #[ignore = "run by every_java"]
    fn a_killed_child_is_replaced_and_its_calls_are_made_again() {
        let operator = operator();
        let before = restarts();
        for number in 0..3 {
            check(&operator, &number.to_string());
            let killed = pid();
            send(Signal::KILL);
            let begin = Instant::now();
            check(&operator, "again");
            eprintln!("a call behind a kill took {:?}", begin.elapsed());
            assert_ne!(pid(), killed);
        }
        assert_eq!(restarts(), before + 3);
    }

    #[test]
    #[ignore = "run by every_java"]
    fn calls_that_a_kill_meets_are_made_again() {
        let operator = operator();
        let before = restarts();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let calls: Vec<_> = (0..4)
                .map(|thread| {
                    let (operator, is_over) = (&operator, &is_over);
                    scope.spawn(move || {
                        let begin = Instant::now();
                        let mut count = 0;
                        let may_go_on = || begin.elapsed() < Duration::from_secs(180);
                        while !is_over.load(Ordering::Relaxed) && may_go_on() {
                            check(operator, &format!("{thread} {count}"));
                            count += 1;
                            thread::sleep(BETWEEN_CALLS);
                        }
                    })
                })
                .collect();
            for _ in 0..2 {
                thread::sleep(Duration::from_millis(700));
                let killed = pid();
                send(Signal::KILL);
                // The next child may start slowly on a busy machine.
                while pid() == killed {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            thread::sleep(Duration::from_millis(700));
            is_over.store(true, Ordering::Relaxed);
            calls.into_iter().for_each(|call| call.join().unwrap());
        });
        assert_eq!(restarts(), before + 2);
    }

    #[test]
    #[ignore = "run by every_java"]
    fn a_poisonous_batch_fails_and_its_neighbors_do_not() {
        let operator = operator();
        thread::scope(|scope| {
            let poison = scope.spawn(|| Batch::new(&["keep", "crash"]).try_call(&operator));
            let begin = Instant::now();
            let mut count = 0;
            while !poison.is_finished() || count < 10 {
                check(&operator, "neighbor");
                count += 1;
                thread::sleep(BETWEEN_CALLS);
                assert!(begin.elapsed() < Duration::from_secs(60));
            }
            let error = poison.join().unwrap().unwrap_err();
            assert!(matches!(error, CallError::ProcessEnded(_)), "{error:?}");
            assert!(error.to_string().contains("2 times with only this call"), "{error}");
        });
        check(&operator, "after");
    }

    /// The classes of the script come from the first child. The compiler alone loads thousands of
    /// classes.
    #[test]
    #[ignore = "run by every_java"]
    fn a_script_is_not_compiled_again_in_the_next_child() {
        let text = "row.value = row.message.toUpperCase(); row.n = [1, 2].collect { it + 1 }.sum()";
        let rule = RuleSource { name: "script".to_owned(), text: text.to_owned() };
        let spec = OperatorSpec {
            component: "test".to_owned(),
            language: "groovy".to_owned(),
            rules: vec![rule],
            ..OperatorSpec::default()
        };
        let operator = process().register(&spec).unwrap();
        let check = || {
            let batch = Batch::new(&["a line"]);
            let answer = batch.call(&operator);
            assert_eq!(batch.text(&answer, "value", 0), "A LINE");
            process().stats().unwrap().classes
        };
        let first = check();
        send(Signal::KILL);
        let second = check();
        eprintln!("{first} classes, then {second}");
        assert!(second + 1000 < first, "{first} classes, then {second}");
    }

    #[test]
    #[ignore = "run by every_java"]
    fn a_hung_call_fails_at_its_deadline_and_its_neighbors_do_not() {
        let operator = operator();
        thread::scope(|scope| {
            let hung = scope.spawn(|| {
                let mut batch = Batch::new(&["sleep"]);
                batch.deadline = Some(Duration::from_millis(500));
                batch.try_call(&operator).map(drop)
            });
            while !hung.is_finished() {
                check(&operator, "neighbor");
                thread::sleep(BETWEEN_CALLS);
            }
            assert_eq!(hung.join().unwrap(), Err(CallError::Deadline));
        });
        check(&operator, "after");
    }

    #[test]
    #[ignore = "run by every_java"]
    fn a_stopped_child_is_ended_at_the_deadline() {
        let operator = operator();
        check(&operator, "before");
        send(Signal::STOP);
        let stat = format!("/proc/{}/stat", pid().as_raw_nonzero());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            thread::sleep(Duration::from_millis(1));
        }
        let mut batch = Batch::new(&["keep"]);
        batch.deadline = Some(Duration::from_millis(300));
        assert_eq!(batch.try_call(&operator).map(drop), Err(CallError::Deadline));
        check(&operator, "after");
    }

    #[test]
    #[ignore = "run by every_java"]
    fn operators_that_were_removed_are_not_registered_again() {
        let (kept, removed) = (operator(), operator());
        drop(removed);
        let before = process().stats().unwrap();
        send(Signal::KILL);
        check(&kept, "one");
        let after = process().stats().unwrap();
        assert!(after.classes < before.classes + 50, "{before:?} {after:?}");
        assert_eq!(kept.stats().unwrap().rules[0].rows, 3, "counted since the start");
    }

    #[test]
    #[ignore = "run by every_java"]
    fn calls_of_a_child_that_cannot_start_wait_until_they_are_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let jar = dir.path().join("operators.jar");
        std::fs::copy(options().jar.unwrap(), &jar).unwrap();
        let own =
            process_options(millstream_jvm::JvmOptions { jar: Some(jar.clone()), ..options() });
        let process = JvmProcess::open("waits", &own).unwrap();
        let operator = process.register(&spec()).unwrap();
        check(&operator, "before");
        std::fs::remove_file(&jar).unwrap();
        _ = kill_process(Pid::from_raw(process.state().pid.unwrap() as i32).unwrap(), Signal::KILL);
        thread::scope(|scope| {
            let call = scope.spawn(|| Batch::new(&["keep"]).try_call(&operator).map(drop));
            thread::sleep(Duration::from_millis(1500));
            assert!(!call.is_finished(), "it waits");
            let error = process.register(&spec()).map(drop).unwrap_err().to_string();
            assert!(error.contains("operators.jar"), "{error}");
            operator.let_go();
            let error = call.join().unwrap().unwrap_err();
            assert!(error.to_string().contains("operators.jar"), "{error}");
            // Calls succeed once the process can start.
            let call = scope.spawn(|| check(&operator, "after"));
            std::fs::copy(options().jar.unwrap(), &jar).unwrap();
            call.join().unwrap();
        });
        let state = process.state();
        assert!(state.pid.is_some() && state.error.is_none(), "{state:?}");
        let pid = state.pid.unwrap();
        drop((operator, process));
        let begin = Instant::now();
        while std::path::Path::new(&format!("/proc/{pid}")).exists() {
            assert!(begin.elapsed() < Duration::from_secs(10), "the child outlives its users");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    #[ignore = "run by every_java"]
    fn a_start_that_fails_says_why() {
        let open = |options| match JvmProcess::open("fails", &options) {
            Err(StartError::Process { reason, .. }) => reason,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("started"),
        };
        let home = Some("/does/not/exist".into());
        let missing = process_options(millstream_jvm::JvmOptions { home, ..options() });
        assert!(open(missing).contains("/does/not/exist"));
        let mut group = process_options(options());
        group.cgroup = Some("/sys/fs/cgroup/does/not/exist".into());
        assert!(open(group).contains("/sys/fs/cgroup/does/not/exist/cgroup.procs"));
        let mut user = process_options(options());
        user.user = Some("does-not-exist".to_owned());
        let text = open(user);
        assert!(text.contains("does-not-exist") || text.contains("runs as root"), "{text}");
        let mut ends = process_options(options());
        ends.command.1 = vec!["--list".to_owned()];
        assert!(open(ends).contains("exit code 0"));
        let mut other = process_options(options());
        other.command.0 = "/does/not/exist".into();
        assert!(open(other).contains("cannot be started"));
    }

    #[test]
    #[ignore = "run by every_java"]
    fn a_child_has_its_limits_and_nothing_of_the_agent() {
        let mut own = process_options(options());
        own.open_files = Some(200);
        let is_root = rustix::process::geteuid().is_root();
        own.user = is_root.then(|| "nobody".to_owned());
        // A descriptor that the child must not inherit.
        let leaked = std::fs::File::open("/etc/hostname").unwrap();
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
        let process = JvmProcess::open("limited", &own);
        // The new user may be unable to read the files that the current user built.
        let Ok(process) = process else { return eprintln!("{:?}", process.err()) };
        let pid = process.state().pid.unwrap();
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
        let line = |text: &str, start: &str| {
            text.lines().find(|line| line.starts_with(start)).unwrap().to_owned()
        };
        let limits = read("limits");
        assert!(line(&limits, "Max open files").contains(" 200 "), "{limits}");
        assert_eq!(read("oom_score_adj").trim(), "500");
        assert!(line(&limits, "Max core file size").contains(" 0 "), "{limits}");
        let environment = read("environ");
        assert!(!environment.contains("MILLSTREAM_TEST"), "{environment}");
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let targets: Vec<_> =
            files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok()).collect();
        assert!(!targets.contains(&"/etc/hostname".into()), "{targets:?}");
        if is_root {
            // Checks the threads of the JVM. In the agent's program, all threads start after the
            // change.
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            let file = |thread: std::io::Result<std::fs::DirEntry>, name: &str| {
                std::fs::read_to_string(thread.unwrap().path().join(name)).unwrap()
            };
            let statuses: Vec<String> = threads.map(|thread| file(thread, "status")).collect();
            let is_control = |status: &&String| line(status, "Name:").ends_with("jvm-control");
            let control = statuses.iter().find(is_control).unwrap();
            assert!(!line(control, "Uid:").contains("\t0"), "{control}");
        }
    }

    #[test]
    #[ignore = "run by every_java"]
    fn without_descriptors_calls_fail_and_then_succeed() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let operator = operator();
        // A new child has no connections yet. The connection for this call gets little memory.
        send(Signal::KILL);
        let mut small = Batch::new(&["keep"]);
        small.output_bytes_max = 1 << 20;
        small.call(&operator);
        let large = Batch::new(&["keep"]);
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
        let failed = large.try_call(&operator).map(drop);
        setrlimit(Resource::Nofile, limit).unwrap();
        assert_eq!(failed, Err(CallError::Memory));
        assert_eq!(large.call(&operator).columns.len(), 0);
        check(&operator, "after");
    }
}
