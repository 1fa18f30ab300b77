use super::*;
use crate::Type;
use crate::harness::{Parsed, check_mutated, parse, parse_short, show_short};

fn leef() -> Leef {
    Leef::new(LeefConfig::default()).unwrap()
}

/// Formats the fields of a line like [`parse_short`], followed by `!reason@offset` for a flaw.
fn parse_flawed(parser: &mut Leef, line: &str) -> String {
    let Parsed { lines, flaws, .. } = parse(parser, &[line.as_bytes()]);
    let flaws = flaws.iter().map(|flaw| format!(" !{}@{}", flaw.reason, flaw.at));
    show_short(&lines[0]) + &flaws.collect::<String>()
}

/// Formats the attributes of a line with this version and rest, and the offset of any flaw.
fn attributes(parser: &mut Leef, version: &str, text: &str) -> String {
    let shown = parse_flawed(parser, &format!("LEEF:{version}|v|p|4.0 SP1|id|{text}"));
    let header =
        format!("leef_version={version} vendor=v product=p product_version=4.0 SP1 event_id=id");
    match shown.strip_prefix(&header) {
        Some(rest) => rest.trim_start().to_owned(),
        None => shown,
    }
}

#[test]
fn headers_are_parsed_after_any_prefix() {
    for (line, fields) in [
        (
            "LEEF:1.0|Microsoft|MSExchange|4.0 SP1|15345|",
            "leef_version=1.0 vendor=Microsoft product=MSExchange product_version=4.0 SP1 event_id=15345",
        ),
        (
            "<13>Jan 18 11:07:53 192.168.1.1 LEEF:2.0|v|p|1|id",
            "prefix=<13>Jan 18 11:07:53 192.168.1.1 leef_version=2.0 vendor=v product=p product_version=1 event_id=id",
        ),
        (
            r"host LEEF: 1.0|Micro\|soft| p ||CORP\x|",
            r"prefix=host leef_version=1.0 vendor=Micro|soft product=p product_version= event_id=CORP\x",
        ),
    ] {
        assert_eq!(parse_short(&mut leef(), line), fields, "{line}");
    }
}

#[test]
fn attributes_end_at_a_tab_or_at_the_delimiter_of_the_line() {
    for (version, text, fields) in [
        ("1.0", "src=192.0.2.0\tdst=::1\tsev=5", "src=192.0.2.0 dst=::1 sev=5"),
        ("1.0", "usrName=ada lovelace\tcat=\tmsg=a=b&c=d", "usrName=ada lovelace cat= msg=a=b&c=d"),
        ("1.0", "\ta=1\t\tb=2 \t \r", "a=1 b=2"),
        ("1.0", "^|a=1^b=2", "^|a=1^b=2"),
        // Blanks are allowed inside a key, but not around it.
        ("1.0", "file name=pic.gif\t file name =x", "file name=x"),
        ("2.0", "^|src=10.0.1.8^dst=a b^sev=5", "src=10.0.1.8 dst=a b sev=5"),
        ("2.0", "0x40|a=1@b=2\t@c=", "a=1 b=2 c="),
        ("2.0", "x40|a=1@b=2", "a=1 b=2"),
        ("2.0", "X5e|a=1^b=2", "a=1 b=2"),
        ("2.0", "x9|a=1\tb=2", "a=1 b=2"),
        ("2.0", "0x0009|a=1\tb=2", "a=1 b=2"),
        ("2.0", "\u{a6}|a=1\u{a6}b=2", "a=1 b=2"),
        ("2.0", "x00A6|a=1\u{a6}b=2", "a=1 b=2"),
        ("2.0", "\t|a=1\tb=2", "a=1 b=2"),
        ("2.0", "x|a=1xb=2", "a=1 b=2"),
        ("2.0", "||a=1|b=2", "a=1 b=2"),
        ("2.0", "x7C|a=1|b=2", "a=1 b=2"),
        // The delimiter is empty, or its field is missing.
        ("2.0", "|a=1\tb=2", "a=1 b=2"),
        ("2.0", "a=1\tb=2", "a=1 b=2"),
        ("2.0", "a=1\tb=2|\tc=3", "a=1 b=2| c=3"),
        ("2.0", "", ""),
        ("2.0", "^|", ""),
    ] {
        assert_eq!(attributes(&mut leef(), version, text), fields, "{text}");
    }
}

#[test]
fn the_delimiter_is_configurable() {
    let delimiter =
        |text: &str| LeefConfig { delimiter: Some(text.into()), ..LeefConfig::default() };
    // A syslog daemon writes tabs in this form.
    let mut octal = Leef::new(delimiter("#011")).unwrap();
    assert_eq!(attributes(&mut octal, "1.0", "a=1#011b=2 #3#011"), "a=1 b=2 #3");
    assert_eq!(attributes(&mut octal, "2.0", "#011|a=1#011b=2"), "a=1 b=2");
    assert_eq!(attributes(&mut octal, "2.0", "^|a=1#011b=^"), "a=1 b=^");
    for wrong in ["", "="] {
        assert!(Leef::new(delimiter(wrong)).unwrap_err().contains("must not be"), "{wrong}");
    }
}

