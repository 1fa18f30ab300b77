use super::*;

/// Returns the proxy for a target, given these environment variables.
fn of(variables: &[(&str, &str)], uri: &str) -> Result<Option<String>, String> {
    let lookup = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let proxy = Environment::read(&lookup).of(&Target::parse(uri).unwrap())?;
    Ok(proxy.map(|proxy| format!("{proxy} by {}", proxy.named_by)))
}

#[test]
fn the_variable_of_the_scheme_counts() {
    let all = ("ALL_PROXY", "http://all:1");
    let http = ("HTTP_PROXY", "http://plain:2");
    let https = ("HTTPS_PROXY", "https://secure");
    let some = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(of(&[], "http://a/"), Ok(None));
    assert_eq!(of(&[http, https, all], "http://a/"), some("http://plain:2 by HTTP_PROXY"));
    assert_eq!(of(&[http, https, all], "https://a/"), some("https://secure by HTTPS_PROXY"));
    assert_eq!(of(&[http, all], "https://a/"), some("http://all:1 by ALL_PROXY"));
    assert_eq!(of(&[http], "https://a/"), Ok(None));
    let lower = [("http_proxy", "lower:3"), ("HTTP_PROXY", " ")];
    assert_eq!(of(&lower, "http://a/"), some("http://lower:3 by HTTP_PROXY"));
}

#[test]
fn exceptions_and_the_own_host_are_reached_directly() {
    let no = "example.com,.below.org *.star.org, 10.0.0.0/8 fd00::/8,192.0.2.7,[2001:db8::1]:8443,\
              ported.net:8080,192.0.2.8:81,dot.org.";
    let direct = |no: &str, uri: &str| {
        of(&[("HTTP_PROXY", "http://p:1"), ("NO_PROXY", no)], uri).unwrap().is_none()
    };
    for uri in [
        "http://example.com/",
        "http://a.b.Example.COM:81/",
        "http://example.com./",
        "http://a.below.org/",
        "http://a.star.org/",
        "http://10.1.2.3/",
        "http://[fd12::1]/",
        "http://[::ffff:10.1.2.3]/",
        "http://192.0.2.7:99/",
        "http://[2001:db8::1]:8443/",
        "http://ported.net:8080/",
        "http://192.0.2.8:81/",
        "http://dot.org/",
        "http://localhost:9200/",
        "http://127.9.9.9/",
        "http://[::1]:80/",
    ] {
        assert!(direct(no, uri), "{uri}");
    }
    for uri in [
        "http://notexample.com/",
        "http://below.org/",
        "http://star.org/",
        "http://11.0.0.1/",
        "http://[fe80::1]/",
        "http://192.0.2.8/",
        "http://ported.net/",
        "http://[2001:db8::1]/",
        "http://example.com.evil.net/",
    ] {
        assert!(!direct(no, uri), "{uri}");
    }
    assert!(direct("*", "http://any.example/") && direct("0.0.0.0/0", "http://192.0.2.1/"));
    assert!(!direct("", "http://any.example/"));
}

#[test]
fn a_login_is_decoded_and_masked() {
    let proxy = Proxy::parse("http://me:p%40ss%20word-1@proxy:3128/", "`proxy`").unwrap();
    assert_eq!(proxy.to_string(), "http://REDACTED@proxy:3128");
    assert_eq!(proxy.login.as_ref().unwrap(), "Basic bWU6cEBzcyB3b3JkLTE=");
    assert!(!format!("{proxy:?}").contains("bWU6"), "{proxy:?}");
    let said = "p@ss word-1, p%40ss%20word-1 and bWU6cEBzcyB3b3JkLTE=";
    assert_eq!(secrets::mask(said), "REDACTED, REDACTED and REDACTED");
    assert_eq!(Proxy::parse("u@h", "").unwrap().login.unwrap(), "Basic dTo=");
}

#[test]
fn unusable_settings_are_errors_without_secrets() {
    let choice = |text: &str| ProxyChoice::parse(Some(text)).map(|_| ()).unwrap_err();
    for text in ["socks5://u:secret@h:1", "u:secret@h:1", "http://u:secret@h/p", "http://", "off"] {
        let error = choice(text);
        assert!(error.contains("use, for example, http://") && !error.contains("sec"), "{error}");
    }
    assert!(matches!(ProxyChoice::parse(Some("none")), Ok(ProxyChoice::Direct)));
    let socks = [("ALL_PROXY", "socks5://u:secret@h:1")];
    let error = of(&socks, "https://a/").unwrap_err();
    assert!(error.contains("the variable ALL_PROXY") && !error.contains("secret"), "{error}");
    assert_eq!(of(&socks, "https://127.0.0.1/"), Ok(None), "it is not needed");
    for no in ["10.0.0.0/33", "10.0.0/8", "a:b"] {
        let error = of(&[("HTTP_PROXY", "h"), ("NO_PROXY", no)], "http://a/").unwrap_err();
        assert!(error.contains("NO_PROXY") && error.contains(no), "{error}");
    }
}
