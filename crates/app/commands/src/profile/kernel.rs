//! The functions at addresses in the kernel.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Frame name for a kernel without readable symbols.
pub const UNKNOWN: &str = "[kernel]";

/// The functions of the kernel, in order of their addresses.
#[derive(Default)]
pub struct KernelSymbols(Vec<(u64, String)>);

impl KernelSymbols {
    /// Reads the functions of this machine's kernel. The list is empty if `kernel.kptr_restrict`
    /// hides their addresses.
    pub fn read() -> KernelSymbols {
        let file = File::open("/proc/kallsyms");
        let symbols = file.and_then(|file| parse(BufReader::new(file)));
        KernelSymbols(symbols.unwrap_or_default())
    }

    /// Returns the function at an address.
    pub fn name(&self, address: u64) -> &str {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        self.0.get(after.wrapping_sub(1)).map_or(UNKNOWN, |(_, name)| name)
    }
}

/// Parses lines of an address, a type, a name, and optionally a module in brackets.
fn parse(lines: impl BufRead) -> io::Result<Vec<(u64, String)>> {
    let mut symbols = Vec::new();
    for line in lines.lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let address = words.next().and_then(|address| u64::from_str_radix(address, 16).ok());
        let is_code = words.next().is_some_and(|kind| matches!(kind, "t" | "T" | "w" | "W"));
        if let (Some(address), true, Some(name)) = (address, is_code, words.next())
            && address > 0
        {
            symbols.push((address, name.to_owned()));
        }
    }
    symbols.sort_unstable();
    Ok(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_addresses() {
        let text = "ffffffff81000010 T second\nffffffff81000000 t first\nffffffff81000008 d data\n\
                    ffffffffc0000000 t in_module\t[module]\nnonsense\n";
        let symbols = KernelSymbols(parse(text.as_bytes()).unwrap());
        assert_eq!(symbols.name(0xffff_ffff_8100_000f), "first");
        assert_eq!(symbols.name(0xffff_ffff_8100_0010), "second");
        assert_eq!(symbols.name(0xffff_ffff_c000_0001), "in_module");
        assert_eq!(symbols.name(0xffff_ffff_8000_0000), UNKNOWN);
        let hidden = "0000000000000000 T first\n0000000000000000 T second\n";
        assert_eq!(KernelSymbols(parse(hidden.as_bytes()).unwrap()).name(u64::MAX), UNKNOWN);
    }
}
