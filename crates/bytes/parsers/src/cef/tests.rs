use super::*;
use crate::Type;
use crate::harness::{Parsed, check_mutated, parse, parse_line, parse_short};
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use std::collections::BTreeMap;

fn cef() -> Cef {
    Cef::new(EventConfig { escapes: true, ..EventConfig::default() })
}

/// Formats the fields of a line as [`parse_short`] does, and then `!reason@offset` for each flaw.
fn parse_flawed(line: &str) -> String {
    let Parsed { lines, flaws, .. } = parse(&mut cef(), &[line.as_bytes()]);
    let flaws = flaws.iter().map(|flaw| format!(" !{}@{}", flaw.reason, flaw.at));
    crate::harness::show_short(&lines[0]) + &flaws.collect::<String>()
}

const HEADER: &str = "CEF:0|v|p|1|id|n|5|";

/// Formats the fields of an extension, and the offset of any flaw in the extension.
fn extension(text: &str) -> String {
    let shown = parse_flawed(&format!("{HEADER}{text}"));
    let header = "cef_version=0 device_vendor=v device_product=p device_version=1 \
         device_event_class_id=id name=n severity=5";
    shown.strip_prefix(header).unwrap_or_else(|| panic!("{shown}")).trim_start().to_owned()
}

#[test]
fn headers_are_parsed_after_any_prefix() {
    let worm = "device_vendor=Security device_product=threatmanager device_version=1.0 \
         device_event_class_id=100 name=worm stopped severity=10";
    let line = "|Security|threatmanager|1.0|100|worm stopped|10|";
    for (begin, fields) in [
        ("CEF:0", "cef_version=0"),
        ("CEF:26", "cef_version=26"),
        ("CEF:0.1", "cef_version=0.1"),
        ("  CEF:0", "cef_version=0"),
        ("<134>CEF:0", "prefix=<134> cef_version=0"),
        (r"a\b\|c CEF:0", r"prefix=a\b\|c cef_version=0"),
        ("Sep 29 08:26:10 host CEF:1", "prefix=Sep 29 08:26:10 host cef_version=1"),
        (
            "2536 <14>1 2024-07-04T09:16:35.992Z h log - panw [a b=\"|\"] CEF:0",
            "prefix=2536 <14>1 2024-07-04T09:16:35.992Z h log - panw [a b=\"|\"] cef_version=0",
        ),
        ("<14>1 - h a - - - \u{feff}CEF:0", "prefix=<14>1 - h a - - - cef_version=0"),
        // A syslog daemon has parsed `CEF:` as the name of a program.
        ("Jun  3 00:00:00 host CEF: 0", "prefix=Jun  3 00:00:00 host cef_version=0"),
        ("Jun  3 00:00:00 host CEF: CEF:0", "prefix=Jun  3 00:00:00 host CEF: cef_version=0"),
    ] {
        let line = format!("{begin}{line}");
        assert_eq!(parse_short(&mut cef(), &line), format!("{fields} {worm}"), "{line}");
    }
}

#[test]
fn values_of_headers_may_be_empty_padded_or_escaped() {
    for (line, values) in [
        (r"security|threat\|->manager|1.0|100|n|10|", r"security;threat|->manager;1.0;100;n;10"),
        (
            r"security\\compliance|threat=manager|1|1|a = b|10|",
            r"security\compliance;threat=manager;1;1;a = b;10",
        ),
        (
            r"v|p|1|operation1\|operation2|Information|Unknown|",
            r"v;p;1;operation1|operation2;Information;Unknown",
        ),
        (r"CORP\ada|\||\\|\n|\\\||5\|", r"CORP\ada;|;\;\n;\|;5|"),
        ("|||||", ";;;;;"),
        ("||1.0|100|n|High|", ";;1.0;100;n;High"),
        (" v | p|1 | 100| detected a | in packet |", "v;p;1;100;detected a;in packet"),
        // There is no pipe after the severity.
        ("Red Hat|RHEL|8.0.0|100|SSH login|5", "Red Hat;RHEL;8.0.0;100;SSH login;5"),
        ("Red Hat|RHEL|8.0.0|100|SSH login|5 \r", "Red Hat;RHEL;8.0.0;100;SSH login;5"),
    ] {
        let fields = parse_line(&mut cef(), format!("CEF:0|{line}")).unwrap();
        let found: Vec<_> = fields[1..].iter().map(|(.., value)| &value[..]).collect();
        assert_eq!(String::from_utf8_lossy(&found.join(&b';')), values, "{line}");
        assert_eq!(fields.len(), 7, "{line}");
    }
}

