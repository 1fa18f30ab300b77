use super::*;
use serde_json::json;

fn options(value: serde_json::Value) -> AuthOptions {
    serde_json::from_value(value).unwrap()
}

#[test]
fn each_kind_builds_its_header() {
    let cases = [
        (
            json!({"type": "basic", "user": "ann", "password": "pass:word"}),
            "authorization",
            "Basic YW5uOnBhc3M6d29yZA==",
        ),
        (json!({"type": "bearer", "token": "t0ken"}), "authorization", "Bearer t0ken"),
        (json!({"type": "header", "name": "X-Api-Key", "value": "k"}), "X-Api-Key", "k"),
    ];
    for (given, name, value) in cases {
        let options = options(given);
        assert_eq!(options.check(), []);
        let auth = options.build();
        assert_eq!(auth.header().unwrap(), (name, value.to_owned()));
    }
}

#[test]
fn reserved_headers_cannot_carry_a_secret() {
    for (name, says) in [
        ("Host", "set by the agent; "),
        ("Content-Length", "set by the agent; "),
        ("transfer-encoding", "set by the agent; "),
        ("IDEMPOTENCY-KEY", "set by the agent; "),
        ("a b", "not a header name; "),
    ] {
        let errors = options(json!({"type": "header", "name": name, "value": "k"})).check();
        let [error] = &errors[..] else { panic!("{name}: {errors:?}") };
        let (at, text) = (&error.pointer, error.message());
        assert!(at == "/name" && text.contains(says), "{name}: {text}");
    }
    assert_eq!(
        options(json!({"type": "header", "name": "Authorization", "value": "k"})).check(),
        []
    );
}

#[test]
fn base64_is_padded() {
    for (bytes, text) in
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("\u{ff}~?", "w79+Pw==")]
    {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
}

#[test]
fn a_changed_secret_file_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let secret = Secret::file(path.clone());
    assert!(secret.text().unwrap_err().to_string().contains("token: No such file"));
    for text in ["one", "two", "another"] {
        std::fs::write(&path, format!("{text}\r\n")).unwrap();
        assert_eq!(&*secret.text().unwrap(), text);
    }
    for (bad, says) in [("\n", "is empty"), ("a\nb", "one line"), ("a\0b", "one line")] {
        std::fs::write(&path, bad).unwrap();
        assert!(secret.text().unwrap_err().to_string().contains(says), "{bad:?}");
    }
}

#[test]
fn pipes_and_devices_are_rejected() {
    let secret = Secret::file("/dev/zero".into());
    assert!(secret.text().unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn secrets_are_never_displayed() {
    let given = options(json!({"type": "basic", "user": "ann", "password": "hidden"}));
    assert!(!format!("{given:?} {:?}", given.clone().build()).contains("hidden"));
}

#[test]
fn invalid_options_are_reported_with_a_pointer() {
    let cases = [
        (json!({"type": "bearer"}), "", "needs `token_file` or `token`"),
        (json!({"type": "bearer", "token": "a", "token_file": "b"}), "/token", "conflicts with"),
        (json!({"type": "bearer", "token": "a\nb"}), "/token", "invalid in a header"),
        (json!({"type": "basic", "user": "a:b", "password": "c"}), "/user", "colon"),
        (json!({"type": "header", "name": "a b", "value": "c"}), "/name", "not a header name"),
    ];
    for (given, place, says) in cases {
        let errors = options(given).check();
        assert!(
            errors.len() == 1 && errors[0].pointer == place && errors[0].message().contains(says),
            "{errors:?}"
        );
    }
}

#[test]
fn unknown_keys_are_rejected() {
    let slip = json!({"type": "bearer", "token": "a", "tokenfile": "b"});
    assert!(serde_json::from_value::<AuthOptions>(slip).is_err());
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    // A file that contains a single line of a terabyte, but occupies no disk blocks.
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let error = Secret::file(path).text().unwrap_err().to_string();
    assert!(error.contains("longer than 64 KiB"), "{error}");
}
