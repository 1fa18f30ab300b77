//! Log messages about different names that become the same name.

use millstream_encodings::prometheus::NameConflict;

/// Logs each conflict of names in a sink.
pub fn log_conflicts(sink: &str, conflicts: Vec<NameConflict>) {
    for NameConflict { exposed, kept, refused } in conflicts {
        if kept == refused {
            log::warn!(
                "sink {sink}: different tags of metric {refused:?} become the same labels of \
                 {exposed}; the first series keeps the labels, and the sink rejects the others as \
                 `name_conflict`; rename the tags, or set `name_escaping: values`"
            );
        } else {
            log::warn!(
                "sink {sink}: metrics {kept:?} and {refused:?} both become {exposed}; the first \
                 metric keeps the name, and the sink rejects the other as `name_conflict`; rename \
                 one of them, or set `name_escaping: values`"
            );
        }
    }
}
