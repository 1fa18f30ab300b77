use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};

fn a_shape(protocol: Protocol) -> Shape {
    let types: Vec<&str> = protocol.types().iter().map(|kind| kind.name).collect();
    Shape {
        protocol,
        series: 50,
        tags: 3,
        mix: mix(protocol, &types.join(",")).unwrap(),
        packet_bytes_max: 700,
        packet_points_max: usize::MAX,
        numbered: true,
        seed: 7,
    }
}

fn packets(load: &mut Load, points: u64) -> (Batch, Vec<Content>) {
    let (mut batch, mut contents) = (Batch::default(), Vec::new());
    while load.made() < points {
        contents.push(load.packet(points - load.made(), 1_700_000_000, &mut batch.bytes));
        batch.ends.push(batch.bytes.len());
    }
    (batch, contents)
}

fn slices(batch: &Batch) -> Vec<&[u8]> {
    let begins = [0].into_iter().chain(batch.ends.iter().copied());
    begins.zip(&batch.ends).map(|(begin, end)| &batch.bytes[begin..*end]).collect()
}

/// Parses a point into name, value, type and tags.
type Point = [String; 4];

fn points_of_lines(packet: &[u8]) -> Vec<Point> {
    let text = std::str::from_utf8(packet).unwrap().strip_suffix('\n').unwrap();
    let point = |line: &str| {
        let (name, rest) = line.split_once(':').unwrap();
        let mut parts = rest.split('|');
        let (value, kind) = (parts.next().unwrap(), parts.next().unwrap());
        let tags = parts.next().map_or("", |tags| tags.strip_prefix('#').unwrap());
        assert_eq!(parts.next(), None, "{line}");
        [name, value, kind, tags].map(str::to_owned)
    };
    text.split('\n').map(point).collect()
}

/// Parses the msgpack subset used here: arrays of arrays of strings.
fn points_of_msgpack(packet: &[u8]) -> Vec<Point> {
    let mut left = &packet[3..];
    let mut take = |count: usize| left.split_off(..count).unwrap();
    let mut points = Vec::new();
    assert_eq!(packet[0], 0xdc);
    for _ in 0..u16::from_be_bytes([packet[1], packet[2]]) {
        assert_eq!(take(1), [0x96]);
        let mut texts = (0..6).map(|_| {
            let length = match take(1)[0] {
                short @ 0xa0..0xc0 => usize::from(short & 0x1f),
                0xd9 => usize::from(take(1)[0]),
                other => panic!("{other:x} is no short text"),
            };
            String::from_utf8(take(length).to_vec()).unwrap()
        });
        let texts: [String; 6] = std::array::from_fn(|_| texts.next().unwrap());
        let [action, kind, name, value, tags, time] = texts;
        assert_eq!((&*action, !time.is_empty()), ("emit", kind == "ts_store"));
        points.push([name, value, kind, tags]);
    }
    assert!(left.is_empty());
    points
}

/// Checks that packets state their own content correctly.
fn assert_numbered(
    batch: &Batch,
    contents: &[Content],
    counter: &str,
    read: fn(&[u8]) -> Vec<Point>,
) {
    let (mut series, mut last, mut kinds) = (BTreeSet::new(), 0, BTreeMap::<String, usize>::new());
    for (packet, content) in slices(batch).into_iter().zip(contents) {
        assert!(packet.len() <= 700, "{} bytes", packet.len());
        let mut points = read(packet);
        let [_, number, ..] = points.pop().unwrap();
        let [_, count, ..] = points.pop().unwrap();
        last += content.points;
        assert_eq!([&count, &number], [&content.points.to_string(), &last.to_string()]);
        assert_eq!(points.len() as u64, content.points);
        let of_counters = points.iter().filter(|point| point[2] == counter);
        let sum: u64 = of_counters.map(|[_, value, ..]| value.parse::<u64>().unwrap()).sum();
        assert_eq!(sum, content.counters);
        for [name, value, kind, tags] in points {
            let is_member = kind == "s" && value.starts_with('u');
            assert!(is_member || value.parse::<f64>().unwrap() >= 0.0, "{value}");
            *kinds.entry(kind.clone()).or_default() += 1;
            series.insert([name, kind, tags]);
        }
    }
    assert_eq!((series.len(), last), (50, 1000));
    // Every type has about its share of the series.
    let share = 1000 / kinds.len();
    assert!(kinds.values().all(|count| count.abs_diff(share) <= 40), "{kinds:?}");
}

