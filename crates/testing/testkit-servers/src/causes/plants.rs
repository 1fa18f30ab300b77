//! The causes, and the ways to inject them.

use super::agent::{Setup, World};
use super::writer::Lines;
use crate::kafka::{Kafka, Written};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rustix::net::{self, AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, prlimit};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A cause and the functions that inject it.
pub struct Plant {
    /// Name of the cause.
    pub name: &'static str,
    /// The causes that must be named: this cause, and causes that inevitably follow from it.
    pub expected: &'static [&'static str],
    /// Changes the configuration for the cause.
    pub(super) configure: fn(&mut Setup),
    /// Begins the cause.
    pub(super) begin: fn(&mut World),
}

const fn plant(
    name: &'static str,
    expected: &'static [&'static str],
    configure: fn(&mut Setup),
    begin: fn(&mut World),
) -> Plant {
    Plant { name, expected, configure, begin }
}

/// Causes in the written lines, which can be injected together with one of [`ON_THE_WAY`].
pub const INPUT: &[Plant] = &[
    plant("application_writes_late", &["application_writes_late"], nothing, |world| {
        world.writer.to(&world.path("in/other.log"), Lines::Late);
    }),
    plant("clock_off", &["clock_off"], nothing, |world| {
        let lines = [Lines::Ahead, Lines::OtherZone][(world.seed % 2) as usize];
        world.writer.to(&world.path("in/other.log"), lines);
    }),
    plant("times_out_of_order", &["times_out_of_order"], nothing, |world| {
        world.writer.lines(Lines::Disordered);
    }),
    plant("parse_failures", &["parse_failures"], nothing, |world| {
        world.writer.lines(Lines::Timeless);
    }),
    plant("wrong_encoding", &["wrong_encoding"], nothing, |world| {
        world.writer.lines(Lines::Latin1);
    }),
    plant(
        "lines_too_long",
        &["lines_too_long"],
        |setup| setup.source += "max_line: 1KiB,",
        |world| {
            world.writer.lines(Lines::Long);
        },
    ),
    plant(
        "path_missing",
        &["path_missing"],
        |setup| include_more(setup, "other/app.log"),
        |world| {
            fs::remove_file(world.path("other/app.log")).expect("the file");
        },
    ),
    plant(
        "pattern_matches_nothing",
        &["pattern_matches_nothing"],
        |setup| include_more(setup, "other/a*.log"),
        |world| fs::remove_file(world.path("other/app.log")).expect("the file"),
    ),
    plant(
        "no_permission",
        &["no_permission"],
        |setup| setup.as_nobody = true,
        |world| {
            let path = world.path("in/secret.log");
            fs::write(&path, "secret\n").expect("a file");
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)).expect("permissions");
        },
    ),
    plant("unreadable", &["unreadable"], nothing, |world| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let path = world.path("in/pipe.log");
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a FIFO");
    }),
];

/// Causes on the way to the endpoint.
pub const ON_THE_WAY: &[Plant] = &[
    plant("login_or_certificate", &["login_or_certificate"], nothing, |world| {
        world.answer([401, 403][(world.seed % 2) as usize]);
    }),
    plant("endpoint_unreachable", &["endpoint_unreachable"], nothing, World::close_endpoint),
    plant("broker_throttles", &["broker_throttles"], nothing, |world| world.answer(429)),
    plant("endpoint_refuses", &["endpoint_refuses"], nothing, |world| {
        world.answer([503, 400, 500][(world.seed % 3) as usize]);
    }),
    plant("topic_or_index_missing", &["topic_or_index_missing"], nothing, |world| {
        world.answer(404)
    }),
    plant(
        "disk_buffer_filling",
        &["disk_buffer_filling", "endpoint_refuses"],
        |setup| {
            setup.sink += "buffer: { type: disk, max: 16MiB, mode: always },";
        },
        |world| world.answer(503),
    ),
    plant(
        "endpoint_slow",
        &["endpoint_slow"],
        |setup| {
            setup.sink += "batch: { events: 20, timeout: 100ms },";
            setup.limits = "memory: 128MiB, threads: 2".into();
        },
        |world| {
            world.answer_slowly(1000);
            world.writer.per_tick(300);
        },
    ),
];

