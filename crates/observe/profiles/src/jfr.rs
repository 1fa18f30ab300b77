//! The JDK Flight Recorder format, for the `jfr` tool and JDK Mission Control.

mod metadata;
mod names;
mod pools;
mod schedule;

use crate::{FrameKind, Profile};
use metadata::{EXECUTION_SAMPLE, PERIOD};
use millstream_jfr::{CHUNK_BYTES_MAX, Chunk, Clock, varint};
use names::Names;
use pools::Pools;
use schedule::{Sample, Schedule};
use std::io::{self, Write};
use std::num::NonZeroU64;

/// Ticks per second. Ticks are nanoseconds since the start of the profile.
const TICKS_PER_SECOND: NonZeroU64 = NonZeroU64::new(1_000_000_000).expect("is not zero");

/// Maximum number of samples in a file, which then takes about 120 MB. Larger profiles, such as
/// sums from other tools, are scaled down proportionally for each stack.
const SAMPLES_MAX: u64 = 10_000_000;

/// Writes a profile in the JDK Flight Recorder format, with one `jdk.ExecutionSample` event per
/// sample, in chunks of 8 MiB.
///
/// A profile does not record the time of each sample, so the samples of a stack are spread evenly
/// over the duration. A thread at the root is the sampled thread; if a component follows, the
/// component is the root of the stack trace. In a name such as `a::B::c`, `a::B` is the class and
/// `c` the method. The format cannot represent source files and notes. If there are more than ten
/// million samples, they are scaled down proportionally for each stack.
///
/// # Errors
///
/// Returns the output's error.
pub fn write_jfr(profile: &Profile, output: &mut impl Write) -> io::Result<()> {
    let about = profile.about();
    let names = Names::of(profile);
    let clock = Clock {
        ticks_per_second: TICKS_PER_SECOND,
        start_ticks: 0,
        start_unix_ns: about.start_unix_ns,
    };
    let (mut chunk, mut pools) = (Chunk::new(&metadata::tree(), 0), Pools::new(profile, &names));
    push_settings(&mut chunk, profile);
    for sample in Schedule::new(profile, SAMPLES_MAX) {
        if chunk.bytes() + pools.bytes_max() >= CHUNK_BYTES_MAX {
            output.write_all(chunk.end(&clock, sample.ticks, |out| pools.push(out)))?;
            chunk.restart(sample.ticks);
            pools.clear();
        }
        pools.add(sample.stack);
        push_sample(chunk.events(), &sample, &pools);
    }
    let end_ticks = about.duration_ns.max(chunk.start_ticks());
    output.write_all(chunk.end(&clock, end_ticks, |out| pools.push(out)))?;
    output.flush()
}

fn push_settings(chunk: &mut Chunk, profile: &Profile) {
    let about = profile.about();
    chunk.push_setting(EXECUTION_SAMPLE, "enabled", "true");
    if about.has_time() {
        chunk.push_setting(EXECUTION_SAMPLE, PERIOD, &period(about.interval_ns));
    }
}

/// Formats a period the way the JDK does, in the largest unit in which it is an integer.
fn period(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    let whole = units.iter().find(|(_, unit)| ns >= *unit && ns.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{ns} ns"), |(name, unit)| format!("{} {name}", ns / unit))
}

fn push_sample(out: &mut Vec<u8>, sample: &Sample, pools: &Pools<'_>) {
    let at = varint::push_size(out);
    varint::push(out, u64::from(EXECUTION_SAMPLE.0));
    varint::push(out, sample.ticks);
    varint::push(out, pools.thread_key(sample.stack));
    varint::push(out, pools.stack_trace_key(sample.stack));
    varint::push(out, pools.state_key());
    varint::put_size(out, at);
}

/// Returns the number of root frames that represent a stack's thread and are therefore excluded
/// from the stack trace.
fn thread_frames(kinds: impl Iterator<Item = FrameKind>) -> usize {
    let is_below_component = kinds.take(2).eq([FrameKind::Thread, FrameKind::Component]);
    usize::from(is_below_component)
}
