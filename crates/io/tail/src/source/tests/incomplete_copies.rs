//! Restarts after a crash in the middle of the copy of a deleted file, while another copy of the
//! whole file exists.

use super::retention::{free, held, numbered, pass};
use super::*;
use flate2::write::GzEncoder;
use millstream_model::{OriginStore, SinkSet};
use std::time::SystemTime;

/// End offset of the incomplete copy. The file has 1000 lines of 10 bytes.
const COPIED: u64 = 6000;

/// How the whole file was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Gzip,
    Zstd,
}

const FORMS: [Form; 3] = [Form::Plain, Form::Gzip, Form::Zstd];

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Plain => "a.log.1",
            Form::Gzip => "a.log.1.gz",
            Form::Zstd => "a.log.1.zst",
        }
    }

    fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Form::Plain => text.as_bytes().to_vec(),
            Form::Gzip => {
                let mut compressed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
                compressed.write_all(text.as_bytes()).unwrap();
                compressed.finish().unwrap()
            }
            Form::Zstd => zstd::encode_all(text.as_bytes(), 0).unwrap(),
        }
    }
}

/// A source that was killed in the middle of the copy of a deleted file.
struct Killed {
    fixture: Fixture,
    /// The id of the deleted file.
    id: OriginId,
    /// The name of the file when it is deleted.
    name: &'static str,
    _in_flight: Vec<Batch>,
    _other: TempDir,
}

impl Killed {
    /// Creates the source before the crash. Each sink has settled a number of lines; the other
    /// lines are in flight.
    fn new(options: Value, settled: &[(&str, usize)]) -> Killed {
        Killed::with_rest(options, settled, true)
    }

    /// Like [`Killed::new`]. Unless `is_read`, the last lines are unread instead of in flight.
    fn with_rest(mut options: Value, settled: &[(&str, usize)], is_read: bool) -> Killed {
        let other = tempfile::tempdir_in("/tmp").unwrap();
        options["include"] = options.get("include").cloned().unwrap_or(json!("*.log*"));
        let names: Vec<&str> = settled.iter().map(|(name, _)| *name).collect();
        let mut fixture = Fixture::new(options, &names);
        fixture.rig.held_dir = other.path().join("held");
        fixture.restart(false);
        let (mut begin, mut in_flight) = (0, Vec::new());
        let mut ends: Vec<usize> = settled.iter().map(|(_, end)| *end).collect();
        ends.sort_unstable();
        for end in ends.into_iter().chain([1000]) {
            fixture.append("a.log", numbered(begin..end));
            let has_settled = |sink: &usize| settled[*sink].1 >= end;
            let done: Vec<usize> = (0..settled.len()).filter(has_settled).collect();
            if end == 1000 && !is_read {
                fixture.rig.ready = SinkSet::default();
            }
            let batches = fixture.batches();
            for segment in batches.iter().flat_map(|batch| batch.segments.iter()) {
                for sink in &done {
                    segment.ack.finish_for(SinkSet::one(fixture.rig.sinks[*sink].0));
                }
            }
            in_flight.extend(batches);
            begin = end;
        }
        fixture.rig.commit();
        let id = fixture.rig.store.ids()[0];
        Killed { fixture, id, name: "a.log", _in_flight: in_flight, _other: other }
    }

    /// Renames the file, as rotations do before they compress it.
    fn rotate(&mut self) {
        self.name = "a.log.1";
        self.fixture.rename("a.log", self.name);
        pass(&mut self.fixture);
    }

    /// Deletes the file, waits for its copy, and makes the copy incomplete.
    fn interrupt(&mut self) {
        fs::remove_file(self.fixture.path(self.name)).unwrap();
        self.fixture.rig.ready = Default::default();
        pass(&mut self.fixture);
        let [name] = &held(&self.fixture)[..] else { panic!("{:?}", held(&self.fixture)) };
        let from = name.split('-').nth(1).unwrap();
        let part = format!("{}-{from}-{COPIED}", self.id);
        fs::rename(self.fixture.rig.held_dir.join(name), self.fixture.rig.held_dir.join(part))
            .unwrap();
    }