#[test]
fn packets_are_numbered_and_carry_their_sums() {
    let (batch, contents) = packets(&mut Load::new(a_shape(Protocol::Dogstatsd)), 1000);
    assert!(contents.len() > 50, "{}", contents.len());
    assert_numbered(&batch, &contents, "c", points_of_lines);
    let (batch, contents) = packets(&mut Load::new(a_shape(Protocol::Metricserver)), 1000);
    assert_numbered(&batch, &contents, "counter", points_of_msgpack);
}

#[test]
fn the_same_seed_generates_the_same_packets() {
    let made =
        |seed| packets(&mut Load::new(Shape { seed, ..a_shape(Protocol::Dogstatsd) }), 500).0;
    assert_eq!((made(1).bytes, made(1).ends), (made(1).bytes, made(1).ends));
    assert_ne!(made(1).bytes, made(2).bytes);
}

#[test]
fn a_packet_respects_its_limit_and_has_at_least_one_point() {
    let tight = Shape { packet_bytes_max: 64, tags: 20, ..a_shape(Protocol::Dogstatsd) };
    let (_, contents) = packets(&mut Load::new(tight), 10);
    assert!(contents.iter().all(|content| content.points == 1));
    let shape = Shape { packet_points_max: 4, numbered: false, ..a_shape(Protocol::Dogstatsd) };
    let (batch, contents) = packets(&mut Load::new(shape), 10);
    assert_eq!(contents.iter().map(|content| content.points).collect::<Vec<_>>(), [4, 4, 2]);
    assert_eq!(
        slices(&batch).iter().map(|packet| points_of_lines(packet).len()).sum::<usize>(),
        10
    );
}

#[test]
fn decimals_keep_their_zeros() {
    let shape = Shape {
        series: 1,
        mix: mix(Protocol::Dogstatsd, "timer").unwrap(),
        ..a_shape(Protocol::Dogstatsd)
    };
    let (batch, _) = packets(&mut Load::new(shape), 2000);
    let lines = slices(&batch).into_iter().flat_map(points_of_lines);
    let values: Vec<f64> = lines
        .filter(|point| point[2] == "ms")
        .map(|[_, value, ..]| {
            assert_eq!(value.split_once('.').unwrap().1.len(), 3, "{value}");
            value.parse().unwrap()
        })
        .collect();
    let (least, most) = values.iter().fold((f64::MAX, 0.0f64), |(l, m), v| (l.min(*v), m.max(*v)));
    assert!(least < 0.2 && most > 500.0, "{least} {most}");
}

#[test]
fn shares_are_checked_with_advice() {
    let wrong = |text| mix(Protocol::Dogstatsd, text).unwrap_err();
    assert_eq!(
        wrong("store:1"),
        "\"store\" is not a type; choose from counter, gauge, timer, histogram, distribution, set"
    );
    assert_eq!(wrong("set:x"), "\"x\" is not a share; use a whole number, for example set:70");
    assert_eq!(wrong("set:0,gauge:0"), "all shares are 0; at least one must be positive");
}

#[test]
fn the_last_line_contains_the_counts_of_the_agent() {
    let line = |numbered| {
        let shape = Shape { numbered, ..a_shape(Protocol::Dogstatsd) };
        let (batch, contents) = packets(&mut Load::new(shape), 1000);
        let mut sent = Sent::default();
        sent.add(&contents, 0);
        let lines =
            slices(&batch).into_iter().map(|packet| points_of_lines(packet).len()).sum::<usize>();
        (sent.text(50), lines, contents.len())
    };
    let (text, lines, packets) = line(true);
    assert!(
        text.starts_with(&format!("sent 1000 points in {packets} packets, sum of counters ")),
        "{text}"
    );
    assert!(
        text.ends_with(&format!(", 50 series; {lines} points with the numbering ones")),
        "{text}"
    );
    let (text, lines, _) = line(false);
    assert!(text.ends_with(", 50 series"), "{text}");
    assert_eq!(lines, 1000);
}

#[test]
fn advice_depends_on_file_or_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing/points");
    let file = Target::write_to(Some(&path), false, Arc::default()).err().unwrap();
    assert!(file_advice(&file).contains("folder") && !file_advice(&file).contains("listen"));
    let address = format!("unixgram://{}", path.display()).parse().unwrap();
    let socket = Target::connect(&address, Arc::default()).err().unwrap();
    assert!(socket_advice(&socket).contains("`listen`"));
    let denied = io::Error::from(io::ErrorKind::PermissionDenied);
    assert!(socket_advice(&denied).contains("`mode`") && !file_advice(&denied).contains("`mode`"));
}

