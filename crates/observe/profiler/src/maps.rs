//! The memory mappings of the process.

use std::fs;
use std::io;
use std::ops::Range;

/// The part of `/proc/self/maps` that the profiler uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Maps {
    /// Executable mappings that have a name.
    pub code: Vec<CodeMapping>,
    /// Private writable mappings in ascending order. Each stack is inside one mapping.
    pub memory: Vec<Range<u64>>,
    /// The stack of the main thread.
    pub main_stack: Range<u64>,
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeMapping {
    pub addresses: Range<u64>,
    pub file_offset: u64,
    pub path: String,
}

impl Maps {
    /// Reads the mappings.
    pub fn read() -> io::Result<Maps> {
        Ok(Maps::parse(&fs::read_to_string("/proc/self/maps")?))
    }

    fn parse(text: &str) -> Maps {
        let mut maps = Maps::default();
        for (addresses, permissions, file_offset, path) in text.lines().filter_map(fields) {
            if path == "[stack]" {
                maps.main_stack = addresses.clone();
            }
            if permissions == "rw-p" {
                maps.memory.push(addresses);
            } else if permissions.contains('x') && is_named(path) {
                maps.code.push(CodeMapping { addresses, file_offset, path: path.to_owned() });
            }
        }
        maps
    }
}

/// Returns whether a path names a file or code that the kernel provides. Generated code has no
/// path, or is in memory with a label such as `[anon:code]`.
fn is_named(path: &str) -> bool {
    path.starts_with('/') || path == "[vdso]"
}

/// Returns the addresses, permissions, file offset and path in a line; `None` if the line is
/// invalid.
fn fields(line: &str) -> Option<(Range<u64>, &str, u64, &str)> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    // Skips the device, the inode, and the blanks before the path. The path itself can contain
    // blanks.
    let (_, rest) = rest.split_once(' ')?;
    let path = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    Some((hexadecimal(start)?..hexadecimal(end)?, permissions, hexadecimal(offset)?, path))
}

#[cfg(test)]
mod tests {
    use super::{CodeMapping, Maps};

    const TEXT: &str = "\
55d0c0a00000-55d0c0a50000 r--p 00000000 fe:00 131 /opt/my agent/millstream (deleted)
55d0c0a50000-55d0c0b00000 r-xp 00050000 fe:00 131                        /opt/my agent/millstream (deleted)
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]
7f1000000000-7f1000200000 rwxp 00000000 00:00 0
7f1000200000-7f1000400000 rw-p 00000000 00:00 0 
7ffc8a900000-7ffc8a921000 rw-p 00000000 00:00 0                          [stack]
7ffc8a9f0000-7ffc8a9f2000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn code_memory_and_the_main_stack_are_found() {
        let mapping = |addresses, file_offset, path: &str| CodeMapping {
            addresses,
            file_offset,
            path: path.to_owned(),
        };
        let agent = "/opt/my agent/millstream (deleted)";
        let maps = Maps::parse(TEXT);
        let code = [
            mapping(0x55d0_c0a5_0000..0x55d0_c0b0_0000, 0x50000, agent),
            mapping(0x7ffc_8a9f_0000..0x7ffc_8a9f_2000, 0, "[vdso]"),
        ];
        assert_eq!(maps.code, code);
        let main_stack = 0x7ffc_8a90_0000..0x7ffc_8a92_1000;
        let memory = [
            0x55d0_c100_0000..0x55d0_c102_1000,
            0x7f10_0020_0000..0x7f10_0040_0000,
            main_stack.clone(),
        ];
        assert_eq!(maps.memory, memory);
        assert_eq!(maps.main_stack, main_stack);
    }

    #[test]
    fn a_local_variable_is_in_the_memory_of_this_process() {
        let local = 1_u64;
        let address = &raw const local as u64;
        let maps = Maps::read().unwrap();
        assert!(maps.memory.iter().any(|range| range.contains(&address)));
        assert!(maps.memory.is_sorted_by_key(|range| range.start));
        let code = Maps::read as fn() -> _ as usize as u64;
        assert!(maps.code.iter().any(|mapping| mapping.addresses.contains(&code)));
    }
}
