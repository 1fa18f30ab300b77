//! Advice for a cause, by component type and by failure.

use super::cause::Cause;
use millstream_model::snapshot::ComponentSnapshot;

/// A cause, the status code of a response, and the advice.
type ByStatus = (Cause, i64, &'static str);

/// Advice on responses with specific status codes. `{}` is replaced by the component.
#[rustfmt::skip]
const BY_STATUS: &[ByStatus] = &[
    (Cause::LoginOrCertificate, 401, "the endpoint of {} rejects the credentials: check `auth`"),
    (Cause::LoginOrCertificate, 403, "the account of {} has no permission to write: check `auth`, and the account's permissions at the endpoint"),
    (Cause::LoginOrCertificate, 407, "a proxy between {} and its endpoint requires credentials: configure them, or bypass the proxy"),
    (Cause::EndpointRefuses, 405, "the endpoint does not accept the method: check `method` and the path of {}"),
    (Cause::EndpointRefuses, 415, "the endpoint does not support the format: check `encoding` and `compression` of {}"),
    (Cause::EndpointRefuses, 501, "the endpoint does not accept the method: check `method` and the path of {}"),
];

/// Advice on errors of specific types.
#[rustfmt::skip]
const BY_KIND: &[(Cause, &str, &str)] = &[
    (Cause::LoginOrCertificate, "proxy_authentication", "the proxy between {} and its endpoint requires credentials: add them to the proxy address, or bypass the proxy with `proxy: none` or NO_PROXY"),
    (Cause::LoginOrCertificate, "tls", "check the port and `tls` of {}: the endpoint's certificate must be signed by a CA in `ca_file` and have a valid name and valid dates, or `pin` must contain its fingerprint"),
    (Cause::EndpointRefuses, "server", "the endpoint of {} fails: read the endpoint's log; the agent keeps the events and resends them"),
    (Cause::EndpointRefuses, "redirect", "the endpoint of {} redirects to another address, which the sink does not follow: configure that address"),
];

/// Advice on a sink whose endpoint rejects all events for their content.
const ALL_REFUSED: &str = "the endpoint rejects everything that {} sends: read its response in the \
                           agent's log, and compare `encoding`, `headers` and the address with the \
                           endpoint's requirements";

/// Returns the advice on a cause. `component` is the component with the cause, or `None` if it no
/// longer exists.
pub fn advice(cause: Cause, id: &str, component: Option<&ComponentSnapshot>) -> String {
    let special = component
        .and_then(|component| by_failure(cause, component).or_else(|| by_type(cause, component)));
    special.map_or_else(|| cause.advice(id), |special| special.replace("{}", id))
}

/// Returns the advice on a sink whose endpoint rejects all events for their content.
pub fn all_refused(id: &str) -> String {
    ALL_REFUSED.replace("{}", id)
}

/// Returns the advice for the current failure of a sink, if the sink is failing and there is such
/// advice.
fn by_failure(cause: Cause, component: &ComponentSnapshot) -> Option<&'static str> {
    let failure = component.failure.as_ref()?;
    let by_kind = BY_KIND.iter().find(|row| (row.0, row.1) == (cause, failure.kind));
    let by_status = BY_STATUS.iter().find(|row| (row.0, row.1) == (cause, failure.code));
    by_status.map(|row| row.2).or(by_kind.map(|row| row.2))
}

/// Returns the advice for a type of component, if there is one.
fn by_type(cause: Cause, component: &ComponentSnapshot) -> Option<&'static str> {
    let is_kafka = component.type_name == "kafka";
    Some(match (cause, component.type_name) {
        (Cause::TopicOrIndexMissing, "elasticsearch") => {
            "create the index or data stream that {} writes to, or correct its name and the path in `endpoints`"
        }
        (Cause::TopicOrIndexMissing, "kafka") if component.kind == "source" => {
            "create the topic that {} reads, or correct its `topics`"
        }
        (Cause::TopicOrIndexMissing, _) if !is_kafka => {
            "correct the path in `uri` or `endpoints` of {}: the endpoint does not have it"
        }
        (Cause::BrokerThrottles, _) if !is_kafka => {
            "the endpoint of {} limits the rate: raise its limit, or send fewer requests with a \
             larger `batch` or a lower `request.concurrency`"
        }
        (Cause::WrongEncoding, _) if component.kind == "sink" => {
            "set `encoding` on the source before {} whose lines use another encoding"
        }
        (Cause::RateLimit, "throttle") => "raise `events` of {}, or shorten its `window`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::snapshot::FailureSnapshot;

    fn of(type_name: &'static str, kind: &'static str, code: i64) -> ComponentSnapshot {
        let failure = FailureSnapshot { kind, code, ..FailureSnapshot::default() };
        ComponentSnapshot { type_name, failure: Some(failure), ..ComponentSnapshot::default() }
    }

    #[test]
    fn the_advice_fits_the_sink_and_the_answer() {
        use Cause::{
            BrokerThrottles, EndpointRefuses, LoginOrCertificate, RateLimit, TopicOrIndexMissing,
        };
        for (cause, type_name, kind, code, part) in [
            (TopicOrIndexMissing, "http", "not_found", 404, "path in `uri`"),
            (TopicOrIndexMissing, "elasticsearch", "not_found", 404, "create the index"),
            (TopicOrIndexMissing, "kafka", "unknown_topic", 0, "create the topic"),
            (BrokerThrottles, "http", "throttled", 429, "`request.concurrency`"),
            (BrokerThrottles, "kafka", "throttled", 0, "raise the quota"),
            (LoginOrCertificate, "http", "tls", 0, "`ca_file`"),
            (LoginOrCertificate, "http", "proxy_authentication", 0, "`proxy: none`"),
            (LoginOrCertificate, "http", "authentication", 401, "check `auth`"),
            (LoginOrCertificate, "kafka", "authentication", 0, "`sasl`"),
            (EndpointRefuses, "http", "refused", 415, "`compression`"),
            (EndpointRefuses, "http", "server", 503, "resends"),
            (EndpointRefuses, "http", "server", 501, "`method`"),
            (EndpointRefuses, "http", "redirect", 301, "another address"),
            (RateLimit, "throttle", "", 0, "`events` of out"),
            (RateLimit, "file", "", 0, "`rate_limit` of out"),
        ] {
            let component = of(type_name, kind, code);
            let text = advice(cause, "out", Some(&component));
            assert!(text.contains(part) && text.contains("out"), "{type_name} {code}: {text}");
        }
        let gone = advice(RateLimit, "out", None);
        assert!(gone.contains("out"), "a reload has removed it: {gone}");
        assert!(all_refused("out").contains("rejects everything that out sends"));
    }
}
