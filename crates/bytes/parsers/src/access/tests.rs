use super::*;
use crate::harness::{check_mutated, mutated, parse, parse_short};
use fastrand::Rng;
use millstream_columns::Cell;
use millstream_testkit_random::{Seed, TestSize, property};
use proptest::prelude::*;
use regex::bytes::Regex;

const TIMED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
     \"$http_referer\" \"$http_user_agent\" $request_time";

fn nginx(format: &str) -> Access {
    Access::new(&AccessConfig { format: format.into(), ..AccessConfig::default() }).unwrap()
}

fn apache(format: &str) -> Access {
    let format = format.into();
    Access::new(&AccessConfig { server: Server::Apache, format, escape: None }).unwrap()
}

fn of(format: &str, line: &str) -> String {
    parse_short(&mut nginx(format), line)
}

#[test]
fn combined_lines_of_nginx_become_its_variables() {
    let line = r#"203.0.113.9 - - [22/Nov/2026:10:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 612 "-" "curl/8.5.0""#;
    let fields = "remote_addr=203.0.113.9 time_local=22/Nov/2026:10:00:00 +0000 request=GET /a?b=1 HTTP/1.1 \
         method=GET path=/a?b=1 protocol=HTTP/1.1 status=#200 body_bytes_sent=#612 http_user_agent=curl/8.5.0";
    assert_eq!(of("", line), fields);
    assert_eq!(of("combined", line), fields);
    let line =
        r#"::1 - anna maria [x] "HEAD / HTTP/2.0" 304 0 "https://a.example/" "say "hi" now""#;
    let fields = "remote_addr=::1 remote_user=anna maria time_local=x request=HEAD / HTTP/2.0 method=HEAD \
         path=/ protocol=HTTP/2.0 status=#304 body_bytes_sent=#0 http_referer=https://a.example/ \
         http_user_agent=say \"hi\" now";
    assert_eq!(of("", line), fields);
}

#[test]
fn malformed_requests_are_kept_whole() {
    let is = |request: &str, fields: &str| {
        let line = format!("\"{request}\" 400");
        assert_eq!(
            of("\"$request\" $status", &line),
            format!("{fields}{}status=#400", if fields.is_empty() { "" } else { " " })
        );
    };
    is("", "");
    is("-", "");
    is("GET", "request=GET");
    is("GET ", "request=GET ");
    is("GET  HTTP/1.1", "request=GET  HTTP/1.1");
    is("GET HTTP/2", "request=GET HTTP/2");
    is("get / HTTP/1.1", "request=get / HTTP/1.1");
    is("GET /", "request=GET / method=GET path=/");
    is("GET /a b", "request=GET /a b");
    is("GET /a b HTTP/1.0", "request=GET /a b HTTP/1.0 method=GET path=/a b protocol=HTTP/1.0");
    is("M-SEARCH * HTTP/2", "request=M-SEARCH * HTTP/2 method=M-SEARCH path=* protocol=HTTP/2");
    is("GET /x HTTP/1.", "request=GET /x HTTP/1.");
    is("GET / HTTP/x.1", "request=GET / HTTP/x.1");
    is(r"\x16\x03\x01", "request=\u{16}\u{3}\u{1}");
    is(r"GET /\x22x HTTP/1.1", "request=GET /\"x HTTP/1.1 method=GET path=/\"x protocol=HTTP/1.1");
    is(&"\\x41".repeat(40), &format!("request={}", "A".repeat(40)));
}

#[test]
fn numbers_are_cast_and_lists_stay_strings() {
    let format = "$status $request_time $upstream_response_time $upstream_status $bytes_sent";
    assert_eq!(
        of(format, "200 0.004 0.003 200 17"),
        "status=#200 request_time=#0.004 upstream_response_time=#0.003 upstream_status=#200 bytes_sent=#17"
    );
    assert_eq!(
        of(format, "502 12 0.003, 0.010 : 1.000 502, 200 : 200 17"),
        "status=#502 request_time=#12 upstream_response_time=0.003, 0.010 : 1.000 \
         upstream_status=502, 200 : 200 bytes_sent=#17"
    );
    assert_eq!(of(format, "007 00.5 - - 0"), "status=#7 request_time=#0.5 bytes_sent=#0");
    let mut parser = nginx("$status $request_time");
    let parsed = parse(&mut parser, &[b"abc 1.2.3", b"99999999999999999999 .5", b"1 1."]);
    assert_eq!(parsed.shown_short(), ["", "request_time=#0.5", "status=#1 request_time=#1.0"]);
    assert_eq!(parsed.bad_types, 3);
}