#[test]
fn values_of_extensions_end_before_the_next_key() {
    for (text, fields) in [
        ("", ""),
        ("src=10.0.0.1 dst=2.1.2.2 spt=1232", "src=10.0.0.1 dst=2.1.2.2 spt=1232"),
        ("  src=10.0.0.1 msg=Found in a mail", "src=10.0.0.1 msg=Found in a mail"),
        ("filePath=/user/a name.txt fsize=100 ", "filePath=/user/a name.txt fsize=100"),
        // Empty values, including at the end.
        ("suser= duser= app=x dpt=", "suser= duser= app=x dpt="),
        ("a=", "a="),
        // Blanks.
        ("msg=padded    src=10.0.0.1 ", "msg=padded src=10.0.0.1"),
        ("spt=1 msg=at the end\t \r", "spt=1 msg=at the end"),
        ("msg=tabs\tand\rothers\t src=::1", "msg=tabs\tand\rothers src=::1"),
        ("msg=Tab is no separator\tsrc=::1", "msg=Tab is no separator\tsrc=::1"),
        // Keys may contain characters other than letters.
        (
            "_cefVer=0.1 ad.X-Ip[0]=a PanOSX-Forwarded-For=b",
            "_cefVer=0.1 ad.X-Ip[0]=a PanOSX-Forwarded-For=b",
        ),
        // A pipe needs no escape.
        (r"moo=this|has a pipe x=this\|too", r"moo=this|has a pipe x=this\|too"),
        // Labels are kept unchanged.
        ("cs1Label=Rule cs1=any cn1= cn1Label=Id", "cs1Label=Rule cs1=any cn1= cn1Label=Id"),
        ("msg=\"Some message.\" b='c d'", "msg=\"Some message.\" b='c d'"),
    ] {
        assert_eq!(extension(text), fields, "{text}");
    }
}

