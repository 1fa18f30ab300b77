//! Loads that combine lines into multi-line events.

use crate::load::Load;
use crate::text::{self, BLOCK_BYTES, lines};
use millstream_framing::{
    Close, EventBuffer, Framer, HEAD_BYTES, Input, Multiline, Rules, Spec, Start, TimeSpec,
};
use std::hint::black_box;
use std::sync::Arc;

/// Maximum number of events per call, more than a block can contain.
const ROWS_MAX: usize = 1 << 16;

/// Frames lines, some of which have stack traces; each event starts with a time.
pub fn multiline() -> Load {
    let time = TimeSpec { formats: vec!["%Y-%m-%d %H:%M:%S".into()], ..TimeSpec::default() };
    let rule =
        Multiline { start: Some(Start::Timestamp), time: Some(time), ..Multiline::default() };
    let spec = Spec { multiline: Some(rule), ..Spec::default() };
    let rules: Arc<Rules> = Rules::new(&spec).expect("valid rules").into();
    let text = lines(BLOCK_BYTES, text::traced);
    let units = millstream_scan::count_newlines(&text) as u64;
    let mut out = vec![0; text.len() * 2];
    let mut found = EventBuffer::default();
    Load::new("line", move || {
        let mut framer = Framer::new(rules.clone());
        framer.detect(&text[..HEAD_BYTES], false);
        let raw = black_box(&text[..]);
        let input = Input { raw, close: Close::All, rows_max: ROWS_MAX, reference_ns: 0 };
        let framed = framer.frame(input, &mut out, &mut found);
        assert_eq!(framed.used, text.len(), "all is framed");
        black_box(&found);
        units
    })
}
