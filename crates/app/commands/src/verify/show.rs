//! The report of a run.

use super::drive::{Deeds, Done, Plan};
use super::expire::{Deleted, End};
use super::keep::Keep;
use super::lines::Lines;
use super::logfile::{Mark, Written};
use super::rotation::Rotation;
use super::scratch::Scratch;
use super::tally::{SAMPLES_MAX, Tally};
use crate::time::Rfc3339;
use std::time::UNIX_EPOCH;

/// The result of a run.
pub struct Report<'a> {
    /// Plan of the run.
    pub plan: &'a Plan,
    /// Folder of the run.
    pub scratch: &'a Scratch,
    /// Writes and other actions.
    pub done: &'a Done,
    /// Number of times that the agent was started.
    pub starts: u64,
    /// Delivered events.
    pub tally: &'a Tally,
    /// All lines.
    pub lines: &'a Lines,
    /// Whether the run was interrupted.
    pub interrupted: bool,
}

impl Report<'_> {
    /// Returns the lines of the report. The last line is `lost N repeated N torn N`, followed by
    /// the number of lines that could not be kept, if there are any.
    pub fn text(&self) -> String {
        let mut text = self.load() + &self.result();
        if self.plan.expires() {
            text += &self.expired();
        }
        self.tally.samples.iter().for_each(|sample| text += &format!("{sample}\n"));
        for (writer, number) in self.tally.missing().take(SAMPLES_MAX as usize) {
            text += &format!("lost: {}\n", self.place(writer, number));
        }
        let (lost, torn) = (self.tally.lost(), self.tally.torn);
        let repeated = self.tally.repeated + self.tally.repeated_anew;
        text += &format!("lost {lost} repeated {repeated} torn {torn}");
        match self.tally.not_kept() {
            0 => text + "\n",
            lines => text + &format!(" ({lines} lines of deleted files could not be kept)\n"),
        }
    }

    /// Describes the host and the load.
    fn load(&self) -> String {
        let system = rustix::system::uname();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (lines, bytes) = (self.sum(|w| w.lines), self.sum(|w| w.bytes) as f64 / 1e6);
        let Deeds { kills, stops, resting, unrest, .. } = &self.done.deeds;
        let mut text = format!(
            "millstream {}, seed {}\nhost: {} {}, {cores} cores, {} on {}\n",
            env!("CARGO_PKG_VERSION"),
            self.plan.seed,
            system.sysname().to_string_lossy(),
            system.release().to_string_lossy(),
            self.scratch.path.display(),
            self.scratch.file_system(),
        );
        text += &format!(
            "written: {lines} lines ({} in several writes), {bytes:.1} MB, {} files at a time, {} \
             files in total\n",
            self.sum(|w| w.in_pieces),
            self.plan.files,
            self.sum(|w| w.marks.last().map_or(0, |mark| mark.file + 1)),
        );
        text += &format!("rotations: {}\n", self.rotations());
        text += &format!(
            "agent: {kills} kills, {stops} stops, {} starts; writers paused for {:.0} s\n",
            self.starts,
            resting.as_secs_f64()
        );
        if *unrest > 0 {
            text +=
                &format!("pauses of 60 s that ended before all lines were delivered: {unrest}\n");
        }
        if self.interrupted {
            text += "interrupted: the run wrote less than planned\n";
        }
        text
    }

    fn result(&self) -> String {
        let tally = self.tally;
        format!(
            "delivered: {} events, {:.1} MB, {} distinct lines\n\
             repeated: {} with the same id, {} with another id\n\
             out of order: {}; with the id of another line: {}\n",
            tally.events,
            tally.bytes as f64 / 1e6,
            tally.found,
            tally.repeated,
            tally.repeated_anew,
            tally.out_of_order,
            tally.shadowed()
        )
    }

    /// Describes what happened to files that were deleted while the sink was behind.
    fn expired(&self) -> String {
        let (rounds, deleted) = (&self.done.deeds.rounds, &self.done.expired.deleted);
        let kills = rounds.iter().filter(|end| **end == End::Kill).count();
        let linked = deleted.iter().filter(|file| file.is_linked).count();
        let mut text = format!(
            "deleted before delivery: {} files, {linked} of them linked, before {kills} kills and \
             {} stops\n\
             {} lines could not be kept: {} across kills, {} across stops without copies, counted \
             by the agent\n",
            deleted.len(),
            rounds.len() - kills,
            self.tally.not_kept(),
            self.not_kept(End::Kill),
            self.not_kept(End::Stop),
        );
        for (keep, counted, missing) in self.disagreements() {
            let source = keep.source();
            text += &format!(
                "source {source}: the agent counted {counted} events as lost at stops, but \
                 {missing} are missing\n"
            );
        }
        text
    }

    /// Counts missing lines that could not be kept across this kind of exit.
    fn not_kept(&self, end: End) -> u64 {
        self.missing_of(|file| file.is_at_risk() && file.end == Some(end))
    }

    /// Counts missing lines of deleted files that `wanted` selects.
    fn missing_of(&self, wanted: impl Fn(&Deleted) -> bool) -> u64 {
        let files = self.done.expired.deleted.iter().filter(|file| wanted(file));
        files.map(|file| self.tally.missing_of(file.writer, &file.lines)).sum()
    }

    /// Returns the sources for which the agent, when it stopped, counted a different number of lost
    /// events than are missing, with both numbers.
    pub fn disagreements(&self) -> Vec<(Keep, u64, u64)> {
        let missing =
            |keep| self.missing_of(|file| file.keep == keep && file.end == Some(End::Stop));
        let counted = self.done.expired.counted.iter();
        let compared = counted.map(|(keep, counted)| (*keep, *counted, missing(*keep)));
        compared.filter(|(_, counted, missing)| counted != missing).collect()
    }

    fn rotations(&self) -> String {
        let count =
            |kind: &Rotation| self.done.deeds.rotations.iter().filter(|done| *done == kind).count();
        let shown = Rotation::ALL.iter().filter(|kind| self.plan.rotations.contains(kind));
        shown.map(|kind| format!("{} {}", kind.name(), count(kind))).collect::<Vec<_>>().join(", ")
    }

    fn sum(&self, number: impl Fn(&Written) -> u64) -> u64 {
        self.done.written.iter().map(number).sum()
    }

    /// Returns the place and approximate time of a written line, computed from the previous mark.
    fn place(&self, writer: usize, number: u64) -> String {
        let marks = &self.done.written[writer].marks;
        let at = marks.partition_point(|mark| mark.number <= number).saturating_sub(1);
        let Mark { number: first, offset, file, at } = marks[at];
        let mut text = Vec::new();
        let mut length = |number| {
            text.clear();
            self.lines.append(writer, number, &mut text);
            text.len() as u64 + 1
        };
        let offset = offset + (first..number).map(&mut length).sum::<u64>();
        let time = Rfc3339(UNIX_EPOCH + at);
        format!(
            "w{writer:02} {number:010}, file {file} of w{writer:02}.log, offset {offset}, within a second of {time}"
        )
    }
}
