use super::*;
use crate::harness::{check_mutated, parse, parse_short};
use millstream_testkit_random::{Seed, TestSize};

fn csv(change: impl FnOnce(&mut DelimitedConfig)) -> Delimited {
    let fields = vec![("a".into(), None), ("b".into(), Some(Type::Int)), ("c".into(), None)];
    let mut config = DelimitedConfig { fields, ..DelimitedConfig::default() };
    change(&mut config);
    Delimited::new(config).unwrap()
}

#[test]
fn lines_of_rfc_4180_are_parsed() {
    let mut parser = csv(|_| ());
    for (line, fields) in [
        ("x,1,y", "a=x b=#1 c=y"),
        ("x,,", "a=x"),
        ("x", "a=x"),
        ("", ""),
        (",,,", ""),
        ("x,1,y,z", "a=x b=#1 c=y"),
        ("\"x,y\",\"1\",\"\"", "a=x,y b=#1 c="),
        ("\"say \"\"hi\"\"\",2,\"\"\"\"", "a=say \"hi\" b=#2 c=\""),
        ("a\"b,3,c\"", "a=a\"b b=#3 c=c\""),
        ("\"open,1,2", "!bad_quotes@0"),
        ("x,\"1\"2,y", "!bad_quotes@5"),
        ("x, 1,y", "a=x c=y"),
    ] {
        assert_eq!(parse_short(&mut parser, line), fields, "{line}");
    }
    assert_eq!(parse(&mut parser, &[b"x,y,z", b"1,2,3", b"1,2.5,3"]).bad_types, 2);
}

#[test]
fn options_control_what_matches() {
    let mut strict =
        csv(|config| (config.on_extra, config.on_missing) = (Unequal::Fail, Unequal::Fail));
    assert_eq!(parse_short(&mut strict, "x,1"), "!too_few_fields@3");
    assert_eq!(parse_short(&mut strict, "x,1,y,"), "!too_many_fields@5");
    assert_eq!(parse_short(&mut strict, "x,1,"), "a=x b=#1");
    let mut trimmed = csv(|config| config.trim = true);
    assert_eq!(parse_short(&mut trimmed, " x ,\t1 , \" y \" "), "a=x b=#1 c= y ");
    assert_eq!(parse_short(&mut trimmed, "  ,  ,"), "");
    let mut wide = csv(|config| config.delimiter = "||".into());
    assert_eq!(parse_short(&mut wide, "x|y||1||\"||\""), "a=x|y b=#1 c=||");
    assert_eq!(parse_short(&mut wide, "x|||1"), "a=x");
    let mut tsv = csv(|config| (config.delimiter, config.quote) = ("\t".into(), None));
    assert_eq!(parse_short(&mut tsv, "\"x\t1\ty"), "a=\"x b=#1 c=y");
    let mut skipping = csv(|config| config.fields[0].0 = "".into());
    assert_eq!(parse_short(&mut skipping, "\"x\"\"\",1,y"), "b=#1 c=y");
}

