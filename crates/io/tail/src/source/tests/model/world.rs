//! Runs operations on real files and a real source.

use super::disk::{self, Content, Disk, Heads, NAMES};
use super::oracle::Oracle;
use super::*;
use crate::identity::Descriptor;
use millstream_model::{OriginRecord, OriginStore, Outcome, SinkIndex, Source};
use std::collections::HashMap;
use std::time::Instant;

/// Time limit for copies during shutdown, longer than any copy takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Pauses after which nothing is pending: compressed files are treated as complete, quiet files are
/// polled, and vanished files are closed.
const PAUSES_MS: [u64; 12] =
    [200, 200, 2500, 2500, 35_000, 200, 2500, 2500, 35_000, 2500, 200, 200];

/// The files, the agent, and the expected behavior.
pub struct World {
    fixture: Fixture,
    disk: Disk,
    oracle: Oracle,
    up: bool,
    in_flight: Vec<Batch>,
    /// The files after the previous operation, by inode number.
    files: HashMap<u64, Content>,
    /// Deleted files that the agent has open, by inode number.
    held: HashMap<u64, Content>,
    holding: Holding,
    /// Folder for retained files that cannot be linked, on another file system.
    _held_dir: Option<TempDir>,
}

impl World {
    /// Starts an agent with this `include` pattern.
    pub fn over(include: &str, heads: Heads, holding: Holding, finishing: Finishing) -> World {
        let idle_files_max = match finishing {
            Finishing::All => 0,
            Finishing::AllButTwo => 2,
            Finishing::Nothing => 1000,
        };
        let mut options = json!({ "include": include, "idle_files_max": idle_files_max });
        if holding == Holding::Little {
            options["held"] = json!({ "max": "5000B" });
        }
        let mut fixture = Fixture::new(options, &["out"]);
        let held_dir = (holding == Holding::Copies).then(|| tempfile::tempdir_in("/tmp").unwrap());
        if let Some(held_dir) = &held_dir {
            fixture.rig.held_dir = held_dir.path().join("held");
            fixture.restart(false);
        }
        let disk = Disk::new(fixture.dir.path(), heads);
        World {
            fixture,
            disk,
            oracle: Oracle::default(),
            up: true,
            in_flight: Vec::new(),
            files: HashMap::new(),
            held: HashMap::new(),
            holding,
            _held_dir: held_dir,
        }
    }

    /// Performs one operation.
    pub fn step(&mut self, operation: &Operation) -> Result<(), String> {
        use Operation::*;
        match *operation {
            Append(name, late, lines) => self.disk.append(NAMES[name], late, lines),
            Begin(name, late) => self.disk.begin(NAMES[name], late),
            Complete(name, late) => self.disk.complete(NAMES[name], late),
            Rotate(name) => self.disk.rotate(NAMES[name]),
            Date(name) => self.disk.date(NAMES[name]),
            CopyTruncate(name, polled) => self.copy_truncate(NAMES[name], polled)?,
            // While the agent still searches for files that it had read, it looks for copies only
            // once.
            CopyAway(name) if self.fixture.source.walks.is_searched() => {
                self.disk.copy_away(NAMES[name])
            }
            CopyAway(_) => {}
            Appear => self.disk.appear(),
            Rewrite(name, size) => self.disk.rewrite(NAMES[name], size),
            Delete(name) => self.disk.delete(NAMES[name]),
            Replace(name) => self.replace(NAMES[name]),
            HardLink(name) => self.disk.hard_link(NAMES[name]),
            Switch => self.disk.switch(),
            Compress(name, slowly) => self.compress(NAMES[name], slowly)?,
            Poll(times) => (0..times).try_for_each(|_| self.poll().map(drop))?,
            Advance(ms) => self.advance(ms)?,
            Deliver(count) => self.deliver(count)?,
            Lose(own_content) => self.lose(own_content),
            Commit => self.commit()?,
            RemoveHeld => _ = fs::remove_dir_all(&self.fixture.rig.held_dir),
            Stop(ending) => self.stop(ending)?,
            Start => self.start(),
            Settle => self.settle()?,
        }
        self.observe();
        Ok(())
    }

    /// Starts the agent if it is down, lets it read everything, and restarts it.
    pub fn finish(mut self) -> Result<(), String> {
        self.settle()?;
        self.stop(Ending::Drained)?;
        self.settle()
    }

    fn copy_truncate(&mut self, name: &str, polled: bool) -> Result<(), String> {
        self.disk.copy(name);
        self.observe();
        if polled {
            self.poll()?;
        }
        self.disk.truncate(name);
        Ok(())
    }

    fn replace(&mut self, name: &str) {
        self.disk.delete(name);
        self.observe();
        self.disk.append(name, false, 3);
    }

    fn compress(&mut self, name: &str, slowly: bool) -> Result<(), String> {
        let Some(file) = self.disk.compressed(name) else { return Ok(()) };
        if slowly {
            fs::write(&file.to, &file.content[..file.content.len() / 2]).unwrap();
            self.observe();
            self.poll()?;
        }
        fs::write(&file.to, &file.content).unwrap();
        self.observe();
        if slowly {
            self.poll()?;
        }
        fs::remove_file(file.from).unwrap();
        Ok(())
    }