/// Causes that need a separate pipeline. `cpu_limit`, `workers_busy` and `transform_slow` use a
/// core each; they are far apart in the list, because adjacent causes are run at the same time.
pub const ALONE: &[Plant] = &[
    plant(
        "cpu_limit",
        &["cpu_limit"],
        |setup| {
            costly(setup, 5);
            setup.limits = "memory: 256MiB, threads: 2, cpu: 0.1".into();
        },
        |world| {
            world.writer.lines(Lines::Costly);
            world.writer.per_tick(900);
        },
    ),
    plant("checkpoint_store", &["checkpoint_store"], nothing, |world| {
        let limit = Rlimit { current: Some(1024), maximum: None };
        prlimit(Some(world.pid()), Resource::Fsize, limit).expect("a limit");
    }),
    plant(
        "cannot_write",
        &["cannot_write"],
        |setup| {
            setup.instead = Some(format!(
                "sources:\n  web: {{ type: file, read_from: beginning, include: ['{}/in/*.log'] }}\n\
             sinks:\n  out: {{ type: file, inputs: [web], path: /dev/full }}\n",
                setup.dir.display()
            ));
        },
        nothing,
    ),
    plant("nothing_written", &["nothing_written"], nothing, |world| {
        world.writer.lines(Lines::None)
    }),
    plant("unfinished_line", &["unfinished_line"], nothing, |world| {
        world.writer.lines(Lines::None);
        thread::sleep(Duration::from_millis(300));
        world.writer.append(b"1700000000000 INFO half of a li");
    }),
    plant(
        "multiline_mismatch",
        &["multiline_mismatch"],
        |setup| {
            setup.reads_times = false;
            setup.source += "multiline: { start: regex, pattern: '^[0-9]', lines_max: 10 },";
        },
        |world| world.writer.lines(Lines::Continuing),
    ),
    plant(
        "held_files_near_limit",
        &["held_files_near_limit", "endpoint_refuses"],
        |setup| {
            setup.source += "held: { max: 1MiB },";
        },
        |world| {
            world.answer(503);
            world.writer.burst(20_000);
            thread::sleep(Duration::from_secs(1));
            fs::remove_file(world.writer.path()).expect("the log");
        },
    ),
    plant(
        "rate_limit",
        &["rate_limit"],
        |setup| setup.source += "rate_limit: 100KiB,",
        |world| {
            world.writer.per_tick(3000);
        },
    ),
    plant("low_rate_limit", &["rate_limit"], |setup| setup.source += "rate_limit: 1KiB,", nothing),
    plant(
        "workers_busy",
        &["workers_busy"],
        |setup| {
            let pattern = costly_pattern(60);
            setup.source += &format!("multiline: {{ continue: \"{pattern}\" }},");
            setup.limits = "memory: 256MiB, threads: 1".into();
        },
        |world| {
            world.writer.lines(Lines::Costly);
            world.writer.per_tick(2000);
        },
    ),
    plant(
        "operator_stuck",
        &["operator_stuck"],
        |setup| {
            setup.limits = "memory: 640MiB, threads: 2".into();
            let script = "while (row.message.contains(\"stuck\")) { }";
            setup.transform = format!("type: jvm, language: groovy, script: '{script}'");
        },
        |world| world.writer.lines(Lines::Stuck),
    ),
    plant(
        "operator_fails",
        &["operator_fails"],
        |setup| {
            setup.limits = "memory: 640MiB, threads: 2".into();
            let script = "row.message.contains(\"stuck\") ? row.message.toInteger() : 0";
            setup.transform = format!("type: jvm, language: groovy, script: '{script}'");
        },
        |world| world.writer.lines(Lines::Stuck),
    ),
    plant(
        "condition_has_no_result",
        &["condition_has_no_result"],
        |setup| setup.transform = "type: filter, where: 'stauts >= 500'".into(),
        nothing,
    ),
    plant(
        "route_without_result",
        &["condition_has_no_result"],
        |setup| {
            setup.transform =
                "type: route, routes: { errors: 'event.stauts >= 500', old: 'event.aeg > 1' }"
                    .into();
        },
        nothing,
    ),
    plant("memory_limit", &["memory_limit"], many_series, |world| send_series(world)),
    plant("kernel_drops", &["kernel_drops"], small_socket, |world| flood(world)),
    plant(
        "unknown_topic",
        &["topic_or_index_missing"],
        |setup| {
            let topic = topic_of(setup);
            let brokers = Kafka::shared().bootstrap();
            Kafka::shared().create_topic(&topic, 1);
            setup.instead = Some(format!(
                "sources:\n  web: {{ type: file, read_from: beginning, include: ['{}/in/*.log'] }}\n\
             sinks:\n  out: {{ type: kafka, inputs: [web], brokers: ['{brokers}'], topic: {topic} }}\n",
                setup.dir.display()
            ));
        },
        |world| Kafka::shared().delete_topic(&topic_at(world.dir.path())),
    ),
    plant(
        "unknown_topic_read",
        &["topic_or_index_missing"],
        |setup| {
            let brokers = Kafka::shared().bootstrap();
            setup.instead = Some(reading(&brokers, &topic_of(setup)));
        },
        nothing,
    ),
    plant(
        "connects_time_out",
        &["endpoint_unreachable"],
        |setup| {
            setup.instead = Some(format!(
                "sources:\n  web: {{ type: file, read_from: beginning, include: ['{}/in/*.log'] }}\n\
             sinks:\n  out: {{ type: http, inputs: [web], uri: 'http://{}/in', encoding: {{ codec: json }} }}\n",
                setup.dir.display(),
                address_that_drops()
            ));
        },
        nothing,
    ),
    plant(
        "cannot_listen",
        &["cannot_listen"],
        |setup| {
            setup.instead = Some(format!(
                "sources:\n  web: {{ type: host_metrics, period: 1s }}\n\
             sinks:\n  out: {{ type: prometheus_exporter, inputs: [web], listen: '{}' }}\n",
                address_in_use()
            ));
        },
        nothing,
    ),
    plant(
        "kafka_unreachable",
        &["endpoint_unreachable"],
        |setup| setup.instead = Some(reading("127.0.0.1:1", &topic_of(setup))),
        nothing,
    ),
    plant(
        "rebalance_loop",
        &["rebalance_loop"],
        |setup| {
            let topic = topic_of(setup);
            Kafka::shared().create_topic(&topic, 4);
            setup.instead = Some(reading(&Kafka::shared().bootstrap(), &topic));
        },
        |world| join_and_leave(world),
    ),
    plant(
        "transform_slow",
        &["transform_slow"],
        |setup| {
            costly(setup, 60);
            setup.limits = "memory: 256MiB, threads: 1".into();
        },
        |world| {
            world.writer.lines(Lines::Costly);
            world.writer.per_tick(2000);
        },
    ),
];

