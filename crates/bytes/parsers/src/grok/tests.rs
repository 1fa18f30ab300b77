//! Lines that patterns match, and the errors for invalid patterns.

use super::patterns::{PATTERNS, find};
use super::*;
use crate::harness::{mutate, parse_line, show};
use millstream_testkit_random::{Seed, TestSize, property};
use proptest::prelude::*;
use std::net::IpAddr;

fn parser(pattern: &str, own: &[(&str, &str)]) -> Result<Grok, String> {
    let patterns =
        own.iter().map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned())).collect();
    Grok::new(&GrokConfig { pattern: pattern.into(), patterns, types: Vec::new() })
}

fn shown(pattern: &str, line: &str) -> String {
    show(&parse_line(&mut parser(pattern, &[]).unwrap(), line.as_bytes()))
}

/// Returns whether a pattern matches the whole text.
fn is_match(name: &str, text: &str) -> bool {
    shown(&format!("^(?<all>%{{{name}}})$"), text) != "!no_match@0"
}

#[test]
fn fields_have_names_and_types() {
    let line = "55.3.244.1 GET /index.html 15824 0.043";
    let pattern = "%{IP:client} %{WORD:method} %{URIPATHPARAM:request} %{NUMBER:bytes:int} %{NUMBER:took:float}";
    let expected = "client='55.3.244.1' method='GET' request='/index.html' bytes=15824 took=0.043";
    assert_eq!(shown(pattern, line), expected);
    let pattern = "%{IP:[source][address]} %{WORD:http.method} (?<rest>.*)";
    assert_eq!(
        shown(pattern, line),
        "source.address='55.3.244.1' http.method='GET' rest='/index.html 15824 0.043'"
    );
    let mut own =
        parser("%{ORDER:order}", &[("ORDER", "o-%{DIGITS:number:long}"), ("DIGITS", "[0-9]{4}")]);
    assert_eq!(show(&parse_line(own.as_mut().unwrap(), b"an o-0042")), "order='o-0042' number=42");
    let mut own = parser("%{INT:a}", &[("INT", "x+")]).unwrap();
    assert_eq!(show(&parse_line(&mut own, b"12 xx")), "a='xx'");
    assert_eq!(shown("(?:%{INT:v:int}|%{WORD:v})", "abc"), "v='abc'");
    assert_eq!(shown("é %{WORD:v}", "é a"), "v='a'");
    let config = GrokConfig {
        pattern: "%{INT:a} %{INT:b:int}".into(),
        types: vec![("a".into(), Type::Float), ("b".into(), Type::Text)],
        ..GrokConfig::default()
    };
    assert_eq!(show(&parse_line(&mut Grok::new(&config).unwrap(), b"1 2")), "a=1 b='2'");
}

#[test]
fn errors_name_the_pattern() {
    let fault = |pattern: &str, own: &[(&str, &str)]| parser(pattern, own).err().unwrap();
    assert_eq!(fault("%{NOPE:a}", &[]), "unknown pattern `NOPE`; define it under `patterns`");
    assert_eq!(fault("%{ip:a}", &[]), "unknown pattern `ip`; use `IP`");
    let own = [("A", "a%{B}"), ("B", "b%{A}")];
    assert_eq!(
        fault("%{A:a}", &own),
        "the pattern `A` contains itself (`A` in `B`); remove the recursion"
    );
    assert!(fault("%{A:a}", &[("A", "%{A}")]).contains("`A` contains itself"));
    assert!(fault("%{INT}", &[]).contains("the pattern contains no field"));
    assert!(fault("%{INT:a:date}", &[]).contains("unknown type `date`; use int"));
    assert!(fault("%{INT:}", &[]).contains("empty field; use `%{INT:field}`"));
    assert!(fault("%{INT", &[]).contains("without `}`"));
    assert!(fault("%{INT:a}(?<!x)", &[]).contains("use `(?:^|[^x])`"));
    let names: Vec<String> = (0..20).map(|n| format!("P{n}")).collect();
    let texts: Vec<String> = (0..20).map(|n| format!("%{{P{0}}}%{{P{0}}}", n + 1)).collect();
    let mut grown: Vec<(&str, &str)> =
        names.iter().zip(&texts).map(|(n, t)| (&**n, &**t)).collect();
    grown.push(("P20", "a"));
    assert!(fault("%{P0:a}", &grown).contains("exceeds"));
}

