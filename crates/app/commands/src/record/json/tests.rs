use super::*;
use millstream_recorder::event::{Thread, bits};
use millstream_recorder::ids::{SubjectId, TextId, ThreadId};
use millstream_recorder::schema::EventKind;
use std::num::NonZeroU64;

struct Names;

impl Tables for Names {
    fn text(&self, id: TextId) -> Option<&str> {
        ["out", "refused \"x\""].get(id.0 as usize).copied()
    }

    fn thread(&self, id: ThreadId) -> Option<Thread<'_>> {
        (id.0 == 0).then_some(Thread { name: "network", os_id: 12 })
    }
}

/// Three ticks in a microsecond.
const CLOCK: Clock = Clock {
    ticks_per_second: NonZeroU64::new(3_000_000_000).unwrap(),
    start_ticks: 900,
    start_unix_ns: 1_795_726_017_000_000_000,
};

fn line(kind: EventKind, values: [u64; 5]) -> String {
    let event = Event {
        kind,
        thread: ThreadId(0),
        subject: SubjectId(0),
        start_ticks: 1_200,
        duration_ticks: 30,
        values,
    };
    object(&event, &CLOCK, &Names).to_string()
}

#[test]
fn an_event_has_the_fields_of_its_type() {
    let values = bits([
        Value::Text(TextId(0)),
        Value::Text(TextId(1)),
        Value::Unsigned(443),
        Value::Bytes(u64::MAX),
    ]);
    assert_eq!(
        line(EventKind::SocketWrite, values),
        r#"{"event":"SocketWrite","time":"2026-11-26T20:46:57.000000100Z","duration_ns":10,"thread":"network","os_thread":12,"host":"out","address":"refused \"x\"","port":443,"bytesWritten":18446744073709551615}"#
    );
}

#[test]
fn periods_are_nanoseconds_and_times_have_a_date() {
    let (out, why) = (Value::Text(TextId(0)), Value::Text(TextId(1)));
    let values = bits([out, why, Value::Signed(-111), Value::Count(2), Value::Duration(3_000_000)]);
    assert_eq!(
        line(EventKind::Retry, values),
        r#"{"event":"Retry","time":"2026-11-26T20:46:57.000000100Z","thread":"network","os_thread":12,"component":"out","reason":"refused \"x\"","code":-111,"attempt":2,"pauseNs":1000000}"#
    );
    let due = line(EventKind::Flush, bits([out, Value::Timestamp(3_900), Value::Count(1)]));
    assert!(due.contains(r#""due":"2026-11-26T20:46:57.000001000Z""#), "{due}");
}

#[test]
fn what_is_not_known_is_null() {
    let values = [7, 7, f64::NAN.to_bits(), 0, 0];
    let event = Event {
        subject: SubjectId(0),
        kind: EventKind::Throttle,
        thread: ThreadId(9),
        start_ticks: 1_200,
        duration_ticks: 0,
        values,
    };
    let object = object(&event, &CLOCK, &Names);
    for key in ["thread", "os_thread", "component", "reason", "limit"] {
        assert_eq!(object[key], Json::Null, "{key}");
    }
}