#[test]
fn backslashes_escape_if_configured() {
    let mut escaped = csv(|config| config.escapes = true);
    for (line, fields) in [
        (r"a\,b,1,c\\,d", r"a=a,b b=#1 c=c\"),
        (r#""say \"hi\"",1,"x\\""#, r#"a=say "hi" b=#1 c=x\"#),
        (r#""both ""and\"",1,y"#, r#"a=both "and" b=#1 c=y"#),
        (r"CORP\ada,1,a\tb", "a=CORP\\ada b=#1 c=a\tb"),
        (r#""open\",1,2"#, "!bad_quotes@0"),
        (r"x\", r"a=x\"),
        ("x,1,y", "a=x b=#1 c=y"),
    ] {
        assert_eq!(parse_short(&mut escaped, line), fields, "{line}");
    }
    let plain = parse_short(&mut csv(|_| ()), r"a\,1,c\\");
    assert_eq!(plain, r"a=a\ b=#1 c=c\\");
    let mut tsv = csv(|config| {
        (config.delimiter, config.quote, config.escapes) = ("\t".into(), None, true);
        config.null_values = vec![br"\N".to_vec()];
    });
    assert_eq!(parse_short(&mut tsv, "a\\tb\t\\N\tc\\\td"), "a=a\tb c=c\td");
}

#[test]
fn null_values_make_no_field() {
    let mut parser = csv(|config| config.null_values = vec![b"-".to_vec(), b"NULL".to_vec()]);
    for (line, fields) in [
        ("-,-,NULL", ""),
        ("\"-\",1,\"NULL\"", "a=- b=#1 c=NULL"),
        ("--,NULL,null", "a=-- c=null"),
        ("-,1,\"\"\"\"", "b=#1 c=\""),
    ] {
        assert_eq!(parse_short(&mut parser, line), fields, "{line}");
    }
    let parsed = parse(&mut parser, &[b"x,-,y", b"x,NULL,y", b"-,2,-"]);
    assert_eq!(parsed.shown_short(), ["a=x c=y", "a=x c=y", "b=#2"]);
    assert_eq!(parsed.bad_types, 0);
}

#[test]
fn invalid_options_are_rejected() {
    let refused = |change: fn(&mut DelimitedConfig)| {
        let mut config =
            DelimitedConfig { fields: vec![("a".into(), None)], ..DelimitedConfig::default() };
        change(&mut config);
        Delimited::new(config).unwrap_err()
    };
    assert!(refused(|config| config.delimiter = String::new()).contains("delimiter is empty"));
    assert!(refused(|config| config.delimiter = "¦".into()).contains("non-ASCII"));
    assert!(refused(|config| config.quote = Some(b',')).contains("quote must be"));
    let with_backslash = |config: &mut DelimitedConfig| {
        (config.escapes, config.quote) = (true, Some(b'\\'));
    };
    assert!(refused(with_backslash).contains("escapes: false"));
    assert!(refused(|config| config.fields.clear()).contains("fields is empty"));
    assert!(refused(|config| config.fields.push(("a".into(), None))).contains("duplicate field"));
}

#[test]
fn mutated_lines_stay_in_bounds() {
    let lines =
        ["x,1,y", "\"a,b\",2,\"c\"\"d\"", "", "long,123456789,and a text with spaces", "||,||"];
    let pieces = [",", "\"", "\"\"", "||", "\",", ",\"", " "];
    check_mutated(&mut csv(|_| ()), &lines, &pieces);
    check_mutated(&mut csv(|config| config.delimiter = "||".into()), &lines, &pieces);
    check_mutated(&mut csv(|config| config.trim = true), &lines, &pieces);
    check_mutated(&mut csv(|config| config.quote = None), &lines, &pieces);
    let pieces = [&pieces[..], &["\\", "\\\"", "\\,", "-"]].concat();
    let escaped = |config: &mut DelimitedConfig| {
        (config.escapes, config.null_values) = (true, vec![b"-".to_vec()]);
    };
    check_mutated(&mut csv(escaped), &lines, &pieces);
}

/// Parses a line according to RFC 4180, character by character. Returns `None` if the line is
/// invalid.
fn reference(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut chars) = (Vec::new(), line.chars().peekable());
    loop {
        let mut value = String::new();
        if chars.next_if_eq(&'"').is_some() {
            loop {
                match chars.next()? {
                    '"' if chars.next_if_eq(&'"').is_some() => value.push('"'),
                    '"' => break,
                    other => value.push(other),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| *c != ',') {
                value.push(c);
            }
        }
        fields.push(value);
        match chars.next() {
            None => return Some(fields),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// Number of lines. Each is parsed twice.
const LINES: TestSize = TestSize { gate: 5000, long: 500_000 };

#[test]
fn values_match_those_of_a_character_reader() {
    let names = ["a", "b", "c"];
    let fields = names.map(|name| (name.into(), None)).to_vec();
    let mut parser = Delimited::new(DelimitedConfig {
        fields,
        on_extra: Unequal::Fail,
        ..DelimitedConfig::default()
    })
    .unwrap();
    for seed in Seed::of_test_or(0).cases(LINES) {
        let mut random = fastrand::Rng::with_seed(seed);
        let line: String =
            (0..random.u64(..14)).map(|_| ['x', 'y', ',', '"'][random.u64(..4) as usize]).collect();
        let found = parse_short(&mut parser, &line);
        let Some(values) = reference(&line).filter(|values| values.len() <= 3) else {
            assert!(found.starts_with('!'), "{line}: {found}");
            continue;
        };
        // Other tests cover the difference between empty values with and without quotes.
        let shown = names.iter().zip(&values).filter(|(_, value)| !value.is_empty());
        let shown: Vec<String> = shown.map(|(name, value)| format!("{name}={value}")).collect();
        let found: Vec<&str> = found.split(' ').filter(|field| !field.ends_with('=')).collect();
        assert_eq!(found.join(" "), shown.join(" "), "{line}");
    }
}

#[test]
fn an_irregular_line_does_not_affect_its_neighbors() {
    let mut parser = csv(|_| ());
    for (odd, at) in ["", "x", "x,1,y,z", "\"x\",1,y", ",,"].iter().zip([0, 1, 63, 64, 199]) {
        // More lines than fit into one region.
        let mut lines: Vec<String> = (0..200).map(|n| format!("a{n},{n},c{n}")).collect();
        lines[at] = (*odd).to_owned();
        let bytes: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        let parsed = parse(&mut parser, &bytes);
        for (line, found) in lines.iter().zip(parsed.shown_short()) {
            assert_eq!(found, parse_short(&mut parser, line), "{line} with {odd:?}");
        }
    }
}