    /// Makes a copy of the first `lines` of the file.
    fn copy(&self, form: Form, lines: usize) {
        let path = self.fixture.path(form.name());
        fs::write(&path, form.encode(&numbered(0..lines))).unwrap();
        if form != Form::Plain {
            let hour_ago = SystemTime::now() - Duration::from_secs(3600);
            // Compression preserves the modification time.
            File::options().write(true).open(path).unwrap().set_modified(hour_ago).unwrap();
        }
    }

    /// Makes a file look recently written, so that its completeness is judged by its size.
    fn touch(&self, form: Form) {
        let file = File::options().write(true).open(self.fixture.path(form.name())).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
    }

    /// Reads everything; asserts that the file's lines from `begin` were read once, with its id.
    fn assert_read(&mut self, begin: usize, case: &str) {
        let mut lines = free(&mut self.fixture);
        self.fixture.rig.advance(crate::stability::STABLE_AFTER);
        lines.extend(free(&mut self.fixture));
        assert_lines(&lines, self.id, begin, 1000, case);
        assert_eq!(self.fixture.dropped("truncated_unread"), 0, "{case}");
    }

    /// Asserts that nothing is left to read or to retain, even after a restart.
    fn assert_delivered(&mut self, case: &str) {
        self.fixture.rig.commit();
        self.fixture.rig.advance(super::super::GONE_SILENCE);
        self.fixture.batches();
        self.fixture.rig.commit();
        assert!(held(&self.fixture).is_empty(), "{case}");
        self.fixture.restart(true);
        assert_eq!(free(&mut self.fixture), [], "{case}");
    }
}

fn assert_lines(lines: &[Line], id: OriginId, begin: usize, end: usize, case: &str) {
    let mut seen: Vec<(OriginId, u64)> =
        lines.iter().map(|line| (line.file_id, line.offset)).collect();
    seen.sort_unstable();
    let expected: Vec<(OriginId, u64)> = (begin..end).map(|line| (id, line as u64 * 10)).collect();
    assert_eq!(seen.len(), expected.len(), "{case}");
    assert_eq!(seen, expected, "{case}");
    let is_text = |line: &Line| line.text == format!("{:09}", line.offset / 10).as_bytes();
    assert!(lines.iter().all(is_text), "{case}");
}

#[test]
fn a_compressed_file_continues_where_an_incomplete_copy_ends() {
    for form in FORMS {
        for include in ["*.log*", "*.log"] {
            for (settled, is_read) in [(0, false), (0, true), (500, false), (500, true)] {
                let case = format!("{form:?}, {include}, settled {settled}, read {is_read}");
                let options = json!({ "include": include });
                let mut killed = Killed::with_rest(options, &[("out", settled)], is_read);
                if form != Form::Plain {
                    killed.rotate();
                }
                killed.interrupt();
                killed.copy(form, 1000);
                if is_read {
                    killed.touch(form);
                }
                killed.fixture.restart(false);
                killed.assert_read(settled, &case);
                killed.assert_delivered(&case);
            }
        }
    }
}

