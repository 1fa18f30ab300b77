//! Tokens with a recognizable form, private keys, and values that follow names such as `password`.

use crate::scan::Pattern;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// How tokens begin. Some entries combine two forms, which only adds false candidates.
pub(crate) const TOKEN_TRIGGERS: &[Pattern] = &[
    &[b"a", b"ksi", b"iz", b"a"],  // AKIA, ASIA, AIza
    &[b"g", b"h", b"pousr", b"_"], // ghp_
    &[b"sr", b"k", b"_", b"lt"],   // sk_live_, rk_test_
    &[b"ex", b"yo", b"jx"],        // eyJ, xox
    &[b"br", b"ei", b"az", b"ra"], // bear(er), (autho)riza(tion)
    &[b"xy", b"a", b"p2", b"p9"],  // xapp, ya29
    &[b"bg", b"_l", b"p", b"a"],   // (githu)b_pa(t), glpa(t)
];

pub(crate) const KEY_TRIGGERS: &[Pattern] = &[
    &[b"-", b"b", b"e"],         // -----BEGIN
    &[b"ps", b"ae", b"s", b"s"], // pass, sess(ion)
    &[b"p", b"w", b"d"],
    &[b"e", b"c", b"r"],
    &[b"i_-tsegnhrdpv", b"k", b"e", b"y"],
    &[b"to", b"o", b"k", b"ei"], // toke(n), (c)ooki(e)
    &[b"@"],                     // after a password in a URL
];

/// Tokens that are recognizable by their form.
static SHAPES: LazyLock<Regex> = LazyLock::new(|| {
    let shapes = [
        // JWT: JWS and JWE.
        r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*){0,3}",
        r"gh[pousr]_[A-Za-z0-9]{30,}",
        r"github_pat_[A-Za-z0-9_]{30,}",
        r"glpat-[A-Za-z0-9_.-]{20,}",
        r"xox[a-z]-[A-Za-z0-9-]{10,}",
        r"xapp-[A-Za-z0-9-]{10,}",
        r"(?:AKIA|ASIA)[A-Z0-9]{16}",
        r"AIza[A-Za-z0-9_-]{35}",
        r"ya29\.[A-Za-z0-9_-]{20,}",
        r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    ];
    Regex::new(&format!("(?-u){}", shapes.join("|"))).expect("a valid expression")
});

/// Tokens that are recognizable by the preceding word.
static HEADERS: LazyLock<Regex> = LazyLock::new(|| {
    let after = [
        r"bearer(?:\s|%20|\+|\\u0020)+([A-Za-z0-9._~+/=-]{6,})",
        r#"authorization["'\\]*\s*[:=]\s*["'\\]*(?:basic|digest|token|apikey|negotiate)\s+([A-Za-z0-9._~+/=-]{4,})"#,
    ];
    Regex::new(&format!("(?i-u){}", after.join("|"))).expect("a valid expression")
});

/// The end of a name whose value is secret.
const NAME: &str = r"(?:password|passwd|passphrase|passcode|secret|(?:\b|_)(?:pass|pwd|token)|(?:access|app|auth|refresh|id|session|api|bearer|csrf|xsrf|security)[_-]?token|(?:api|app|application|access|priv|private|consumer|secret|encryption|signing|account|auth|storage|master|shared|license)[_-]?key|sess(?:ion)?[_-]?id)";

static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    // The value can be in double quotes, single quotes, escaped quotes, or no quotes.
    let value = r#"(?:"((?:[^"\\]|\\.)+)|'([^']+)|\\+["']([^"'\\]+)|([^\s"'&,;<>{}()\[\]\\]+))"#;
    let text = format!(r#"(?is-u){NAME}(?:\\*["'])?(?:\s*[:=]\s*|\s*=>\s*|%3[Dd])(?:{value})"#);
    Regex::new(&text).expect("a valid expression")
});

static SECRET_NAME: LazyLock<Regex> = LazyLock::new(|| {
    let text = format!(r"(?i-u)(?:{NAME}|authorization|cookies?|\bsession)$");
    Regex::new(&text).expect("a valid expression")
});

/// Passwords in URLs, values of `Cookie` and `Set-Cookie`, and sessions.
static OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    // The password ends at the last `@` before the path.
    let url = r#"://[^\s/?#:@"'<>\\]*:([^\s/?#"'<>\\]+)@"#;
    let pair = r#"[^\s=;,"'\\(){}\[\]<>&]+=[^\s;,"'\\]*"#;
    let cookies = format!(r#"cookie["'\\]*\s*[:=]\s*["'\\]*({pair}(?:;\s*{pair})*)"#);
    let single = r#"(?:cookie|\bsession|_session)=["'\\]*([^\s;,"'&\\(){}\[\]<>]+)"#;
    Regex::new(&format!("(?i-u){url}|{cookies}|{single}")).expect("a valid expression")
});

/// A private key, up to its end marker or else the end of the text.
static PEM: LazyLock<Regex> = LazyLock::new(|| {
    let text = r"(?s-u)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\z)";
    Regex::new(text).expect("a valid expression")
});

pub(crate) fn find_tokens(text: &[u8], hit: &mut impl FnMut(usize, usize)) {
    SHAPES.find_iter(text).for_each(|found| hit(found.start(), found.end()));
    groups(&HEADERS, text, hit);
}

pub(crate) fn find_keys(text: &[u8], hit: &mut impl FnMut(usize, usize)) {
    PEM.find_iter(text).for_each(|found| hit(found.start(), found.end()));
    groups(&VALUE, text, hit);
    groups(&OTHERS, text, hit);
}

/// Reports the first group that participates in each match.
fn groups(pattern: &Regex, text: &[u8], hit: &mut impl FnMut(usize, usize)) {
    for found in pattern.captures_iter(text) {
        if let Some(group) = found.iter().skip(1).flatten().next() {
            hit(group.start(), group.end());
        }
    }
}

pub(crate) fn is_name(name: &[u8]) -> bool {
    SECRET_NAME.is_match(name)
}
