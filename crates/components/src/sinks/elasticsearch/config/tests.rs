use super::*;
use serde_json::{Value, json};

/// Returns the errors of options, to which the required options are added.
fn errors(options: Value) -> Vec<OptionError> {
    let mut all = json!({ "endpoints": ["http://h:9200"], "index": "logs" });
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    serde_json::from_value::<ElasticsearchConfig>(all).unwrap().check()
}

#[test]
fn errors_beyond_the_schema_have_advice() {
    for (options, at) in [
        (json!({ "endpoints": [] }), "/endpoints"),
        (json!({ "endpoints": ["http://h", "h:9200"] }), "/endpoints/1"),
        (json!({ "endpoints": ["http://h/?pretty"] }), "/endpoints/0"),
        (json!({ "endpoints": ["http://u:p@h/"] }), "/endpoints/0"),
        (json!({ "index": null }), ""),
        (json!({ "data_stream": {} }), "/data_stream"),
        (json!({ "index": null, "data_stream": { "dataset": "A B" } }), "/data_stream"),
        (json!({ "index": null, "data_stream": {}, "op_type": "index" }), "/op_type"),
        (json!({ "encoding": { "codec": "text" } }), "/encoding/codec"),
        (json!({ "encoding": { "codec": "msgpack" } }), "/encoding/codec"),
        (json!({ "encoding": { "metadata_key": "@timestamp" } }), "/encoding/metadata_key"),
        (json!({ "timestamp_key": "" }), "/timestamp_key"),
        (json!({ "compression": "lz4" }), "/compression"),
        (json!({ "compression": "zstd", "compression_level": 20 }), "/compression_level"),
        (json!({ "auth": { "type": "api_key" } }), "/auth"),
        (json!({ "tls": {} }), "/tls"),
        (json!({ "headers": { "authorization": "x" } }), "/headers/authorization"),
        (json!({ "batch": { "bytes": "1GiB" } }), "/batch/bytes"),
        (json!({ "request": { "concurrency": 65 } }), "/request/concurrency"),
        (json!({ "indexes_max": 0 }), "/indexes_max"),
    ] {
        let found = errors(options);
        assert_eq!(found.iter().map(|error| error.pointer.as_str()).collect::<Vec<_>>(), [at]);
        assert!(found[0].to_string().contains("; "), "{}", found[0].to_string());
    }
    let good = json!({
        "index": null, "data_stream": { "dataset": "{{ app }}" }, "encoding": { "codec": "raw_json" },
        "auth": { "type": "api_key", "key": "a2V5" }, "compression": "none", "id": "",
    });
    assert_eq!(errors(good), []);
}

#[test]
fn the_path_of_an_endpoint_is_a_prefix() {
    let path = |endpoint: &str| {
        let options = json!({ "endpoints": [endpoint], "index": "logs" });
        let config: ElasticsearchConfig = serde_json::from_value(options).unwrap();
        config.targets().0[0].path.clone()
    };
    assert_eq!(path("http://h:9200"), BULK);
    assert_eq!(path("http://h:9200/search/"), format!("/search{BULK}"));
}

#[test]
fn defaults_suit_elasticsearch() {
    let options = json!({ "endpoints": ["http://h:9200"], "data_stream": {} });
    let config: ElasticsearchConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.destination().unwrap().text(), "logs-generic-default");
    assert_eq!(config.documents().timestamp_key, "@timestamp");
    assert_eq!((config.compression, config.level()), (Algorithm::Gzip, Some(1)));
    assert_eq!((config.op_type.name(), config.request.concurrency), ("create", 8));
    assert!(config.id.0.is_event_id());
}
