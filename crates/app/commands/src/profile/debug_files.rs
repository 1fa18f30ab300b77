//! The symbols of a program from a package, which keeps them apart from the code: in a compressed
//! section of the program, and in a file of the debug package.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadRef, SymbolKind};
use std::io::{self, Write};
use std::path::PathBuf;

/// Maximum size of the decompressed section. The symbols of a browser engine take less.
const SECTION_BYTES_MAX: usize = 256 << 20;

/// Returns the path where debug packages install the debug information of a build id, in
/// hexadecimal.
pub fn debug_file(build_id: &str) -> Option<PathBuf> {
    let (folder, name) = build_id.split_at_checked(2)?;
    Some(PathBuf::from(format!("/usr/lib/debug/.build-id/{folder}/{name}.debug")))
}

/// The names of a file's functions, from its section `.gnu_debugdata` and its exported symbols.
///
/// The section contains an ELF file with a symbol table, compressed by xz ("MiniDebugInfo" in the
/// manual of GDB).
pub struct FunctionNames {
    /// Functions in order of their addresses.
    functions: Vec<Function>,
}

struct Function {
    address: u64,
    end: u64,
    name: String,
}

impl FunctionNames {
    /// Reads the names. Returns `None` if the file has no such section, or if the section cannot be
    /// decompressed.
    pub fn read<'d>(file: &ElfFile64<'d, Endianness, impl ReadRef<'d>>) -> Option<FunctionNames> {
        let section = file.section_by_name(".gnu_debugdata")?;
        let mut bytes = Bounded(Vec::new());
        lzma_rs::xz_decompress(&mut section.data().ok()?, &mut bytes).ok()?;
        let symbols = ElfFile64::<Endianness>::parse(&*bytes.0).ok()?;
        let exported = file.dynamic_symbols().filter_map(|symbol| function(&symbol));
        let mut functions: Vec<Function> =
            symbols.symbols().filter_map(|symbol| function(&symbol)).chain(exported).collect();
        functions.sort_by_key(|function| function.address);
        Some(FunctionNames { functions })
    }

    /// Returns the symbol of the function at an address.
    pub fn find(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions[..after].last()?;
        (address < function.end).then_some(function.name.as_str())
    }
}

/// A buffer that fails if it grows beyond [`SECTION_BYTES_MAX`], because the file may be damaged.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > SECTION_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn function<'d>(symbol: &impl ObjectSymbol<'d>) -> Option<Function> {
    if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
        return None;
    }
    let (address, name) = (symbol.address(), symbol.name().ok()?.to_owned());
    Some(Function { address, end: address.saturating_add(symbol.size()), name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    const SOURCE: &str = "\
        static int inner(int n) { return n * 3; }\n\
        int (*volatile used)(int) = inner;\n\
        int main(void) { return used(7); }\n";

    fn execute(folder: &Path, command: &str) {
        let status = Command::new("sh").args(["-ec", command]).current_dir(folder).status();
        assert!(status.unwrap().success(), "{command}");
    }

    #[test]
    fn a_debug_file_has_the_build_id_in_its_path() {
        let expected = Path::new("/usr/lib/debug/.build-id/0a/1b2c.debug");
        assert_eq!(debug_file("0a1b2c").as_deref(), Some(expected));
        assert_eq!(debug_file("0"), None);
    }

    #[test]
    fn functions_of_a_stripped_program_have_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("program.c"), SOURCE).unwrap();
        let build = "cc -O0 -o program program.c
            objcopy --only-keep-debug program names
            xz -9 names
            objcopy --strip-all --add-section .gnu_debugdata=names.xz program stripped
            objcopy --strip-all program bare";
        execute(folder.path(), build);
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        let (program, stripped, bare) = (read("program"), read("stripped"), read("bare"));
        let program = ElfFile64::<Endianness>::parse(&*program).unwrap();
        let inner = program.symbols().find(|symbol| symbol.name() == Ok("inner")).unwrap();
        let stripped = ElfFile64::<Endianness>::parse(&*stripped).unwrap();
        assert_eq!(stripped.symbols().count(), 0);
        let names = FunctionNames::read(&stripped).unwrap();
        assert_eq!(names.find(inner.address()), Some("inner"));
        assert_eq!(names.find(inner.address() + inner.size() - 1), Some("inner"));
        assert_ne!(names.find(inner.address() + inner.size()), Some("inner"));
        assert_eq!(names.find(0), None);
        let bare = ElfFile64::<Endianness>::parse(&*bare).unwrap();
        assert!(FunctionNames::read(&bare).is_none());
    }
}