#[test]
fn backslashes_are_ordinary_unless_configured() {
    let line = "path=C:\\new\tuser=CORP\\ada\tfoo=foo\\=bar";
    assert_eq!(attributes(&mut leef(), "1.0", line), r"path=C:\new user=CORP\ada foo=foo\=bar");
    let values = EventConfig { escapes: true, ..EventConfig::default() };
    let mut escapes = Leef::new(LeefConfig { values, ..LeefConfig::default() }).unwrap();
    let line = "path=C:\\\\new\tuser=CORP\\ada\tfoo=foo\\=bar\ttext=a\\nb";
    let fields = "path=C:\\new user=CORP\\ada foo=foo=bar text=a\nb";
    assert_eq!(attributes(&mut escapes, "1.0", line), fields);
}

#[test]
fn lines_that_do_not_match_have_a_reason() {
    for (line, reason) in [
        ("", "!not_leef@0"),
        ("LEEF:1.0", "!not_leef@0"),
        ("LEEF|a|b|c|d|", "!not_leef@0"),
        ("BAD_SIGN:1.0|v|p|1|id|a=1", "!not_leef@0"),
        ("CEF:0|v|p|1|id|n|5|", "!not_leef@0"),
        ("LEEF:1.0|Microsoft|MSExchange", "!too_few_fields@29"),
        ("LEEF:2.0|v|p|1|id|INVALID|a=1", "!bad_delimiter@18"),
        ("LEEF:2.0|v|p|1|id|0x|a=1", "!bad_delimiter@18"),
        ("LEEF:2.0|v|p|1|id|x12345|a=1", "!bad_delimiter@18"),
        ("LEEF:2.0|v|p|1|id|xD800|a=1", "!bad_delimiter@18"),
        ("LEEF:2.0|v|p|1|id|x3D|a=1", "!bad_delimiter@18"),
    ] {
        assert_eq!(parse_short(&mut leef(), line), reason, "{line}");
    }
    let line = b"LEEF:2.0|v|p|1|id|\xFF|a=1";
    assert_eq!(parse_short(&mut leef(), line), "!bad_delimiter@18");
}

/// Text that belongs to no field must not be lost silently, so the line is reported.
#[test]
fn an_attribute_without_a_key_is_a_flaw() {
    for (text, fields) in [
        ("a=1\tsome words\tb=2\tmore", "a=1 b=2 !bad_attributes@28"),
        ("some words", "!bad_attributes@24"),
        (" =x\ta=1", "a=1 !bad_attributes@25"),
    ] {
        assert_eq!(attributes(&mut leef(), "1.0", text), fields, "{text}");
    }
}

#[test]
fn names_types_and_null_values_apply_as_for_cef() {
    let types = vec![("sev".into(), Type::Int)];
    let values = EventConfig { types, null_values: vec![b"-".to_vec()], ..EventConfig::default() };
    let mut typed = Leef::new(LeefConfig { values, ..LeefConfig::default() }).unwrap();
    let text = "product=VPN-1\tsev=05\tsev=7\tcat=-\tvendor=x";
    assert_eq!(attributes(&mut typed, "1.0", text), "ext_product=VPN-1 sev=#7 ext_vendor=x");
    let line = b"LEEF:1.0|v|p|1|id|k\xFF=1\ta=1";
    assert_eq!(
        parse_short(&mut leef(), line),
        "leef_version=1.0 vendor=v product=p product_version=1 event_id=id a=1 =\"k\u{fffd}\":\"1\""
    );
}

#[test]
fn mutated_lines_stay_in_bounds() {
    let lines = [
        "Feb 29 12:34:56 h LEEF:1.0|v|p|1|id|src=203.0.113.7\tusrName=ada lovelace\tsev=5",
        "LEEF:2.0|v|p|1|id|^|a=1^b=2^vendor=x",
        r"LEEF:2.0|v\|w|p\\|1|id|0x40|a=1\=2@b=C:\n",
        "LEEF:2.0|v|p|1|id|a=1\tb=2",
        "",
    ];
    let pieces = ["=", "|", "\\", "^", "\t", "LEEF:", "2", ".0", "0x5e", "x", "vendor=", "é"];
    check_mutated(&mut leef(), &lines, &pieces);
    let values =
        EventConfig { escapes: true, null_values: vec![b"1".to_vec()], ..EventConfig::default() };
    let delimiter = Some("^b".to_owned());
    check_mutated(&mut Leef::new(LeefConfig { delimiter, values }).unwrap(), &lines, &pieces);
}