#[test]
fn escapes_are_decoded() {
    for (text, fields) in [
        (r"msg=a+b\=c x=c\\d\=z", r"msg=a+b=c x=c\d=z"),
        (r"moo=this \=has escaped \= equals\=", "moo=this =has escaped = equals="),
        (r"sourceZoneID=MQ\=\= act=blocked a \\ dst=1", r"sourceZoneID=MQ== act=blocked a \ dst=1"),
        (
            r"msg=one\ntwo.\r\n\r\nthree\\newlines\\\=. b=1\n",
            "msg=one\ntwo.\r\n\r\nthree\\newlines\\=. b=1\n",
        ),
        // Text after an escape is not a key.
        (r"cs1=A file.\nName\=some value cs2=x", "cs1=A file.\nName=some value cs2=x"),
        (r"raw=CEF:0|a|b|1|2|c|10|key\=v k\=w b=1", "raw=CEF:0|a|b|1|2|c|10|key=v k=w b=1"),
        // The program did not escape these backslashes.
        (r"msg=User: example\admin (Id: 12)  suid=2", r"msg=User: example\admin (Id: 12) suid=2"),
        (r"path=Some\/Path a=\", r"path=Some\/Path a=\"),
    ] {
        assert_eq!(extension(text), fields, "{text}");
    }
    let mut plain = Cef::new(EventConfig::default());
    let line = format!(r"{HEADER}path=C:\new\\x q=a\=b");
    let shown = parse_short(&mut plain, line.replace("|v|", r"|v\|w|"));
    assert!(shown.contains("device_vendor=v|w "), "{shown}");
    assert!(shown.ends_with(r"path=C:\new\\x q=a\=b"), "{shown}");
}

#[test]
fn equals_signs_that_are_not_escaped_stay_in_their_value() {
    for (text, fields) in [
        (
            "request=https://foo.example/?id=foo&a=bar abc=lol",
            "request=https://foo.example/?id=foo&a=bar abc=lol",
        ),
        (
            "agent='x/2018; =Email:a@b; Guid:test=' cs1= c=1",
            "agent='x/2018; =Email:a@b; Guid:test=' cs1= c=1",
        ),
        ("msg=aGVsbG8= pub=Zm9vYmFy= spt=6", "msg=aGVsbG8= pub=Zm9vYmFy= spt=6"),
        (
            "error=because id==old user=root a=106<=180",
            "error=because id==old user=root a=106<=180",
        ),
        ("moo=this =has = equals\\=", "moo=this =has = equals="),
        (
            "msg=\"subject=/C=US/O=Home, Inc/CN=1; before=Oct 7\" x=1",
            "msg=\"subject=/C=US/O=Home, Inc/CN=1; before=Oct 7\" x=1",
        ),
        (r"key1=\\hi= key2=a", r"key1=\hi= key2=a"),
        ("a=1 foo =bar", "a=1 foo =bar"),
        // This name is not a valid key.
        ("ad.a=b ad.<x y~\"1\">http=//x/y ad.c=d", "ad.a=b ad.<x y~\"1\">http=//x/y ad.c=d"),
    ] {
        assert_eq!(extension(text), fields, "{text}");
    }
}

#[test]
fn lines_that_do_not_match_have_a_reason() {
    for (line, reason) in [
        ("", "!not_cef@0"),
        ("Feb 29 12:34:56 fw-1 su: failed", "!not_cef@0"),
        ("a|b|c", "!not_cef@0"),
        ("CEF:", "!not_cef@0"),
        ("CEF:0", "!not_cef@0"),
        ("CEF:|v|p|1|id|n|5|", "!not_cef@0"),
        ("CEF:x|v|p|1|id|n|5|", "!not_cef@0"),
        ("LEEF:1.0|v|p|1|id|n|5|", "!not_cef@0"),
        ("CEF:0|", "!too_few_fields@6"),
        (r"CEF:0|v|p\|1|id|n|5", "!too_few_fields@19"),
        ("CEF:0|Sentinel|Mgmt|activityID=1 activityType=2", "!too_few_fields@47"),
    ] {
        assert_eq!(parse_short(&mut cef(), line), reason, "{line}");
    }
}

/// Text that belongs to no field must not be lost silently, so the line is reported.
#[test]
fn text_before_the_first_key_is_a_flaw() {
    for (text, fields) in [
        (" only words ", "!bad_extension@20"),
        ("foo =bar src=::1", "src=::1 !bad_extension@19"),
        ("x:y=1 src=::1", "src=::1 !bad_extension@19"),
        ("=1", "!bad_extension@19"),
        ("|a=1 b=2", "b=2 !bad_extension@19"),
    ] {
        assert_eq!(extension(text), fields, "{text}");
    }
}

#[test]
fn a_key_with_the_name_of_a_header_field_is_renamed() {
    assert_eq!(
        extension("severity=0 name=x y prefix=p src=::1"),
        "ext_severity=0 ext_name=x y ext_prefix=p src=::1"
    );
    let lines = [format!("{HEADER}severity=0 a=1"), format!("{HEADER}a=2 severity=3")];
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let parsed = parse(&mut cef(), &lines).shown_short();
    assert!(parsed[0].ends_with("severity=5 ext_severity=0 a=1"), "{parsed:?}");
    assert!(parsed[1].ends_with("severity=5 ext_severity=3 a=2"), "{parsed:?}");
}

#[test]
fn the_last_of_duplicate_keys_wins_and_types_and_null_values_apply() {
    let types = vec![("severity".into(), Type::Int), ("spt".into(), Type::Int)];
    let null_values = vec![b"".to_vec(), b"N/A".to_vec()];
    let mut typed = Cef::new(EventConfig { escapes: true, null_values, types });
    let line = format!("{HEADER}a=1 spt=0080 a=2 b= c=N/A msg=N/A or not");
    let parsed = parse(&mut typed, &[line.as_bytes(), b"CEF:0||||||Low|spt="]);
    let shown = parsed.shown_short();
    assert!(shown[0].ends_with("severity=#5 a=2 spt=#80 msg=N/A or not"), "{shown:?}");
    assert_eq!(shown[1], "cef_version=0");
    assert_eq!((parsed.duplicates, parsed.bad_types), (1, 1));
}

#[test]
fn the_number_of_columns_is_limited() {
    let pairs: String = (0..1000).map(|n| format!("k{n}=a\\=b ")).collect();
    let shown = extension(&pairs);
    // The remaining pairs share one additional column.
    let columns = millstream_columns::COLUMNS_MAX - NAMES.len();
    assert_eq!(shown.split(' ').count(), columns + 1);
    assert!(shown.ends_with(r#""k999":"a=b""#), "{shown}");
}

/// Number of random lines.
const LINES: TestSize = TestSize { gate: 2_000, long: 200_000 };

/// Generates text from characters that are significant in CEF.
fn text(random: &mut Rng) -> String {
    let parts = ["=", "\\", "|", " ", "n", "key", "\n", "\r", "é", "a=b", "CEF:0|"];
    (0..random.usize(..6)).map(|_| parts[random.usize(..parts.len())]).collect()
}

/// Lines that are written according to the CEF rules must parse to the original values.
#[test]
fn written_lines_are_read() {
    let mut parser = cef();
    for seed in Seed::of_test_or(0).cases(LINES) {
        let mut random = Rng::with_seed(seed);
        let mut line = "CEF:0".to_owned();
        let mut expected = BTreeMap::from([("cef_version".to_owned(), "0".to_owned())]);
        for name in &NAMES[2..] {
            let value = text(&mut random).trim().to_owned();
            line += &format!("|{}", value.replace('\\', r"\\").replace('|', r"\|"));
            expected.insert((*name).to_owned(), value);
        }
        line.push('|');
        for _ in 0..random.usize(..5) {
            let key = ["src", "msg", "ad.x-y[0]", "_", "k1"][random.usize(..5)];
            // Trailing blanks are not part of a value.
            let value = text(&mut random).trim_end().to_owned();
            let written = value.replace('\\', r"\\").replace('=', r"\=");
            let written = written.replace('\n', r"\n").replace('\r', r"\r");
            line += &format!(" {key}={written}");
            expected.insert(key.to_owned(), value);
        }
        let found = parse_line(&mut parser, line.as_bytes()).unwrap();
        let found =
            found.into_iter().map(|(name, _, value)| (name, String::from_utf8(value).unwrap()));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "{line}");
    }
}

#[test]
fn mutated_lines_stay_in_bounds() {
    let lines = [
        "Sep 29 08:26:10 host CEF:1|Security|threatmanager|1.0|100|worm|10|src=10.0.0.1 spt=1232",
        r"CEF:0|a\|b|c\\|1|d|e|5| msg=two words\=x\\y\nz name=n a= b=",
        "CEF:0||||||",
        "",
    ];
    let pieces = ["=", "|", "\\", " ", "\t", "CEF:", "0", ".", " a=", "name=", "\\=", "\\n"];
    check_mutated(&mut cef(), &lines, &pieces);
    let null_values = vec![b"a".to_vec(), b"".to_vec()];
    let types = vec![("spt".into(), Type::Int)];
    check_mutated(
        &mut Cef::new(EventConfig { escapes: false, null_values, types }),
        &lines,
        &pieces,
    );
}
