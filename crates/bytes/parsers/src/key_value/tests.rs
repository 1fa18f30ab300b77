use super::*;
use crate::harness::{check_mutated, parse, parse_short};

fn parser(config: KeyValueConfig) -> KeyValue {
    KeyValue::new(config).unwrap()
}

#[test]
fn logfmt_is_parsed_as_by_its_library() {
    let mut logfmt = parser(KeyValueConfig::logfmt());
    for (line, fields) in [
        ("level=info msg=\"a text\" n=3", "level=info msg=a text n=3"),
        ("at=info  done err=", "at=info done=?true"),
        (r#"a="x\"y\\" b="\u00e9\n""#, "a=x\"y\\ b=é\n"),
        ("a=b=c d=", "a=b=c"),
        ("a=\"\" b=1", "a= b=1"),
        ("a=\"x\"b=1", "a=x b=1"),
        (" lead=1 ", "lead=1"),
        ("=x a=1", "a=1"),
        ("a=x\"y z", "a=x\"y z=?true"),
        ("a=\"open b=1", "!bad_quotes@2"),
        ("a=\"open\\\"", "!bad_quotes@2"),
        ("only words", "!no_pairs@0"),
        ("", "!no_pairs@0"),
    ] {
        assert_eq!(parse_short(&mut logfmt, line), fields, "{line}");
    }
}

#[test]
fn delimiters_are_configurable() {
    let config = |field: &str, pair: &str| KeyValueConfig {
        field_delimiter: field.into(),
        key_value_delimiter: pair.into(),
        ..KeyValueConfig::default()
    };
    assert_eq!(
        parse_short(&mut parser(config("|", ":")), "a:b|c:d e|word|x:\"|\""),
        "a=b c=d e x=|"
    );
    assert_eq!(
        parse_short(&mut parser(config(", ", " = ")), "a = b, c,d = \"e, f\", g = 1"),
        "a=b c,d=e, f g=1"
    );
    assert_eq!(
        parse_short(&mut parser(KeyValueConfig::ltsv()), "host:::1\tua:\"x\" y\tempty:\tlast:-"),
        "host=::1 ua=\"x\" y last=-"
    );
}

#[test]
fn unknown_escapes_are_kept() {
    let line = r#"user="CORP\ada" re="^\d+\w$" path="C:\Users\x" t="a\tb" q='it\'s' u="\u12""#;
    let fields = "user=CORP\\ada re=^\\d+\\w$ path=C:\\Users\\x t=a\tb q=it's u=\\u12";
    assert_eq!(parse_short(&mut parser(KeyValueConfig::default()), line), fields);
    let mut plain = parser(KeyValueConfig { escapes: false, ..KeyValueConfig::default() });
    assert_eq!(parse_short(&mut plain, r#"path="C:\temp\" n=1"#), r"path=C:\temp\ n=1");
    // Pairs that have no column must be unescaped as well.
    let many: String = (0..1000).map(|n| format!("k{n}=\"a\\d\" ")).collect();
    let shown = parse_short(&mut parser(KeyValueConfig::default()), &many);
    assert!(shown.ends_with(r#""k999":"a\\d""#), "{shown}");
}

#[test]
fn values_may_be_in_single_quotes() {
    let mut pairs = parser(KeyValueConfig::default());
    for (line, fields) in [
        (
            r#"status=200 request='"GET /metrics HTTP/1.1"' took=3"#,
            r#"status=200 request="GET /metrics HTTP/1.1" took=3"#,
        ),
        (
            r#"ses=1 msg='op=login acct="root" res=success'"#,
            r#"ses=1 msg=op=login acct="root" res=success"#,
        ),
        ("a='' b='it's here' c=1", "a= b=it's here c=1"),
        // Apostrophes.
        ("a='tis b=1 c='twas d=x'y", "a='tis b=1 c='twas d=x'y"),
        ("a='b", "a='b"),
        ("a=\"'\" b='\"'", "a=' b=\""),
    ] {
        assert_eq!(parse_short(&mut pairs, line), fields, "{line}");
    }
    let quotes = b"|".to_vec();
    let mut bars = parser(KeyValueConfig { quotes, ..KeyValueConfig::default() });
    assert_eq!(parse_short(&mut bars, "a=|b c| d=\"e f\""), "a=b c d=\"e");
    assert_eq!(parse_short(&mut parser(KeyValueConfig::logfmt()), "a='b c'"), "a='b c'=?true");
}

#[test]
fn blanks_around_keys_and_values_are_removed() {
    let config =
        |trim| KeyValueConfig { field_delimiter: ",".into(), trim, ..KeyValueConfig::default() };
    let mut trimmed = parser(config(true));
    let lines: [&[u8]; 5] = [
        b"time=\"2021-06-11 09:54:11Z\", severity=[php7:emerg] , process=17",
        b"time=1, severity=b, process=17",
        b"  time = 1 ,\tseverity = \"b, \" , process\t=\t17  ",
        b"time=1,severity= , process = ,, x",
        b" = 1, ,\t",
    ];
    let shown = [
        "time=2021-06-11 09:54:11Z severity=[php7:emerg] process=17",
        "time=1 severity=b process=17",
        "time=1 severity=b,  process=17",
        "time=1",
        "!no_pairs@0",
    ];
    assert_eq!(parse(&mut trimmed, &lines).shown_short(), shown);
    assert_eq!(parse_short(&mut parser(config(false)), "a= 1 , b=2"), "a= 1   b=2");
    let delimiters = |field: &str, pair: &str| KeyValueConfig {
        field_delimiter: field.into(),
        key_value_delimiter: pair.into(),
        ..KeyValueConfig::default()
    };
    let mut wide = parser(delimiters(" | ", "="));
    assert_eq!(parse_short(&mut wide, "a = 1 | b =  | c='x | y'"), "a=1 c=x | y");
    let mut tabs = parser(delimiters("\t", ":"));
    assert_eq!(parse_short(&mut tabs, "a : 1 \tb:\t\"c\":2"), "a=1 \"c\"=2");
    let mut spaces = parser(delimiters(",", " "));
    assert_eq!(parse_short(&mut spaces, "a 1,  b   2 , c"), "a=1 b=2");
}

#[test]
fn null_values_make_no_field() {
    let null_values = vec![b"-".to_vec(), b"?".to_vec()];
    let mut pairs = parser(KeyValueConfig { null_values, ..KeyValueConfig::default() });
    assert_eq!(parse_short(&mut pairs, "a=- b=? c=\"-\" d=-1 e=1 e=-"), "c=- d=-1");
}

#[test]
fn the_last_of_duplicate_keys_wins_and_types_apply() {
    let types = vec![("n".into(), Type::Int), ("never".into(), Type::Int)];
    let mut typed = parser(KeyValueConfig { types, ..KeyValueConfig::default() });
    let parsed = parse(&mut typed, &[b"n=1 n=\"2\\u0030\" x=1", b"x=2 n=3", b"n=four"]);
    assert_eq!(parsed.shown_short(), ["n=#20 x=1", "n=#3 x=2", ""]);
    assert_eq!((parsed.duplicates, parsed.bad_types), (1, 1));
}

#[test]
fn invalid_options_are_rejected() {
    let refused = |change: fn(&mut KeyValueConfig)| {
        let mut config = KeyValueConfig::default();
        change(&mut config);
        KeyValue::new(config).unwrap_err()
    };
    assert!(refused(|config| config.field_delimiter = String::new()).contains("field_delimiter"));
    assert!(
        refused(|config| config.key_value_delimiter = " =".into())
            .contains("begin with the same byte")
    );
    assert!(refused(|config| config.quotes = vec![b'=']).contains("quote must be"));
}

/// A key that is too long for the word comparison must not be mistaken for an empty key.
#[test]
fn an_empty_key_matches_no_key_of_the_previous_line() {
    let mut parser = parser(KeyValueConfig::default());
    let lines = parse(&mut parser, &[b"a_key_of_more_than_sixteen_bytes=1 b=2", b"=3 b=4", b"=5"]);
    assert_eq!(
        lines.shown_short(),
        ["a_key_of_more_than_sixteen_bytes=1 b=2", "b=4", "!no_pairs@0"]
    );
}

#[test]
fn the_number_of_columns_is_limited() {
    let line: String = (0..1000).map(|n| format!("k{n}=v ")).collect();
    let shown = parse_short(&mut parser(KeyValueConfig::default()), &line);
    // The remaining pairs share one additional column.
    assert_eq!(shown.split(' ').count(), millstream_columns::COLUMNS_MAX + 1);
}

#[test]
fn mutated_lines_stay_in_bounds() {
    let lines = [
        "level=info msg=\"a text\" n=3",
        "a:b|c:d",
        "a = 'b | c' | d = e | f=-",
        "",
        r#"x="\"" y="\\" z"#,
        "a=1 a=2 a=\"\\n\" a=3",
    ];
    let pieces = ["=", "\"", "\\\"", " ", "\\", "a=", "|", ":", "'", "\t"];
    check_mutated(&mut parser(KeyValueConfig::logfmt()), &lines, &pieces);
    check_mutated(&mut parser(KeyValueConfig::ltsv()), &lines, &pieces);
    let (field_delimiter, key_value_delimiter) = ("||".into(), "=\"".into());
    let wide = KeyValueConfig { field_delimiter, key_value_delimiter, ..KeyValueConfig::default() };
    check_mutated(&mut parser(wide), &lines, &pieces);
    let trimmed = KeyValueConfig {
        field_delimiter: "|".into(),
        escapes: false,
        null_values: vec![b"a".to_vec()],
        ..KeyValueConfig::default()
    };
    check_mutated(&mut parser(trimmed.clone()), &lines, &pieces);
    let key_value_delimiter = " ".into();
    check_mutated(&mut parser(KeyValueConfig { key_value_delimiter, ..trimmed }), &lines, &pieces);
}

#[test]
fn keys_match_only_if_all_bytes_are_equal() {
    let keys = [
        "a",
        "ab",
        "eight-by",
        "nine-byte",
        "sixteen-bytes-00",
        "sixteen-bytes-01",
        "more-than-16-bytes",
    ];
    let line = |keys: &[&str], n: usize| {
        keys.iter().map(|key| format!("{key}={n}")).collect::<Vec<_>>().join(if n == 5 {
            "  "
        } else {
            " "
        })
    };
    let mut lines: Vec<String> = (0..keys.len()).map(|n| line(&keys[..n + 1], n)).collect();
    lines.extend((0..keys.len()).map(|n| line(&[&keys[n..], &keys[..n]].concat(), n)));
    lines.push("a=1 ab=\"2\" eight-by= nine-byte=4".into());
    lines.push("a=1 a=2 ab=3".into());
    let bytes: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let parsed = parse(&mut parser(KeyValueConfig::default()), &bytes);
    assert_eq!(parsed.duplicates, 1);
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        words.sort();
        words
    };
    for (line, found) in lines.iter().zip(parsed.shown_short()) {
        let alone = parse_short(&mut parser(KeyValueConfig::default()), line);
        assert_eq!(sorted(&found), sorted(&alone), "{line}");
        assert!(found.contains("a="), "{line}: {found}");
    }
}