/// Sends 1,000 points; returns the number of points that arrived.
fn send(address: &str) -> u64 {
    let (batch, contents) = packets(&mut Load::new(a_shape(Protocol::Dogstatsd)), 1000);
    let mut target = Target::connect(&address.parse().unwrap(), Arc::default()).unwrap();
    let mut gone = 0;
    target.send(&batch, &mut gone).unwrap();
    contents[..gone].iter().map(|content| content.points).sum()
}

/// Returns the points of a datagram, excluding the points that number it.
fn points(packet: &[u8]) -> usize {
    points_of_lines(packet).len() - 2
}

#[test]
fn every_point_arrives_over_every_type_of_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (udp_at, tcp_at) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let gram = UnixDatagram::bind(path("gram")).unwrap();
    let stream = UnixListener::bind(path("stream")).unwrap();
    let at = |kind: &str, name: &str| format!("{kind}://{}", path(name).display());
    let datagrams = |receive: &dyn Fn(&mut [u8]) -> usize| {
        let (mut buffer, mut got) = ([0; 4096], 0);
        while got < 1000 {
            let length = receive(&mut buffer);
            got += points(&buffer[..length]);
        }
        got
    };
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&format!("udp://{udp_at}")));
        assert_eq!(datagrams(&|buffer| udp.recv(buffer).unwrap()) as u64, sender.join().unwrap());
        // The queue of a Unix socket holds about ten datagrams, so the sender has to wait.
        let sender = scope.spawn(|| send(&at("unixgram", "gram")));
        assert_eq!(datagrams(&|buffer| gram.recv(buffer).unwrap()) as u64, sender.join().unwrap());
        let mut text = Vec::new();
        let sender = scope.spawn(|| send(&format!("tcp://{tcp_at}")));
        tcp.accept().unwrap().0.read_to_end(&mut text).unwrap();
        assert_eq!(sender.join().unwrap(), 1000);
        let numbers = |text: &[u8]| {
            points_of_lines(text).iter().filter(|p| p[0].starts_with("millstream")).count()
        };
        assert_eq!(points_of_lines(&text).len() - numbers(&text), 1000);
        let mut framed = Vec::new();
        let sender = scope.spawn(|| send(&at("unix", "stream")));
        stream.accept().unwrap().0.read_to_end(&mut framed).unwrap();
        assert_eq!(sender.join().unwrap(), 1000);
        assert_eq!(frames(&framed).into_iter().map(points).sum::<usize>(), 1000);
    });
}

/// Splits packets with length prefixes.
fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        frames.push(frame);
        bytes = rest;
    }
    frames
}

#[test]
fn packets_stay_packets_over_a_seqpacket_socket() {
    use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketType};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packet");
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let address = format!("unixpacket://{}", path.display());
    let sender = std::thread::spawn(move || send(&address));
    let connection = rustix::net::accept(&listener).unwrap();
    let (mut buffer, mut got) = ([0; 4096], 0);
    loop {
        match rustix::net::recv(&connection, &mut buffer[..], RecvFlags::empty()).unwrap() {
            (0, _) => break,
            (length, _) => got += points(&buffer[..length]),
        }
    }
    assert_eq!((got, sender.join().unwrap()), (1000, 1000));
}

#[test]
fn a_removed_unix_socket_is_retried() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gram");
    let first = UnixDatagram::bind(&path).unwrap();
    let address = format!("unixgram://{}", path.display());
    let sender = std::thread::spawn(move || send(&address));
    let (mut buffer, mut got) = ([0; 4096], 0);
    let mut take = |socket: &UnixDatagram| {
        socket.set_nonblocking(true).unwrap();
        while let Ok(length) = socket.recv(&mut buffer) {
            got += points(&buffer[..length]);
        }
        got
    };
    while take(&first) == 0 {}
    // Nothing is sent between the last check and the end: shut down, then check.
    first.shutdown(std::net::Shutdown::Read).unwrap();
    take(&first);
    drop(first);
    std::fs::remove_file(&path).unwrap();
    let second = UnixDatagram::bind(&path).unwrap();
    while take(&second) < 1000 {}
    assert_eq!(sender.join().unwrap(), 1000);
}
