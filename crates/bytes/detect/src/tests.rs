//! Text that the detectors find, and text that they do not find.

use super::*;
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

fn all() -> Detectors {
    Detectors::new(Detector::ALL, Vec::new())
}

/// Returns the parts of a text that one detector finds. Each of them must contain a candidate from
/// the scan over all detectors.
fn found(detector: Detector, text: &[u8]) -> Vec<Vec<u8>> {
    let detectors = Detectors::new(&[detector], Vec::new());
    let (mut hits, mut candidates) = (Vec::new(), Vec::new());
    detectors.find(text, u8::MAX, &mut hits);
    detectors.candidates(text, &mut candidates);
    assert!(
        hits.is_empty() || !candidates.is_empty(),
        "no candidate in {:?}",
        String::from_utf8_lossy(text)
    );
    hits.iter().map(|hit| text[hit.start..hit.end].to_vec()).collect()
}

/// Checks strings in which `«` and `»` enclose each expected hit.
fn check(detector: Detector, texts: &[&str]) {
    for marked in texts {
        let expected: Vec<Vec<u8>> = marked
            .split('«')
            .skip(1)
            .map(|rest| rest.split('»').next().unwrap().as_bytes().to_vec())
            .collect();
        let text = marked.replace(['«', '»'], "");
        let found = found(detector, text.as_bytes());
        let shown = found.iter().map(|hit| String::from_utf8_lossy(hit)).collect::<Vec<_>>();
        assert_eq!(found, expected, "{marked}: {shown:?}");
    }
}

#[test]
fn card_numbers_have_a_prefix_and_a_check_digit() {
    check(
        Detector::Card,
        &[
            "«4111111111111111»",
            "card=«4111-1111-1111-1111», ok",
            "«4111 1111 1111 1111» 03/27",
            "amex «3782 822463 10005»; «378282246310005»",
            "«5555555555554444»|«2223003122003222»|«6011111111111117»|«30569309025904»",
            "13 digits: «4222222222222»",
            r#"{"a":"x\n«4111111111111111»"}"#,
            "4111111111111112 has another check digit, 1234567890123452 no prefix",
            "«4111111111111111.0», «4111111111111111.00»; «4.111111111111111e+15»",
            r#"{"a":«4.111111111111111E15»,"b":«3.4167463737023e14»,"c":«4.43299701683896e15»}"#,
            "4111111111111111.0.1 4111111111111111.05 4.111111111111111e+150 4.111111111111111e-15",
            "4.1111111111111111e15 4.111111111111111e 4.111111111111112e15 44.11111111111111e14",
            "0.4111111111111111 x4111111111111111 4111111111111111.5 41111111111111111111111",
            "4111  1111  1111  1111",
            "1700000000000000000 200 53161 14/Nov/2025:12:00:00 +0000",
        ],
    );
}

#[test]
fn addresses_of_mail_have_a_domain() {
    check(
        Detector::Email,
        &[
            "from «alice.b+tag@mail.example.com», to <«bob@example.org»>.",
            "?mail=«carol%40example.com»&x=1",
            "https://user:«pw@host.example.com»/",
            r#"{"a":"b\n«me@example.com»"}"#,
            "«jürgen@exämple.de»",
            "user@host a@b @example.com x@1.2.3.4 @@.. a@",
        ],
    );
}

#[test]
fn telephone_numbers_are_those_that_look_like_nothing_else() {
    check(
        Detector::Phone,
        &[
            "call «+491711234567» or «+1 (555) 123-4567»",
            "«(555) 123-4567», «555-123-4567», «555.123.4567»",
            "«030 12345678», «(030) 1234567»",
            "2025-11-22 12:00:00 200 53161 4111111111111111 10.11.12.13",
            "1-555-123-4567-8 v+1",
        ],
    );
}