/// The copy is found while the sink is not ready, or long after the incomplete copy was read.
#[test]
fn a_copy_of_a_file_is_found_before_or_after_the_incomplete_copy_is_read() {
    for form in FORMS {
        let mut killed = Killed::new(json!({}), &[("out", 0)]);
        killed.interrupt();
        killed.copy(form, 1000);
        killed.fixture.restart(false);
        killed.fixture.rig.ready = Default::default();
        pass(&mut killed.fixture);
        killed.assert_read(0, &format!("{form:?}, before"));
        for pause in [Duration::ZERO, super::super::GONE_SILENCE] {
            let case = format!("{form:?}, after {pause:?}");
            let mut killed = Killed::new(json!({}), &[("out", 0)]);
            killed.interrupt();
            fs::write(killed.fixture.path("a.log.2"), "other\n").unwrap();
            killed.fixture.restart(false);
            let mut lines = free(&mut killed.fixture);
            lines.retain(|line| line.text != b"other");
            assert_lines(&lines, killed.id, 0, 600, &case);
            killed.fixture.rig.commit();
            killed.fixture.rig.advance(pause);
            assert_eq!(free(&mut killed.fixture), [], "{case}");
            killed.copy(form, 1000);
            killed.assert_read(600, &case);
            killed.assert_delivered(&case);
        }
    }
}

/// The sinks get the lines that each of them lacks, although one of them is beyond the end of the
/// incomplete copy.
#[test]
fn each_sink_continues_behind_an_incomplete_copy() {
    for form in FORMS {
        for (include, until_eof) in [("*.log*", false), ("*.log*", true), ("*.log", false)] {
            for settled in [[1000, 0], [1000, 300], [800, 300], [400, 300]] {
                let case = format!("{form:?}, {include}, settled {settled:?}, {until_eof}");
                let sinks = [("fast", settled[0]), ("slow", settled[1])];
                let mut killed = Killed::new(json!({ "include": include }), &sinks);
                killed.interrupt();
                killed.copy(form, 1000);
                killed.touch(form);
                killed.fixture.restart(false);
                killed.fixture.rig.until_eof = until_eof;
                let mut counts = [[0_usize; 1000]; 2];
                for _ in 0..4 {
                    for batch in killed.fixture.batches() {
                        count(&killed, &batch, &mut counts);
                        deliver(&batch);
                    }
                    killed.fixture.rig.advance(crate::stability::STABLE_AFTER);
                }
                for (counts, settled) in counts.iter().zip(settled) {
                    let is_right = |line: usize| counts[line] == usize::from(line >= settled);
                    assert!((0..1000).all(is_right), "{case}: {counts:?}");
                }
                assert_eq!(killed.fixture.dropped("truncated_unread"), 0, "{case}");
            }
        }
    }
}

/// Counts how often each sink gets each line.
fn count(killed: &Killed, batch: &Batch, counts: &mut [[usize; 1000]; 2]) {
    for segment in batch.segments.iter() {
        assert_eq!(segment.origin.id, killed.id);
        for (index, counts) in counts.iter_mut().enumerate() {
            if !segment.ack.sinks().contains(killed.fixture.rig.sinks[index].0) {
                continue;
            }
            for row in segment.first_row..segment.first_row + segment.rows {
                counts[batch.offset(segment, row) as usize / 10] += 1;
            }
        }
    }
}

/// The agent saw the compressed file before it was killed, and treated it as read.
#[test]
fn a_copy_that_was_known_before_the_crash_continues_an_incomplete_copy() {
    for form in FORMS {
        for include in ["*.log*", "*.log"] {
            let case = format!("{form:?}, {include}");
            let mut killed = Killed::new(json!({ "include": include }), &[("out", 0)]);
            if form != Form::Plain {
                killed.rotate();
            }
            killed.copy(form, 1000);
            pass(&mut killed.fixture);
            killed.interrupt();
            killed.fixture.restart(true);
            killed.assert_read(0, &case);
            killed.assert_delivered(&case);
        }
    }
}

/// The agent is killed a second time, at any time after the restart.
#[test]
fn a_second_crash_neither_repeats_nor_loses_lines() {
    for form in FORMS {
        for include in ["*.log*", "*.log"] {
            let polls = [0, 1, 2, 3, 7, 12, 20];
            for (polls, commit) in polls.into_iter().flat_map(|n| [(n, false), (n, true)]) {
                let case = format!("{form:?}, {include}, {polls} polls, {commit}");
                let mut killed = Killed::new(json!({ "include": include }), &[("out", 0)]);
                killed.interrupt();
                killed.copy(form, 1000);
                killed.touch(form);
                killed.fixture.restart(false);
                if polls % 2 == 0 {
                    killed.fixture.rig.ready = Default::default();
                }
                for _ in 0..polls {
                    killed.fixture.poll();
                    killed.fixture.rig.advance(STEP);
                }
                killed.fixture.restart(commit);
                killed.assert_read(0, &case);
                killed.assert_delivered(&case);
            }
        }
    }
}

