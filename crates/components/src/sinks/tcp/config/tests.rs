use super::*;
use millstream_model::OptionError;
use serde_json::json;

fn check(options: serde_json::Value) -> Vec<OptionError> {
    serde_json::from_value::<TcpConfig>(options).unwrap().check()
}

#[test]
fn errors_have_a_pointer_and_advice() {
    let cases = [
        (json!({}), "", "use `address: host:port`"),
        (json!({"address": "a:1", "addresses": ["b:1"]}), "/address", "conflicts with `addresses`"),
        (json!({"address": "a"}), "/address", "use host:port"),
        (json!({"addresses": ["a:1", "tcp://b:1"]}), "/addresses/1", "use host:port"),
        (
            json!({"address": "a:1", "encoding": {"codec": "msgpack"}}),
            "/framing",
            "use `framing: length`",
        ),
        (
            json!({"address": "a:1", "acknowledgements": true}),
            "/acknowledgements",
            "use `framing: length`",
        ),
        (json!({"address": "a:1", "compression": "zstd"}), "/compression", "use `framing: length`"),
        (
            json!({"address": "a:1", "framing": "length", "compression": "zstd", "compression_level": 99}),
            "/compression_level",
            "use 1 to 19",
        ),
        (json!({"address": "a:1", "compression_level": 1}), "/compression_level", "remove it"),
        (json!({"address": "a:1", "batch": {}}), "/batch", "remove it"),
        (
            json!({
                "address": "a:1", "framing": "length", "compression": "lz4", "batch": {"bytes": "1GiB"},
                "window": {"bytes": "1GiB"},
            }),
            "/batch/bytes",
            "at most 16MiB",
        ),
        (
            json!({
                "address": "a:1", "framing": "length", "acknowledgements": true, "window": {"bytes": "512KiB"},
            }),
            "/window/bytes",
            "cannot hold a batch of 1048576 bytes; increase it or reduce `batch.bytes`",
        ),
        (json!({"address": "a:1", "connections": 0}), "/connections", "1 to 64"),
        (json!({"address": "a:1", "window": {"frames": 0}}), "/window/frames", "at least 1"),
        (json!({"address": "a:1", "tls": {"cert_file": "c"}}), "/tls", "set both"),
    ];
    for (options, place, says) in cases {
        let errors = check(options.clone());
        assert!(
            errors.len() == 1 && errors[0].pointer == place && errors[0].to_string().contains(says),
            "{options}: {errors:?}"
        );
    }
}

#[test]
fn an_address_is_enough() {
    let config: TcpConfig = serde_json::from_value(json!({"address": "[::1]:6514"})).unwrap();
    assert_eq!(
        (config.check(), config.targets().len(), config.has_batches()),
        (Vec::new(), 1, false)
    );
}

#[test]
fn payloads_that_cannot_share_a_connection_differ_in_their_format() {
    let format = |more: serde_json::Value| {
        let mut options = json!({ "address": "a:1" });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value::<TcpConfig>(options).unwrap().payload_format()
    };
    let text = json!({ "codec": "text" });
    assert_eq!(format(json!({})), format(json!({ "encoding": text, "connections": 3 })));
    let batches = json!({ "framing": "length", "acknowledgements": true });
    let compressed = json!({ "framing": "length", "compression": "zstd" });
    assert_eq!(format(batches.clone()), format(compressed));
    let of_text = json!({ "framing": "length", "acknowledgements": true, "encoding": text });
    let all =
        [json!({}), json!({ "framing": "length" }), json!({ "framing": "none" }), batches, of_text];
    let distinct: std::collections::BTreeSet<String> = all.into_iter().map(format).collect();
    assert_eq!(distinct.len(), 5, "{distinct:?}");
}