fn nothing<T>(_: &mut T) {}

/// Includes one more path, with a file.
fn include_more(setup: &mut Setup, path: &str) {
    fs::create_dir_all(setup.dir.join("other")).expect("a folder");
    fs::write(setup.dir.join("other/app.log"), "").expect("a file");
    setup.include.push(setup.dir.join(path).display().to_string());
}

/// Adds a filter with a slow regular expression. Its word boundaries rule out the fast regex
/// engines for lines that are not ASCII.
fn costly(setup: &mut Setup, words: u32) {
    let pattern = costly_pattern(words);
    setup.transform = format!(r#"type: filter, where: '!message.matches("{pattern}")'"#);
}

/// Returns the slow regular expression, escaped for a string in the configuration.
fn costly_pattern(words: u32) -> String {
    format!(r".*(\\b\\w+\\b ){{{words}}}x.*")
}

/// Returns an address at which connection attempts time out until the process exits, because the
/// backlog of its listener is full.
fn address_that_drops() -> SocketAddr {
    let listener = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    net::bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    net::listen(&listener, 0).expect("a listener");
    let address = net::getsockname(&listener).expect("its address");
    let address = SocketAddr::try_from(address).expect("an IP address");
    let full = || TcpStream::connect_timeout(&address, Duration::from_millis(200));
    Box::leak(Box::new((listener, [full(), full(), full()])));
    address
}

/// Returns an address that is in use, because this process listens on it.
fn address_in_use() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    Box::leak(Box::new(listener)).local_addr().expect("its address")
}