#[test]
fn values_end_at_the_next_literal() {
    assert_eq!(
        of("$time_local $status", "22/Nov/2026:10:00:00 +0000 200"),
        "time_local=22/Nov/2026:10:00:00 +0000 status=#200"
    );
    assert_eq!(
        of("$request $status", "GET /a b HTTP/1.1 200"),
        "request=GET /a b HTTP/1.1 method=GET path=/a b protocol=HTTP/1.1 status=#200"
    );
    assert_eq!(
        of("$http_x_forwarded_for $status", "10.0.0.1, 10.0.0.2 200"),
        "http_x_forwarded_for=10.0.0.1, 10.0.0.2 status=#200"
    );
    assert_eq!(of("<${host}>", "<a.example>"), "host=a.example");
    assert_eq!(of("$host|$host", "a|b"), "host=a");
    assert_eq!(of("${host}0123456789", "a0123456789"), "host=a");
    let json = AccessConfig {
        format: r#"{"a":"$http_a","b":"$http_b"}"#.into(),
        escape: Some(Escape::Json),
        ..Default::default()
    };
    let mut json = Access::new(&json).unwrap();
    assert_eq!(
        parse_short(&mut json, r#"{"a":"x\",\"b\":\"\\","b":"\u00e9"}"#),
        "http_a=x\",\"b\":\"\\ http_b=é"
    );
}

#[test]
fn mismatched_lines_have_no_fields() {
    let lines: [&[u8]; 6] = [b"", b"200", b"200 x", b"200 5 ", b"200 5", b"\xFF\xFE"];
    let parsed = parse(&mut nginx("$status $bytes_sent"), &lines);
    let reasons = [
        "!not_log_format@0",
        "!not_log_format@0",
        "status=#200",
        "status=#200",
        "status=#200 bytes_sent=#5",
        "!not_log_format@0",
    ];
    assert_eq!(parsed.shown_short(), reasons);
    assert_eq!(of("<$host>", "x"), "!not_log_format@0");
}

#[test]
fn lines_of_apache_have_the_documented_names() {
    let line =
        r#"192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#;
    let common = "host=192.0.2.1 user=frank time=10/Oct/2000:13:55:36 -0700 request=GET /apache_pb.gif HTTP/1.0 \
         method=GET path=/apache_pb.gif protocol=HTTP/1.0 status=#200 size=#2326";
    assert_eq!(parse_short(&mut apache("common"), line), common);
    let line =
        format!(r#"{line} "http://www.example.com/\"q\"" "Mozilla/4.08 [en] (Win98; I ;Nav)""#);
    let fields = format!(
        r#"{common} referrer=http://www.example.com/"q" agent=Mozilla/4.08 [en] (Win98; I ;Nav)"#
    );
    assert_eq!(parse_short(&mut apache(""), &line), fields);
    let mut own = apache(
        r#"%{%Y-%m-%d}t\t%v:%p %!200,304{X-Forwarded-For}i %{ms}T %^FB%% "%{Foo-Bar}o" %b"#
            .replace("%^FB", "")
            .as_str(),
    );
    assert_eq!(
        parse_short(&mut own, "2026-01-02\twww:443 10.0.0.1, 10.0.0.2 15 % \"\\\"\" -"),
        "time=2026-01-02 server_name=www port=#443 http_x_forwarded_for=10.0.0.1, 10.0.0.2 duration_ms=#15 sent_http_foo_bar=\""
    );
    assert_eq!(&*own.time_field().unwrap().format, "%Y-%m-%d");
}

#[test]
fn the_time_field_is_known() {
    let time = |format: &str| {
        nginx(format).time_field().map(|field| (field.name.to_string(), field.format.to_string()))
    };
    for (format, name) in
        [(TIMED, "time_local"), ("$time_iso8601|$msec", "time_iso8601"), ("$msec", "msec")]
    {
        let (found, format) = time(format).unwrap();
        assert_eq!(found, name);
        assert!(millstream_timestamps::Format::new(&format, None).is_ok(), "{format}");
    }
    assert_eq!(time("$status"), None);
}

#[test]
fn invalid_formats_are_rejected() {
    let refused = |server, format: &str| {
        let config = AccessConfig { server, format: format.into(), escape: None };
        Access::new(&config).expect_err(format)
    };
    for (server, format, says) in [
        (Server::Nginx, "$a$b", "add a character between them"),
        (Server::Nginx, "text", "no variable in the format"),
        (Server::Nginx, "$ x", "without a variable name"),
        (Server::Nginx, "${a", "without a closing brace"),
        (Server::Nginx, "$a¦$b", "only ASCII"),
        (Server::Apache, "%{a", "without a closing brace"),
        (Server::Apache, "%j", "unknown directive"),
        (Server::Apache, "100%", "without a letter"),
    ] {
        let message = refused(server, format);
        assert!(message.contains(says), "{format}: {message}");
    }
}

const LINES: &[&str] = &[
    r#"203.0.113.9 - - [22/Nov/2026:10:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 612 "-" "curl/8.5.0" 0.001"#,
    r#"::1 - bob [22/Nov/2026:10:00:00 +0000] "POST /upload HTTP/2.0" 413 0 "https://example.com/a/b/c" "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0" 12.5"#,
    r#"- - - [-] "-" 400 0 "-" "-" 0"#,
    r#"1.2.3.4 - - [22/Nov/2026:10:00:00 +0000] "\x16\x03\x01" 400 157 "-" "-" 0.000"#,
];
const PIECES: &[&str] =
    &[" ", "\"", "\" ", "[", "] \"", "-", " - ", "\\x22", "\\", "0", "HTTP/1.1", ", ", " : ", "."];

#[test]
fn mutated_lines_stay_in_bounds() {
    check_mutated(&mut nginx(TIMED), LINES, PIECES);
    check_mutated(&mut apache(""), LINES, PIECES);
    check_mutated(
        &mut nginx("$time_local $request $upstream_status $upstream_response_time x$http_a"),
        LINES,
        PIECES,
    );
}

/// Returns the expected field for a value, or `None` if the value is `-` or empty.
fn expected(name: &str, value: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(value).into_owned();
    let cast = |kind: Type| {
        let mut fields = Fields::new(1, value);
        let cell = Cell::own(Kind::Text, 0, value.len());
        kind.cast(value, cell, 0, &mut fields)
            .map(|cell| String::from_utf8_lossy(fields.bytes(b"", cell)).into_owned())
    };
    match name {
        _ if text.is_empty() || text == "-" => None,
        "status" | "body_bytes_sent" => cast(Type::Int).map(|text| format!("{name}=#{text}")),
        "request_time" => cast(Type::Float).map(|text| format!("{name}=#{text}")),
        _ => Some(format!("{name}={text}")),
    }
}

/// Number of mutated lines, each parsed twice.
const LINES_MUTATED: TestSize = TestSize { gate: 3000, long: 300_000 };

/// In the equivalent regular expression, each value is as short as possible.
#[test]
fn fields_match_those_of_an_equivalent_regex() {
    let config =
        AccessConfig { format: TIMED.into(), escape: Some(Escape::None), ..Default::default() };
    let mut parser = Access::new(&config).unwrap();
    let whole = r#"(?s-u)^(?<remote_addr>.*?) - (?<remote_user>.*?) \[(?<time_local>.*?)\] "(?<request>.*?)" (?<status>.*?) (?<body_bytes_sent>.*?) "(?<http_referer>.*?)" "(?<http_user_agent>.*?)" (?<request_time>.*)$"#;
    let strict = r#"(?s-u)^([^ ]*) - ([^ ]*) \[([^\]]*)\] "([^"]*)" ([^ ]*) ([^ ]*) "([^"]*)" "([^"]*)" ([^ ]*)$"#;
    let request = Regex::new(
        r"(?s-u)^(?<method>[A-Z_-]+) (?:(?<path>.+) (?<protocol>HTTP/[0-9](?:\.[0-9])?)|(?<bare>[^ ]+))$",
    )
    .unwrap();
    let (whole, strict) = (Regex::new(whole).unwrap(), Regex::new(strict).unwrap());
    let protocol = Regex::new(r"^HTTP/[0-9](\.[0-9])?$").unwrap();
    for seed in Seed::of_test_or(0).cases(LINES_MUTATED) {
        let line = mutated(LINES, PIECES, &mut Rng::with_seed(seed));
        let found = parse_short(&mut parser, &line);
        if found.starts_with('!') {
            assert!(
                !strict.is_match(&line),
                "seed {seed}: {found}: {:?}",
                String::from_utf8_lossy(&line)
            );
            continue;
        }
        let captures = whole.captures(&line).unwrap_or_else(|| panic!("seed {seed}: {line:?}"));
        let mut fields = Vec::new();
        for name in whole.capture_names().flatten() {
            let value = &captures[name];
            fields.extend(expected(name, value));
            // A protocol without a preceding path does not count as a path.
            let parts = request.captures(value).filter(|parts| {
                parts.name("bare").is_none_or(|bare| !protocol.is_match(bare.as_bytes()))
            });
            if let (true, Some(parts)) = (name == "request", parts) {
                let part = |name: &str| {
                    parts
                        .name(name)
                        .map(|part| String::from_utf8_lossy(part.as_bytes()).into_owned())
                };
                fields.extend(part("method").map(|text| format!("method={text}")));
                fields.extend(part("path").or(part("bare")).map(|text| format!("path={text}")));
                fields.extend(part("protocol").map(|text| format!("protocol={text}")));
            }
        }
        assert_eq!(found, fields.join(" "), "seed {seed}");
    }
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn any_bytes_are_a_line(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..80)) {
        let lines: Vec<&[u8]> = lines.iter().map(|line| &line[..]).collect();
        parse(&mut nginx(TIMED), &lines);
        parse(&mut nginx("$a $b"), &lines);
    }
}
