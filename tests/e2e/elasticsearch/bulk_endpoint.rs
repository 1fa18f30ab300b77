//! A bulk endpoint in the test process whose answers a test chooses.

use millstream_testkit_servers::http::{HttpOptions, HttpServer, ReceivedRequest, Reply};
use millstream_testkit_servers::unpack::unpack;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reaction of the endpoint to a request.
pub enum Act {
    /// Judges each event.
    Judge,
    /// Judges each event, then sends a response that is made from the answer instead of the answer.
    JudgeThen(fn(String) -> Reply),
    /// Sends this response without judging the events.
    Instead(Reply),
}

/// An endpoint that stores the accepted documents by their id.
pub struct BulkEndpoint {
    pub server: HttpServer,
    pub documents: Arc<Mutex<BTreeMap<String, Value>>>,
}

/// An action and its document.
pub type Event<'e> = (&'e Value, &'e Value);

impl BulkEndpoint {
    /// Starts an endpoint. `act` returns the reaction to a request, given the number of earlier
    /// requests; `judge` returns the status of a new event.
    pub fn start(
        act: impl Fn(&ReceivedRequest, usize) -> Act + Send + Sync + 'static,
        judge: impl Fn(Event<'_>, usize) -> u16 + Send + Sync + 'static,
    ) -> BulkEndpoint {
        BulkEndpoint::with(HttpOptions::default(), act, judge)
    }

    /// Starts an endpoint with options.
    pub fn with(
        options: HttpOptions,
        act: impl Fn(&ReceivedRequest, usize) -> Act + Send + Sync + 'static,
        judge: impl Fn(Event<'_>, usize) -> u16 + Send + Sync + 'static,
    ) -> BulkEndpoint {
        let documents = Arc::new(Mutex::new(BTreeMap::new()));
        let (kept, count) = (documents.clone(), Mutex::new(0));
        let server = HttpServer::with(options, move |seen| {
            let mut count = count.lock();
            *count += 1;
            let nth = *count - 1;
            let act = act(seen, nth);
            if let Act::Instead(reply) = act {
                return reply;
            }
            let answer = answer(seen, &mut kept.lock(), |event| judge(event, nth));
            match act {
                Act::JudgeThen(then) => then(answer),
                _ => Reply::Status(200, Vec::new(), answer),
            }
        });
        BulkEndpoint { server, documents }
    }
}

/// Returns the events of a request: actions and documents.
pub fn events(seen: &ReceivedRequest) -> Vec<(Value, Value)> {
    let body = unpack(seen.header("content-encoding"), &seen.body).unwrap();
    let text = String::from_utf8(body).unwrap();
    assert!(text.ends_with('\n'));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn answer(
    seen: &ReceivedRequest,
    documents: &mut BTreeMap<String, Value>,
    judge: impl Fn(Event<'_>) -> u16,
) -> String {
    let item = |(action, document): (Value, Value)| {
        let id = action["create"]["_id"].as_str().unwrap().to_owned();
        let status = if documents.contains_key(&id) { 409 } else { judge((&action, &document)) };
        match status {
            201 => drop(documents.insert(id, document)),
            status => {
                let error =
                    json!({ "type": format!("type_{status}"), "reason": "as the test says" });
                return json!({ "create": { "status": status, "error": error } });
            }
        }
        json!({ "create": { "status": 201 } })
    };
    let items: Vec<Value> = events(seen).into_iter().map(item).collect();
    json!({ "errors": items.iter().any(|item| item["create"]["status"] != 201), "items": items })
        .to_string()
}
