//! Memory that the agent and a child share: a call's input, followed by the buffer into which the
//! operator writes its answer.
//!
//! The child is not trusted. The size of the memory is sealed, so that the agent's accesses cannot
//! fail. The agent copies an answer, and checks only the copy. No Rust reference to this memory
//! ever exists.

use crate::input::Input;
use crate::layout;
use millstream_columns::Cell;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::{self, NonNull};

const PAGE_BYTES: usize = 4096;
const WORD_BYTES: usize = 8;

/// Minimum size in bytes. Only pages that have been written occupy memory.
const MEMORY_BYTES: usize = 16 << 20;

/// Bytes of memory that a call leaves allocated for the next call. Fresh pages cost more than the
/// copies, and a batch of one block with its answer takes about this much.
const KEPT_BYTES: usize = 4 << 20;

/// A mapping of shared memory.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned by this value, and nothing in it depends on the thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other memory.
        let start = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, file, 0)? };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("address 0"))?;
        Ok(Mapping { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and nothing uses it anymore.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The memory as mapped by the child.
pub struct Attached(Mapping);

impl Attached {
    /// Maps memory that was attached to a frame.
    ///
    /// # Errors
    /// Returns an error if there is no memory.
    pub fn new(file: &OwnedFd, len: usize) -> io::Result<Attached> {
        Mapping::new(file.as_fd(), len).map(Attached)
    }

    /// Returns the address of the mapping.
    pub fn address(&self) -> i64 {
        self.0.start.as_ptr() as i64
    }

    /// Returns whether a whole request fits at this offset.
    pub fn has_request(&self, offset: i64) -> bool {
        let len = layout::REQUEST_WORDS as usize * WORD_BYTES;
        usize::try_from(offset).is_ok_and(|offset| offset + len <= self.0.len)
    }
}

/// The memory as mapped by the agent.
pub struct Memory {
    file: OwnedFd,
    mapping: Mapping,
    /// Address of the mapping in the child.
    remote: i64,
    /// Offset and size of the buffer for the answer.
    answer: (usize, usize),
}

impl Memory {
    /// Returns the required size for an input, in bytes.
    pub fn bytes_for(input: &Input<'_>) -> usize {
        let needed = input_bytes(input).next_multiple_of(PAGE_BYTES) + input.answer_bytes_max();
        needed.next_power_of_two().max(MEMORY_BYTES)
    }

    /// Creates memory of this size. The size cannot be changed afterward.
    ///
    /// # Errors
    /// Returns an error if no descriptor or no memory is left.
    pub fn new(len: usize) -> io::Result<Memory> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(c"millstream-jvm", flags)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = Mapping::new(file.as_fd(), len)?;
        Ok(Memory { file, mapping, remote: 0, answer: (0, 0) })
    }

    /// Returns the size of the memory.
    pub fn len(&self) -> usize {
        self.mapping.len
    }

    /// Returns the descriptor for the child.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Records the mapping's address in the child.
    pub fn set_remote(&mut self, address: i64) {
        self.remote = address;
    }

    /// Writes a request at offset 0, followed by all data to which it refers. The memory must be at
    /// least as large as [`Memory::bytes_for`] requires for this input.
    pub fn write(&mut self, input: &Input<'_>) {
        let mut writer = Writer { memory: self, at: layout::REQUEST_WORDS as usize * WORD_BYTES };
        let mut request = [0; layout::REQUEST_WORDS as usize];
        writer.write_input(input, &mut request);
        let end = writer.at.next_multiple_of(PAGE_BYTES);
        self.answer = (end, input.answer_bytes_max().min(self.len().saturating_sub(end)));
        request[layout::REQUEST_OUT as usize] = self.remote + end as i64;
        request[layout::REQUEST_OUT_BYTES as usize] = self.answer.1 as i64;
        let mut writer = Writer { memory: self, at: 0 };
        writer.words(&request);
    }

    /// Returns the address of the answer buffer if it contains at least `bytes` bytes; otherwise
    /// `None`.
    pub fn answer(&self, bytes: usize) -> Option<*const u8> {
        let (start, len) = self.answer;
        // The address stays within the mapping: see `write`.
        (bytes <= len).then(|| self.mapping.start.as_ptr().wrapping_add(start).cast_const())
    }

    /// Returns memory to the kernel if a call with an answer of `answer_bytes` bytes has used more
    /// than [`KEPT_BYTES`].
    pub fn trim(&self, answer_bytes: usize) {
        let (start, len) = self.answer;
        if start + answer_bytes.min(len) > KEPT_BYTES {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let rest = self.len() - KEPT_BYTES;
            let _ = fallocate(&self.file, flags, KEPT_BYTES as u64, rest as u64);
        }
    }
}

/// Returns how many bytes [`Memory::write`] needs for the input, without the buffer for the answer.
fn input_bytes(input: &Input<'_>) -> usize {
    let words = |count: i64| count as usize * WORD_BYTES;
    let mut bytes = words(layout::REQUEST_WORDS)
        + padded(input.block.len())
        + padded(size_of_val(input.selected))
        + input.times.map_or(0, size_of_val);
    for column in input.columns {
        bytes += words(layout::COLUMN_WORDS) + size_of_val(column.cells);
        bytes += padded(column.name.len()) + padded(column.own.len());
    }
    for segment in input.segments {
        bytes += words(layout::SEGMENT_WORDS);
        for (name, value) in segment.constants {
            bytes += words(layout::CONSTANT_WORDS) + padded(name.len()) + padded(value.len());
        }
    }
    bytes
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(WORD_BYTES)
}

/// Writes parts one after another. Each part starts at a multiple of eight bytes.
struct Writer<'a> {
    memory: &'a Memory,
    at: usize,
}

