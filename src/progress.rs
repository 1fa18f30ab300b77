//! Rates while the agent runs: a line every second on a terminal, every five seconds elsewhere.

use millstream_engine::Snapshot;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// How often a line is printed on a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_secs(1);

/// How often a line is printed elsewhere.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// Shows rates until it is aborted.
pub async fn show(observe: impl Fn() -> Snapshot + Send + 'static) {
    let terminal = std::io::stderr().is_terminal();
    let interval = if terminal { TERMINAL_INTERVAL } else { PLAIN_INTERVAL };
    let mut before = observe();
    loop {
        tokio::time::sleep(interval).await;
        let now = observe();
        let line = line(&before, &now);
        // A closed standard error is no reason to stop.
        let _ = writeln!(std::io::stderr(), "{line}");
        before = now;
    }
}

/// `app 1200 ev/s 0.2 MB/s → out 1200 ev/s 0.4 MB/s (total 52000), waiting 0.1 MB`
fn line(before: &Snapshot, now: &Snapshot) -> String {
    let seconds = (now.uptime_seconds - before.uptime_seconds).max(1e-9);
    let pairs = now
        .components
        .iter()
        .filter_map(|c| Some((c, before.components.iter().find(|b| b.id == c.id)?)));
    let shown = pairs.filter(|(c, _)| c.kind != "transform").map(|(c, b)| {
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let events = rate(c.counters.sent_events, b.counters.sent_events);
        let mb = rate(c.counters.sent_bytes, b.counters.sent_bytes) / 1e6;
        let error = c.error.as_ref().map_or(String::new(), |t| format!(" [{t}]"));
        format!(
            "{} {}: {events:.0} events/s, {mb:.2} MB/s, total {}{error}",
            c.kind, c.id, c.counters.sent_events
        )
    });
    shown.collect::<Vec<_>>().join(" | ")
}