#[test]
fn every_pattern_compiles_and_has_its_name_once() {
    for (name, _) in PATTERNS {
        assert!(parser(&format!("%{{{name}:all}}"), &[]).is_ok(), "{name}");
        assert_eq!(PATTERNS.iter().filter(|(other, _)| other == name).count(), 1, "{name}");
    }
    assert!(find("IP").is_some());
}

#[test]
#[rustfmt::skip] // A table.
fn patterns_match_their_examples() {
    let table: &[(&str, &[&str], &[&str])] = &[
        ("WORD", &["abc", "a_1"], &["", "a b", "a-b"]),
        ("INT", &["0", "-12", "+7"], &["", "1.5", "x"]),
        ("NUMBER", &["0", "-1.5", ".5", "+10"], &["1.", "1e3", "-"]),
        ("BASE16NUM", &["0xdeadBEEF", "ff"], &["0xg"]),
        ("POSINT", &["1", "90"], &["0", "-1"]),
        ("NONNEGINT", &["0", "17"], &["-1"]),
        ("QS", &[r#""a \" b""#, "'x'", r#""""#], &[r#""a"#, r#""a"b""#]),
        ("UUID", &["123e4567-e89b-12d3-a456-426614174000"], &["123e4567e89b12d3a456426614174000"]),
        ("URN", &["urn:isbn:0451450523"], &["urn:x"]),
        ("EMAILADDRESS", &["a.b+c@example.com"], &["a@", "@b"]),
        ("MAC", &["00:1b:44:11:3a:b7", "00-1B-44-11-3A-B7", "001b.4411.3ab7"], &["00:1b:44:11:3a"]),
        ("HOSTNAME", &["localhost", "web-1.example.com", "a.b."], &["-a", "a b"]),
        ("HOSTPORT", &["db:5432", "10.0.0.1:80"], &["db", "db:0"]),
        ("PATH", &["/", "/var/log/a-b.log", r"C:\temp\x.txt", r"\\srv\share"], &["var/log"]),
        ("TTY", &["/dev/pts/0", "/dev/tty1"], &["/dev/null"]),
        ("URI", &["http://example.com/", "https://u:p@h:8443/a?b=c#d", "file:///tmp/x"], &["example.com"]),
        ("URIPATHPARAM", &["/a/b?c=d&e=%20", "/"], &["a"]),
        ("MONTH", &["Jan", "November", "May", "dez"], &["Foo"]),
        ("TIME", &["23:59:60", "7:05", "12:00:00.123"], &["24:00:00", "12"]),
        ("TIMESTAMP_ISO8601", &["2026-11-21T20:29:46.123Z", "2026-11-21 20:29", "2026-11-21T20:29:46+01:00"], &["2026-13-01T00:00:00"]),
        ("HTTPDATE", &["21/Nov/2026:20:29:46 +0000"], &["21/11/2026:20:29:46 +0000"]),
        ("DATE", &["11/21/2026", "21.11.26", "21-11-2026"], &["2026"]),
        ("DATESTAMP_RFC2822", &["Sat, 21 Nov 2026 20:29:46 +0100"], &["21 Nov 2026"]),
        ("DATESTAMP_OTHER", &["Sat Nov 21 20:29:46 CET 2026"], &["Sat"]),
        ("SYSLOGTIMESTAMP", &["Nov 21 20:29:46", "Nov  1 20:29:46"], &["Nov 21"]),
        ("LOGLEVEL", &["INFO", "warn", "Error", "NOTICE", "emerg"], &["loud"]),
        ("JAVACLASS", &["com.example.App$Inner", "App"], &["1a"]),
        ("SYSLOGHOST", &["web-1", "::1"], &[""]),
        ("CRON_ACTION", &["CMD", "LIST"], &["cmd"]),
    ];
    for (name, good, bad) in table {
        good.iter().for_each(|text| assert!(is_match(name, text), "{name}: {text}"));
        bad.iter().for_each(|text| assert!(!is_match(name, text), "{name}: {text}"));
    }
}

#[test]
fn ip_patterns_match_exactly_the_valid_addresses() {
    let mut parser = parser("^%{IP:ip}$", &[]).unwrap();
    let mut check = |text: &str| {
        let found = parse_line(&mut parser, text.as_bytes()).is_ok();
        assert_eq!(found, text.parse::<IpAddr>().is_ok(), "{text}");
    };
    let texts = [
        "1.2.3.4",
        "255.255.255.255",
        "256.1.1.1",
        "1.2.3",
        "01.2.3.4",
        "::",
        "::1",
        "1::",
        "1::8",
        "1:2::7:8",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7:8:9",
        "1:::2",
        "1::2::3",
        ":1",
        "1:",
        "::ffff:10.0.0.1",
        "1:2:3:4:5:6:10.0.0.1",
        "::10.0.0.1",
        "1::10.0.0.1",
        "fe80::1ff:fe23:4567:890a",
        "12345::",
        "g::",
    ];
    texts.iter().for_each(|text| check(text));
    let mut random = Seed::of_test_or(3).random();
    for _ in random.rounds(ADDRESSES) {
        let groups: Vec<String> = (0..1 + random.u64(..9))
            .map(|_| {
                if random.u64(..4) == 0 {
                    String::new()
                } else {
                    format!("{:x}", random.u64(..1 << 16))
                }
            })
            .collect();
        check(&groups.join(":"));
    }
}

#[test]
fn lines_of_well_known_programs_are_parsed() {
    let line = r#"203.0.113.9 - frank [21/Nov/2026:20:29:46 +0000] "GET /a?b=c HTTP/1.1" 200 2326 "-" "curl/8""#;
    assert_eq!(
        shown("^%{COMBINEDAPACHELOG}$", line),
        "clientip='203.0.113.9' ident='-' auth='frank' timestamp='21/Nov/2026:20:29:46 +0000' verb='GET' \
         request='/a?b=c' httpversion='1.1' response=200 bytes=2326 referrer='\"-\"' agent='\"curl/8\"'"
    );
    let line = r#"::1 - - [21/Nov/2026:20:29:46 +0000] "\x16\x03" 400 -"#;
    assert_eq!(
        shown("^%{COMMONAPACHELOG}$", line),
        r"clientip='::1' ident='-' auth='-' timestamp='21/Nov/2026:20:29:46 +0000' rawrequest='\x16\x03' response=400"
    );
    assert_eq!(
        shown("^%{SYSLOGLINE}$", "Nov 21 20:29:46 web-1 sshd[4242]: Accepted publickey for root"),
        "timestamp='Nov 21 20:29:46' logsource='web-1' program='sshd' pid='4242' message='Accepted publickey for root'"
    );
    assert_eq!(
        shown(
            "^%{HTTPD_ERRORLOG}$",
            "[Sun Dec 04 04:47:44 2005] [error] [client 1.2.3.4] File does not exist"
        ),
        "timestamp='Sun Dec 04 04:47:44 2005' loglevel='error' clientip='1.2.3.4' message='File does not exist'"
    );
    assert_eq!(
        shown("^%{JAVASTACKTRACEPART}$", "\tat com.example.A$B.<init>(A.java:17)"),
        "class='com.example.A$B' method='<init>' file='A.java' line=17"
    );
}

#[test]
fn mutated_lines_do_not_panic() {
    let mut parser = parser("^%{COMBINEDAPACHELOG}$", &[]).unwrap();
    let seed = br#"::1 - - [21/Nov/2026:20:29:46 +0000] "GET / HTTP/1.1" 200 9 "a \" b" "c""#;
    let mut random = Seed::of_test_or(9).random();
    let mut found = 0;
    for _ in random.rounds(LINES) {
        let mut line = seed.to_vec();
        mutate(&mut line, &[b"\"", b"\\", b"[", b" ", b"\xFF", b"9", b":"], &mut random);
        found += u64::from(parse_line(&mut parser, &line).is_ok());
    }
    assert!(found > 0);
}

/// Number of random strings that both a pattern and the address parser read.
const ADDRESSES: TestSize = TestSize { gate: 20_000, long: 1_000_000 };

/// Number of mutated lines.
const LINES: TestSize = TestSize { gate: 5000, long: 300_000 };

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn any_pattern_compiles_or_is_rejected(pattern in r"(%\{|[A-Z]{0,3}|INT|:|\}|[a-z]|\(\?<|\)|\[|\\|.){0,12}") {
        let _ = parser(&pattern, &[("A", "%{AB}"), ("AB", "%{A}"), ("B", "%{INT:b}")]);
    }
}