/// Returns the configuration of an agent that reads `topic`.
fn reading(brokers: &str, topic: &str) -> String {
    format!(
        "sources:\n  web: {{ type: kafka, brokers: ['{brokers}'], topics: [{topic}], group: {topic}, \
         options: {{ heartbeat.interval.ms: '500' }} }}\n\
         sinks:\n  out: {{ type: blackhole, inputs: [web] }}\n"
    )
}

fn topic_of(setup: &Setup) -> String {
    topic_at(&setup.dir)
}

fn topic_at(dir: &std::path::Path) -> String {
    let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
    format!("causes-{}", name.trim_start_matches('.'))
}

/// Makes two other members join and leave the group repeatedly.
fn join_and_leave(world: &World) {
    let (topic, alive) = (topic_at(world.dir.path()), Arc::downgrade(&world.alive));
    Kafka::shared().write(&topic, (0..100).map(|n| Written::text(format!("record {n}"))));
    for _ in 0..2 {
        let (topic, alive) = (topic.clone(), alive.clone());
        thread::spawn(move || {
            while alive.upgrade().is_some() {
                stay_in(&topic);
            }
        });
        thread::sleep(Duration::from_secs(2));
    }
}

/// Joins the group of a topic, and leaves it after four seconds.
fn stay_in(topic: &str) {
    let mut config = Kafka::shared().client(crate::kafka::Listener::Plaintext);
    config.set("group.id", topic);
    config.set("partition.assignment.strategy", "cooperative-sticky");
    config.set("heartbeat.interval.ms", "500");
    let Ok(consumer) = config.create::<BaseConsumer>() else { return };
    if consumer.subscribe(&[topic]).is_ok() {
        (0..40).for_each(|_| drop(consumer.poll(Duration::from_millis(100))));
    }
}

/// Configures a point source with little memory.
fn many_series(setup: &mut Setup) {
    setup.limits = "memory: 128MiB, threads: 2".into();
    let dir = setup.dir.display();
    setup.instead = Some(format!(
        "sources:\n  points: {{ type: dogstatsd, listen: ['unix://{dir}/points.sock'], period: 1s }}\n\
         sinks:\n  out: {{ type: blackhole, inputs: [points] }}\n"
    ));
}

/// Sends points with an ever-growing number of series.
fn send_series(world: &World) {
    let (path, alive) = (world.path("points.sock"), Arc::downgrade(&world.alive));
    thread::spawn(move || {
        let Ok(mut stream) = UnixStream::connect(path) else { return };
        for first in (0_u64..).step_by(200) {
            let line = |at: u64| format!("requests:1|c|#customer:{:08},host:web\n", first + at);
            let message: String = (0..200).map(line).collect();
            let framed = [&(message.len() as u32).to_le_bytes()[..], message.as_bytes()].concat();
            if stream.write_all(&framed).is_err() || alive.upgrade().is_none() {
                return;
            }
            if first > 600_000 {
                thread::sleep(Duration::from_millis(10));
            }
        }
    });
}

/// Configures a point source with a small receive buffer in the kernel.
fn small_socket(setup: &mut Setup) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("an address").port();
    fs::write(setup.dir.join("port"), port.to_string()).expect("a file");
    setup.instead = Some(format!(
        "sources:\n  points: {{ type: dogstatsd, listen: ['udp://127.0.0.1:{port}'], receive_buffer: 4KiB }}\n\
         sinks:\n  out: {{ type: blackhole, inputs: [points] }}\n"
    ));
}

/// Sends bursts of datagrams.
fn flood(world: &World) {
    let port = fs::read_to_string(world.path("port")).expect("a file");
    let alive = Arc::downgrade(&world.alive);
    thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = format!("127.0.0.1:{port}");
        while alive.upgrade().is_some() {
            (0..5000).for_each(|_| drop(socket.send_to(b"requests:1|c|#a:b", &to)));
            thread::sleep(Duration::from_millis(500));
        }
    });
}
