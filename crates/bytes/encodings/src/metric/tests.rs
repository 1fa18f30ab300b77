use super::*;
use millstream_columns::push_json_string;
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

fn pairs(object: &str) -> Result<Vec<(String, String)>, InvalidTags> {
    let (mut scratch, mut found) = (Scratch::default(), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    tags(object.as_bytes(), &mut scratch, |key, value| found.push((text(key), text(value))))?;
    Ok(found)
}

fn owned(list: &[(&str, &str)]) -> Result<Vec<(String, String)>, InvalidTags> {
    Ok(list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

#[test]
fn tags_are_strings_true_and_arrays() {
    assert_eq!(pairs("{}"), owned(&[]));
    assert_eq!(
        pairs(r#"{"a":"1","b":true,"c":["x",true,"y"],"d":""}"#),
        owned(&[("a", "1"), ("b", ""), ("c", "x"), ("c", ""), ("c", "y"), ("d", "")])
    );
    assert_eq!(pairs(r#"{"a\"b":"c\\d","e":["\u00e9"]}"#), owned(&[("a\"b", "c\\d"), ("e", "é")]));
    assert_eq!(
        pairs(" { \"a\" : [ \"1\" , \"2\" ] , \"b\" : \"\" } "),
        pairs(r#"{"a":["1","2"],"b":""}"#)
    );
}

#[test]
fn other_scalars_are_passed_as_they_are_written() {
    let found = pairs(r#"{"code":200,"ok":false,"none":null,"many":[1.5,null]}"#);
    assert_eq!(found, owned(&[("code", "200"), ("ok", "false"), ("many", "1.5")]));
}

#[test]
fn invalid_tags_are_rejected() {
    for object in [
        "",
        "[]",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":{}}",
        "{\"a\":[[]]}",
        "{\"a\":\"1\"",
        "{\"a\":\"1\\",
    ] {
        assert_eq!(pairs(object), Err(InvalidTags), "{object}");
    }
}

#[test]
fn sketch_members_may_be_in_any_order() {
    let text = r#"{ "weights": [2, 0.5], "more": {"a": [1]}, "values": [-1.5, 2e3],
        "max": 2000, "min": -1.5, "sum": 997, "count": 2.5 }"#;
    let sketch = SketchText::parse(text.as_bytes()).unwrap();
    assert_eq!((sketch.count, sketch.sum, sketch.min, sketch.max), (2.5, 997.0, -1.5, 2000.0));
    assert_eq!(sketch.points().len(), 2);
    assert_eq!(sketch.points().collect::<Vec<_>>(), [(-1.5, 2.0), (2000.0, 0.5)]);
}

#[test]
fn invalid_sketches_are_rejected() {
    let sketch = |values: &str, weights: &str| {
        let text = format!(
            r#"{{"count":1,"sum":1,"min":1,"max":1,"values":{values},"weights":{weights}}}"#
        );
        SketchText::parse(text.as_bytes()).is_some()
    };
    assert!(sketch("[]", "[]") && sketch("[1,2]", "[1,1]"));
    let wrong =
        [("[1]", "[]"), ("[2,1]", "[1,1]"), ("[1,1]", "[1,1]"), ("[1]", "[0]"), ("[1]", "[-1]")];
    wrong
        .iter()
        .for_each(|(values, weights)| assert!(!sketch(values, weights), "{values} {weights}"));
    let wrong =
        [("[\"1\"]", "[1]"), ("[1e999]", "[1]"), ("1", "1"), ("[1", "[1]"), ("[1 2]", "[1,1]")];
    wrong
        .iter()
        .for_each(|(values, weights)| assert!(!sketch(values, weights), "{values} {weights}"));
    assert_eq!(SketchText::parse(br#"{"count":1,"sum":1,"min":1,"values":[],"weights":[]}"#), None);
    let limits = br#"{"count":1,"sum":1,"min":2,"max":1,"values":[1],"weights":[1]}"#;
    assert_eq!(SketchText::parse(limits), None, "min is above max");
    assert_eq!(SketchText::parse(b"3"), None);
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn tags_round_trip(tags in prop::collection::vec((".{0,8}", ".{1,20}"), 0..6)) {
        let mut object = vec![b'{'];
        for (key, value) in &tags {
            if object.len() > 1 {
                object.push(b',');
            }
            push_json_string(key.as_bytes(), &mut object);
            object.push(b':');
            push_json_string(value.as_bytes(), &mut object);
        }
        object.push(b'}');
        prop_assert_eq!(pairs(std::str::from_utf8(&object).unwrap()), Ok(tags));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[{}\\[\\]\",:\\\\a1t. -]{0,40}") {
        let _ = pairs(&text);
        let _ = SketchText::parse(text.as_bytes());
    }
}