impl Writer<'_> {
    /// Writes a slice of plain values; returns its address in the child.
    fn values<T: Copy>(&mut self, values: &[T]) -> i64 {
        let (at, bytes) = (self.at, size_of_val(values));
        assert!(at + bytes <= self.memory.len(), "the memory is as large as the input needs");
        let to = self.memory.mapping.start.as_ptr().wrapping_add(at);
        // SAFETY: the target is in this mapping, to which no references exist, and does not overlap
        // the source. The child may write to the target at the same time, which can only change its
        // bytes.
        unsafe { ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), to, bytes) };
        self.at = padded(at + bytes);
        self.memory.remote + at as i64
    }

    fn words(&mut self, words: &[i64]) -> i64 {
        self.values(words)
    }

    /// Writes text; returns its address in the child, and its length.
    fn text(&mut self, text: &str) -> [i64; 2] {
        [self.values(text.as_bytes()), text.len() as i64]
    }

    /// Reserves space for a table; returns the table's offset.
    fn leave(&mut self, entries: usize, words: i64) -> usize {
        let at = self.at;
        self.at += entries * words as usize * WORD_BYTES;
        at
    }

    /// Writes an entry of a reserved table.
    fn entry(&mut self, table: usize, index: usize, words: &[i64]) {
        let at = table + index * words.len() * WORD_BYTES;
        Writer { memory: self.memory, at }.words(words);
    }

    fn write_input(&mut self, input: &Input<'_>, request: &mut [i64]) {
        let mut set = |word: i64, value: i64| request[word as usize] = value;
        set(layout::REQUEST_ROWS, input.rows as i64);
        set(layout::REQUEST_READ_NS, input.read_ns);
        set(layout::REQUEST_COLUMNS_LEN, input.columns.len() as i64);
        set(layout::REQUEST_COLUMNS, self.columns(input));
        set(layout::REQUEST_SEGMENTS_LEN, input.segments.len() as i64);
        set(layout::REQUEST_SEGMENTS, self.segments(input));
        set(layout::REQUEST_SELECTED, self.values(input.selected));
        set(layout::REQUEST_SELECTED_LEN, input.selected.len() as i64);
        set(layout::REQUEST_TIMES, input.times.map_or(0, |times| self.words(times)));
        set(layout::REQUEST_BLOCK, self.values(input.block));
        set(layout::REQUEST_BLOCK_BYTES, input.block.len() as i64);
    }

    fn columns(&mut self, input: &Input<'_>) -> i64 {
        let table = self.leave(input.columns.len(), layout::COLUMN_WORDS);
        for (index, column) in input.columns.iter().enumerate() {
            let [name, name_bytes] = self.text(column.name);
            let cells = self.values::<Cell>(column.cells);
            let own = self.values(column.own);
            let words = [name, name_bytes, cells, own, column.own.len() as i64];
            self.entry(table, index, &words);
        }
        self.memory.remote + table as i64
    }

    fn segments(&mut self, input: &Input<'_>) -> i64 {
        let table = self.leave(input.segments.len(), layout::SEGMENT_WORDS);
        for (index, segment) in input.segments.iter().enumerate() {
            let constants = self.leave(segment.constants.len(), layout::CONSTANT_WORDS);
            for (index, (name, value)) in segment.constants.iter().enumerate() {
                let ([name, name_bytes], [value, value_bytes]) =
                    (self.text(name), self.text(value));
                self.entry(constants, index, &[name, name_bytes, value, value_bytes]);
            }
            let address = self.memory.remote + constants as i64;
            let (first, rows) = (segment.first_row as i64, segment.rows as i64);
            let words = [first, rows, address, segment.constants.len() as i64];
            self.entry(table, index, &words);
        }
        self.memory.remote + table as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{InputColumn, InputSegment};
    use millstream_columns::Kind;

    /// Reads the bytes that the child sees at an address, as if it had mapped the memory at
    /// `remote`.
    fn read(memory: &Memory, address: i64, len: usize) -> Vec<u8> {
        let at = usize::try_from(address - memory.remote).unwrap();
        assert!(at + len <= memory.len());
        let mut bytes = vec![0; len];
        let from = memory.mapping.start.as_ptr().wrapping_add(at);
        // SAFETY: the range is in the mapping.
        unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
        bytes
    }

    fn word(memory: &Memory, address: i64, word: i64) -> i64 {
        let bytes = read(memory, address + word * 8, 8);
        i64::from_ne_bytes(bytes.try_into().unwrap())
    }

    fn with_input<T>(test: impl FnOnce(&Input<'_>) -> T) -> T {
        let cells = [Cell::constant(Kind::Null), Cell::new(Kind::Text, 0, 5)];
        let columns = [
            InputColumn { name: "message", cells: &cells, own: b"own" },
            InputColumn { name: "b", cells: &cells, own: b"" },
        ];
        let segments = [
            InputSegment { first_row: 0, rows: 1, constants: &[("a", "1"), ("bb", "22")] },
            InputSegment { first_row: 1, rows: 1, constants: &[("cc", "333")] },
        ];
        test(&Input {
            block: b"block",
            rows: 2,
            selected: &[0, 1],
            columns: &columns,
            times: Some(&[5, 6]),
            read_ns: 77,
            segments: &segments,
            output_bytes_max: 1 << 20,
            deadline: None,
        })
    }

    #[test]
    fn a_request_has_everything_at_the_addresses_of_the_child() {
        with_input(|input| {
            let mut memory = Memory::new(Memory::bytes_for(input)).unwrap();
            let remote = 0x7000_0000_0000;
            memory.set_remote(remote);
            memory.write(input);
            let request = |at| word(&memory, remote, at);
            assert_eq!(read(&memory, request(layout::REQUEST_BLOCK), 5), b"block");
            let second = request(layout::REQUEST_COLUMNS) + layout::COLUMN_WORDS * 8;
            assert_eq!(read(&memory, word(&memory, second, layout::COLUMN_NAME), 1), b"b");
            let cells = word(&memory, second, layout::COLUMN_CELLS);
            assert_eq!(cells % 8, 0);
            let segment = request(layout::REQUEST_SEGMENTS);
            let constants = word(&memory, segment, layout::SEGMENT_CONSTANTS);
            let second = constants + layout::CONSTANT_WORDS * 8;
            let value = word(&memory, second, layout::CONSTANT_VALUE);
            assert_eq!(read(&memory, value, 2), b"22");
            assert_eq!(word(&memory, request(layout::REQUEST_TIMES), 1), 6);
            assert_eq!(request(layout::REQUEST_SELECTED_LEN), 2);
            assert_eq!(request(layout::REQUEST_OUT) % PAGE_BYTES as i64, 0);
            assert_eq!(request(layout::REQUEST_OUT_BYTES), input.answer_bytes_max() as i64);
            assert!(memory.answer(input.answer_bytes_max()).is_some());
            assert!(memory.answer(input.answer_bytes_max() + 1).is_none());
        });
    }

    #[test]
    fn the_size_cannot_be_changed_by_the_other_side() {
        let memory = Memory::new(MEMORY_BYTES).unwrap();
        assert!(ftruncate(memory.file(), 0).is_err());
        assert!(ftruncate(memory.file(), 1 << 30).is_err());
    }

    #[test]
    fn pages_of_a_large_call_are_returned() {
        with_input(|input| {
            let mut memory = Memory::new(Memory::bytes_for(input)).unwrap();
            memory.write(input);
            let (_, len) = memory.answer;
            memory.answer.1 = memory.len() - PAGE_BYTES;
            let mut writer = Writer { memory: &memory, at: KEPT_BYTES - 8 };
            writer.words(&[1, 1]);
            memory.trim(len);
            assert_eq!(word(&memory, KEPT_BYTES as i64, 0), 1, "a small call keeps them");
            memory.trim(KEPT_BYTES);
            assert_eq!(word(&memory, KEPT_BYTES as i64, 0), 0);
            assert_eq!(word(&memory, KEPT_BYTES as i64 - 8, 0), 1);
        });
    }
}