#[test]
fn ip_addresses_are_those_that_can_be_read() {
    check(
        Detector::Ip,
        &[
            "«203.0.113.7» - - «10.0.0.1»:8080 («::1») [«2001:db8::7»]:443",
            "«fe80::1»%eth0 «::ffff:10.0.0.1», «192.168.0.1».",
            "addr:«10.0.0.1»:x",
            "«2001:db8:0:0:0:0:0:1»",
            "1.2.3 1.2.3.4.5 256.1.1.1 12:30:00 std::string a::b v1.2.3.4x 00:1b:44:11:3a:b7",
        ],
    );
}

#[test]
fn tokens_are_found_by_their_shape() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    let texts = [
        format!("jwt «{jwt}»"),
        format!("Authorization: Bearer «{jwt}»"),
        "authorization: bearer  «abc123def»".to_owned(),
        r#""authorization":"Basic «dXNlcjpwdw==»""#.to_owned(),
        format!("«ghp_{}» «github_pat_{}»", "a1".repeat(18), "A_b".repeat(20)),
        "«xoxb-123456789012-abc» «AKIAIOSFODNN7EXAMPLE»".to_owned(),
        format!("«AIza{}» «sk_live_{}»", "x".repeat(35), "4eC39HqLyjWDarjt"),
        format!("«glpat-{}» «ya29.{}»", "x".repeat(20), "y".repeat(24)),
        "a bear, basic understanding, eyJ, gh_, authorization failed".to_owned(),
    ];
    check(Detector::Token, &texts.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn values_behind_secret_names_are_found() {
    check(
        Detector::Key,
        &[
            "password=«hunter2» user=bob",
            "DB_PASSWORD: «hunter2», next",
            r#"{"password":"«hun\"ter2»","a":1}"#,
            r#"{"m":"{\"apiKey\":\"«abc»\"}"}"#,
            "GET /?api_key=«k123»&x=1 access_token=«t1»;",
            "client_secret = '«s e c»' x-api-key: «v»",
            "token=«abc» passwd:«x» pwd=«y» privateKey=«z» encryptionkey=«w»",
            "privKey=«v» DD_APP_KEY=«a» applicationkey: «b» consumerKey=«c» x-apptoken: «t» passcode=«p»",
            "monkey=1 tokens: 15 bypass=2 secretary=x password key=5 compass: 3",
        ],
    );
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----";
    check(Detector::Key, &[&format!("a «{key}» b"), "«-----BEGIN PRIVATE KEY-----\\nMIIE\\ncut»"]);
    check(Detector::Key, &["-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"]);
}

#[test]
fn patterns_hide_their_group() {
    let pattern = |text| Regex::new(text).unwrap();
    let detectors =
        Detectors::new(&[], vec![pattern(r"ORD-\d{8}"), pattern(r"id=(\d+)"), pattern("x*")]);
    let mut hits = Vec::new();
    detectors.find(b"ORD-12345678 id=7", 0, &mut hits);
    let places: Vec<_> = hits.iter().map(|hit| (hit.start, hit.end, hit.what - PATTERN)).collect();
    assert_eq!(places, [(0, 12, 0), (16, 17, 1)]);
}

#[test]
fn names_are_secret_by_their_end() {
    let secret = |name: &str| all().is_secret_name(name.as_bytes());
    for name in [
        "password",
        "db_password",
        "userPassword",
        "token",
        "access_token",
        "apiKey",
        "X-Api-Key",
        "privKey",
    ] {
        assert!(secret(name), "{name}");
    }
    for name in ["user", "tokens", "monkey", "compass", "key", "password_age"] {
        assert!(!secret(name), "{name}");
    }
}

#[test]
fn passwords_in_urls_cookies_and_sessions_are_keys() {
    check(
        Detector::Key,
        &[
            "connect to postgres://app:«hunter2»@db:5432/shop",
            "redis://:«p@ss»@cache/0 and amqp://u:«x»@mq",
            "https://example.com:8080/a@b http://example.com/?u=a:b@c",
            "Cookie: «sid=31d4d96e407aad42; theme=dark» GET /",
            "> Set-Cookie: «id=a3fWa; Path=/»; HttpOnly",
            "cookie=«sid=abc; x=1» status=200",
            r#"headers {"cookie":"«a=b; c=d»"}"#,
            "cookie=«abcdef» look: a book",
            "the cookie: disabled",
            "GET /a;jsessionid=«1A2B3C» 200",
            "PHPSESSID=«r2t5uvjq435r4q7ib3vtdjq120» session_id: «77»",
            "user=7 session=«9f8e7d» ok",
            "pam_unix(sshd:session): session opened for user root",
        ],
    );
    let detectors = Detectors::new(&[Detector::Key], Vec::new());
    for name in ["Cookie", "set-cookie", "http.cookies", "sessionId", "session"] {
        assert!(detectors.is_secret_name(name.as_bytes()), "{name}");
    }
    assert!(!detectors.is_secret_name(b"cookie_banner") && !detectors.is_secret_name(b"obsession"));
}

#[test]
fn hits_that_overlap_are_one() {
    let hit = |start, end, what| Hit { start, end, what };
    let mut hits = vec![hit(9, 9, 9), hit(4, 8, 1), hit(0, 3, 0), hit(2, 5, 2), hit(8, 9, 0)];
    join(&mut hits, 1);
    assert_eq!(hits, [hit(9, 9, 9), hit(0, 8, 0), hit(8, 9, 0)]);
}

/// All triggers must fit into one word of the scanner, because a second word would cost a second
/// pass.
#[test]
fn the_default_detectors_take_one_pass() {
    use Detector::{Card, Email, Key, Token};
    assert_eq!(Detectors::new(&[Card, Email, Token, Key], Vec::new()).scanner.passes(), 1);
}

fn secrets() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-z]{1,8}@[a-z]{1,8}\\.(com|org)",
        Just("4111 1111 1111 1111".to_owned()),
        Just("5555555555554444".to_owned()),
        "password=[a-z0-9]{1,9}",
        "(api_key|Secret|TOKEN)(=|: )[a-z]{1,9}",
        "ghp_[A-Za-z0-9]{36}",
        "Bearer [a-z0-9]{8,20}",
        "[1-9]{1,2}\\.[1-9]\\.[0-9]\\.1[0-9]{1,2}",
        "\\+49[1-9]{9}",
    ]
    .prop_map(String::into_bytes)
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        "[ -~]{0,60}".prop_map(String::into_bytes)
    ]
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// Every hit must contain a candidate, regardless of the surrounding text.
    #[test]
    fn nothing_is_found_without_a_candidate(parts in proptest::collection::vec((noise(), secrets()), 1..6)) {
        let detectors = all();
        let text: Vec<u8> = parts.iter().flat_map(|(noise, secret)| [&noise[..], b" ", secret].concat()).collect();
        for &one in Detector::ALL {
            let (mut hits, mut candidates) = (Vec::new(), Vec::new());
            detectors.find(&text, 1 << one as u8, &mut hits);
            detectors.candidates(&text, &mut candidates);
            let is_there = candidates.iter().any(|candidate| candidate.mask & 1 << one as u8 != 0);
            prop_assert!(hits.is_empty() || is_there, "{one:?}");
        }
    }

    /// A secret between blanks must be found and covered completely.
    #[test]
    fn what_is_planted_is_found(before in noise(), secret in secrets(), after in noise()) {
        let text = [&before[..], b" ; ", &secret, b" ; ", &after].concat();
        let mut hits = Vec::new();
        all().find(&text, u8::MAX, &mut hits);
        let (begin, end) = (before.len() + 3, before.len() + 3 + secret.len());
        // If a name precedes the secret, only the value is hidden.
        prop_assert!(hits.iter().any(|hit| hit.start < end && hit.end >= end && hit.end > begin));
    }

    #[test]
    fn hits_are_in_order_within_the_text(text in noise()) {
        let mut hits = Vec::new();
        all().find(&text, u8::MAX, &mut hits);
        prop_assert!(hits.iter().all(|hit| hit.start < hit.end && hit.end <= text.len()));
        prop_assert!(hits.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}