/// The compressed file has the inode number of the deleted file, so it is recognized before the
/// incomplete copy is restored.
#[test]
fn a_copy_with_the_reused_inode_of_the_file_replaces_an_incomplete_copy() {
    use crate::identity::Descriptor;
    use std::os::unix::fs::MetadataExt;
    for form in FORMS {
        for lines in [1000, 400] {
            let case = format!("{form:?}, {lines} lines");
            let mut killed = Killed::new(json!({}), &[("out", 0)]);
            killed.interrupt();
            killed.copy(form, lines);
            let store = killed.fixture.rig.store.clone();
            let records = store.origins().unwrap().0;
            let record = records.iter().find(|record| record.id == killed.id).unwrap();
            let mut descriptor = Descriptor::from_bytes(&record.descriptor).unwrap();
            descriptor.inode = fs::metadata(killed.fixture.path(form.name())).unwrap().ino();
            descriptor.fingerprint = Default::default();
            store.keep(&[(killed.id, descriptor.to_bytes())]).unwrap();
            killed.fixture.restart(false);
            if lines == 1000 {
                killed.assert_read(0, &case);
                killed.assert_delivered(&case);
            } else {
                assert_lines(&free(&mut killed.fixture), killed.id, 0, 600, &case);
            }
        }
    }
}

/// A compressed file that is damaged, or shorter than the file, repeats no lines.
#[test]
fn a_damaged_copy_repeats_no_lines() {
    for form in [Form::Gzip, Form::Zstd] {
        for is_short in [false, true] {
            let case = format!("{form:?}, short {is_short}");
            let mut killed = Killed::new(json!({}), &[("out", 0)]);
            killed.interrupt();
            let path = killed.fixture.path(form.name());
            // The first lines have a separate member or frame, so that only the rest is damaged.
            let end = if is_short { 300 } else { 800 };
            let intact = form.encode(&numbered(0..end));
            let damaged = form.encode(&numbered(end..1000));
            fs::write(path, [&intact[..], &damaged[..20]].concat()).unwrap();
            killed.fixture.restart(false);
            let mut lines = free(&mut killed.fixture);
            killed.fixture.rig.advance(crate::stability::STABLE_AFTER);
            lines.extend(free(&mut killed.fixture));
            let whole = if is_short { 600 } else { 800 };
            lines.retain(|line| line.offset < whole * 10);
            assert_lines(&lines, killed.id, 0, whole as usize, &case);
        }
    }
}

/// Another file with the name of a rotation, and with the same first bytes, is a new file.
#[test]
fn another_file_does_not_continue_an_incomplete_copy() {
    for form in FORMS {
        let mut killed = Killed::new(json!({}), &[("out", 0)]);
        killed.interrupt();
        let text = format!("{}{}", numbered(0..300), numbered(2000..3000));
        fs::write(killed.fixture.path(form.name()), form.encode(&text)).unwrap();
        killed.fixture.restart(false);
        let mut lines = free(&mut killed.fixture);
        killed.fixture.rig.advance(crate::stability::STABLE_AFTER);
        lines.extend(free(&mut killed.fixture));
        let (copied, other): (Vec<Line>, Vec<Line>) =
            lines.into_iter().partition(|line| line.file_id == killed.id);
        assert_lines(&copied, killed.id, 0, 600, &format!("{form:?}"));
        assert_eq!(texts(&other).join("\n") + "\n", text, "{form:?}");
    }
}