    /// Records the lines that can be read now: in files with a matching name, and in files that the
    /// agent has open.
    fn observe(&mut self) {
        let files = self.disk.contents();
        let open =
            |inode: &u64| self.fixture.source.files.inodes().any(|known| known.number == *inode);
        for (inode, before) in &self.files {
            let named = files.get(inode).is_some_and(|content| content.named);
            if before.named && !named {
                self.oracle.fragment(before);
            }
            if !files.contains_key(inode) && self.up && open(inode) {
                self.held.insert(*inode, before.clone());
            }
        }
        self.held.retain(|inode, _| open(inode));
        let on_disk = disk::held(&self.fixture.rig.held_dir);
        let readable = files.iter().filter(|(inode, content)| content.named || open(inode));
        let readable =
            readable.map(|(_, content)| content).chain(self.held.values()).chain(&on_disk);
        self.oracle.observe(readable, files.values());
        self.files = files;
    }

    /// Polls once; returns whether to poll again at once.
    fn poll(&mut self) -> Result<bool, String> {
        if !self.up {
            return Ok(false);
        }
        let polled = self.fixture.poll();
        let more = matches!(polled, Polled::Batch(..) | Polled::Wait(Duration::ZERO));
        if let Polled::Batch(batch, _) = polled {
            self.oracle.read(&lines(&batch))?;
            self.in_flight.push(*batch);
        }
        Ok(more)
    }

    /// Delivers the oldest batches.
    fn deliver(&mut self, count: usize) -> Result<(), String> {
        for batch in self.in_flight.drain(..count.min(self.in_flight.len())) {
            self.oracle.deliver(&lines(&batch))?;
            deliver(&batch);
        }
        Ok(())
    }

    /// Abandons the oldest batch. Repeated abandonment, which causes rejection, is not tested here.
    fn lose(&mut self, own_content: bool) {
        if self.in_flight.is_empty() {
            return;
        }
        let batch = self.in_flight.remove(0);
        for segment in batch.segments.iter() {
            if !own_content || segment.ack.attempt() > 1 {
                segment
                    .ack
                    .hold(SinkIndex::new(0))
                    .into_iter()
                    .for_each(|hold| hold.settle(Outcome::Returned));
                segment.ack.finish();
            }
        }
    }

    /// Advances the time. Checkpoints are committed once a second, as the source expects.
    fn advance(&mut self, ms: u64) -> Result<(), String> {
        if ms >= 10_000 {
            self.disk.appear();
            self.observe();
        }
        if ms >= 1000 {
            self.commit()?;
        }
        self.fixture.rig.advance(Duration::from_millis(ms));
        Ok(())
    }

    /// Commits the checkpoints.
    fn commit(&mut self) -> Result<(), String> {
        if !self.up {
            return Ok(());
        }
        self.fixture.rig.commit();
        let files = &self.fixture.source.files;
        self.oracle.commit(|file_id| files.get(file_id).is_some());
        Ok(())
    }

    fn stop(&mut self, ending: Ending) -> Result<(), String> {
        if !self.up {
            return Ok(());
        }
        if ending == Ending::Drained {
            self.deliver(usize::MAX)?;
        }
        if ending != Ending::Killed {
            self.observe();
            self.fixture.source.hold(Instant::now() + PATIENCE);
            self.commit()?;
            self.fixture.source.leave();
            let held = disk::held(&self.fixture.rig.held_dir);
            if self.holding != Holding::Little {
                let named = self.files.values().filter(|content| content.named);
                self.oracle.are_kept(self.held.values(), held.iter().chain(named))?;
                if self.fixture.dropped("deleted_undelivered") > 0 {
                    return Err("data was lost at shutdown although it could be held".into());
                }
            }
        }
        let kept = self.fixture.rig.store.origins().unwrap().0;
        let known = |record: &OriginRecord| {
            let kept = Descriptor::from_bytes(&record.descriptor).unwrap();
            (record.id, kept.head.bytes.max(kept.fingerprint.end))
        };
        self.oracle.stop(&kept.iter().map(known).collect());
        self.up = false;
        self.in_flight.clear();
        self.held.clear();
        Ok(())
    }

    fn start(&mut self) {
        if !self.up {
            self.disk.appear();
            self.observe();
            self.fixture.restart(false);
            self.up = true;
        }
    }

    fn settle(&mut self) -> Result<(), String> {
        self.start();
        for ms in PAUSES_MS {
            let mut polls = 0;
            while self.poll()? {
                self.deliver(usize::MAX)?;
                polls += 1;
                if polls > 1000 {
                    return Err("the source does not become idle".into());
                }
            }
            self.deliver(usize::MAX)?;
            self.advance(ms)?;
        }
        self.observe();
        self.oracle.is_complete()
    }
}
