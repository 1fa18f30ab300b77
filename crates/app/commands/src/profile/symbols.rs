//! The functions and lines at addresses of an agent.

use super::debug_files::{FunctionNames, debug_file};
use super::kernel::KernelSymbols;
use addr2line::Loader;
use millstream_profiler::{Module, RawProfile, RuntimeMethod, is_kernel};
use millstream_profiles::{Frame, FrameKind};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSegment, ReadCache};
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The symbols of the files that an agent has mapped.
pub struct Symbols {
    /// Modules in order of their addresses.
    modules: Vec<LoadedModule>,
    kernel: KernelSymbols,
    /// Methods of a JVM, by the value that represents them in stacks.
    methods: HashMap<u64, Frame>,
}

struct LoadedModule {
    module: Module,
    /// Image of the module; `None` if no readable file contains its symbols.
    image: Option<Image>,
}

/// A file with symbols.
struct Image {
    loader: Loader,
    /// Names in the file of a package; `None` if the loader knows the names.
    names: Option<FunctionNames>,
    segments: Vec<FileSegment>,
}

/// The address range of part of a file, relative to the file's load address.
struct FileSegment {
    offset: u64,
    end: u64,
    address: u64,
}

impl Symbols {
    /// Opens the files that an agent has mapped. Unless the agent is on this machine (`is_local`),
    /// opens files of this program and of this machine with the same build ids.
    pub fn open(profile: &RawProfile, is_local: bool) -> Symbols {
        let used = |module: &&Module| {
            let range = module.start..module.end;
            profile.stacks.iter().flat_map(|stack| &stack.addresses).any(|at| range.contains(at))
        };
        let open = |module: &Module| LoadedModule {
            module: module.clone(),
            image: Image::of(module, is_local.then_some(profile.pid)),
        };
        let mut modules: Vec<LoadedModule> =
            profile.modules.iter().filter(used).map(open).collect();
        modules.sort_by_key(|loaded| loaded.module.start);
        let mut addresses = profile.stacks.iter().flat_map(|stack| &stack.addresses);
        let has_kernel = is_local && addresses.any(|address| is_kernel(*address));
        let kernel = if has_kernel { KernelSymbols::read() } else { KernelSymbols::default() };
        let methods = profile.methods.iter().map(|method| (method.address, java(method)));
        Symbols { modules, kernel, methods: methods.collect() }
    }

    /// Returns the files whose symbols cannot be read.
    pub fn missing(&self) -> Vec<&str> {
        let is_file = |loaded: &&LoadedModule| loaded.module.path.starts_with('/');
        let missing = self.modules.iter().filter(is_file).filter(|loaded| loaded.image.is_none());
        let mut paths: Vec<&str> = missing.map(|loaded| loaded.module.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Returns the function at an address, after the functions into which it is inlined.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        if let Some(method) = self.methods.get(&address) {
            return vec![method.clone()];
        }
        if is_kernel(address) {
            return vec![self.kernel_frame(address)];
        }
        let at = self.modules.partition_point(|loaded| loaded.module.end <= address);
        match self.modules.get(at).filter(|loaded| loaded.module.start <= address) {
            Some(loaded) => loaded.frames(address),
            None => vec![frame("[generated code]".to_owned(), FrameKind::Unknown)],
        }
    }
}

impl Symbols {
    fn kernel_frame(&self, address: u64) -> Frame {
        let name = self.kernel.name(address).to_owned();
        Frame { address: Some(address), ..frame(name, FrameKind::Kernel) }
    }
}

impl LoadedModule {
    fn frames(&self, address: u64) -> Vec<Frame> {
        let name = self.module.path.rsplit('/').next().unwrap_or_default().to_owned();
        let in_file = address - self.module.start + self.module.file_offset;
        let found = self.image.as_ref().and_then(|image| image.frames(in_file));
        let unknown = || vec![frame(format!("{name}+{in_file:#x}"), FrameKind::C)];
        let mut frames = found.unwrap_or_else(unknown);
        for frame in &mut frames {
            frame.module = Some(name.clone());
            frame.address = Some(address);
        }
        frames
    }
}

impl Image {
    /// Returns the image of a module: from the process with this id, or from a file with the same
    /// build id.
    fn of(module: &Module, pid: Option<u32>) -> Option<Image> {
        candidates(&module.path, pid).iter().find_map(|path| Image::open(path, module, pid))
    }

    fn open(path: &Path, module: &Module, pid: Option<u32>) -> Option<Image> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let build_id = file.build_id().ok().flatten().map(hex);
        // Without a build id, only a file of the same process is certain to be the running file.
        let is_same = match &module.build_id {
            Some(expected) => build_id.as_ref() == Some(expected),
            None => pid.is_some(),
        };
        if !is_same {
            return None;
        }
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            FileSegment { offset, end: offset + size, address: segment.address() }
        });
        let debug_file = build_id.as_deref().and_then(debug_file);
        let of_package = debug_file.and_then(|path| Loader::new(path).ok());
        let names = if of_package.is_some() { None } else { FunctionNames::read(&file) };
        let segments = segments.collect();
        let loader = of_package.or_else(|| Loader::new(path).ok())?;
        Some(Image { loader, names, segments })
    }

    fn frames(&self, in_file: u64) -> Option<Vec<Frame>> {
        let range = |segment: &&FileSegment| (segment.offset..segment.end).contains(&in_file);
        let segment = self.segments.iter().find(range)?;
        let probe = in_file - segment.offset + segment.address;
        let mut frames = self.lines(probe);
        // Line tables contain short names; the symbol contains the path.
        if let Some(symbol) = self.symbol(probe) {
            let (name, kind) = function(symbol);
            match frames.first_mut() {
                Some(outermost) => (outermost.name, outermost.kind) = (name, kind),
                None => frames.push(frame(name, kind)),
            }
            frames.iter_mut().skip(1).for_each(|inlined| {
                inlined.kind = kind;
                inlined.name = with_file(inlined);
            });
        }
        if !frames.iter().all(is_plumbing) {
            frames.retain(|frame| !is_plumbing(frame));
        }
        frames.first_mut()?.is_inlined = false;
        Some(frames)
    }

    fn symbol(&self, probe: u64) -> Option<&str> {
        match &self.names {
            Some(names) => names.find(probe),
            None => self.loader.find_symbol(probe),
        }
    }

    /// Returns the functions in the line tables from the outermost to the innermost.
    fn lines(&self, probe: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        let Ok(mut found) = self.loader.find_frames(probe) else { return frames };
        while let Ok(Some(at)) = found.next() {
            let name = at.function.as_ref().and_then(|name| name.raw_name().ok());
            let Some(name) = name else { continue };
            let (name, kind) = function(&name);
            let location = at.location.as_ref();
            let file = location.and_then(|location| location.file).map(str::to_owned);
            let line = location.and_then(|location| location.line);
            frames.push(Frame { file, line, is_inlined: true, ..frame(name, kind) });
        }
        frames.reverse();
        frames
    }
}

/// Source files whose functions only call a closure, between a caller and the catcher of a panic,
/// or record the location of a Java call.
const PLUMBING: [&str; 6] = [
    "library/core/src/ops/function.rs",
    "library/core/src/panic/unwind_safe.rs",
    "library/std/src/panic.rs",
    "library/std/src/panicking.rs",
    "crates/observe/profiler/src/runtime.rs",
    "crates/observe/profiler/src/arch.rs",
];

fn is_plumbing(frame: &Frame) -> bool {
    let file = frame.file.as_deref().unwrap_or_default();
    PLUMBING.iter().any(|plumbing| file.ends_with(plumbing))
}

/// Returns the name of an inlined function with its file, because the tables have no module path.
fn with_file(inlined: &Frame) -> String {
    let file = inlined.file.as_deref().and_then(|file| file.rsplit('/').next());
    match file {
        Some(file) if !inlined.name.contains("::") => format!("{} ({file})", inlined.name),
        _ => inlined.name.clone(),
    }
}

/// Returns the files that may contain the symbols of a path, the most likely first.
fn candidates(path: &str, pid: Option<u32>) -> Vec<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    let Some(pid) = pid else { return vec![own, PathBuf::from(path)] };
    let process = PathBuf::from(format!("/proc/{pid}"));
    let exe = process.join("exe");
    let is_exe = fs::read_link(&exe).is_ok_and(|target| target == Path::new(path));
    let root = process.join("root").join(path.trim_start_matches('/'));
    match is_exe {
        // This works even after an update has replaced the file.
        true => vec![exe, own],
        false => vec![root, PathBuf::from(path)],
    }
}

fn java(method: &RuntimeMethod) -> Frame {
    let (file, line) = (method.file.clone(), method.line);
    Frame { file, line, ..frame(method.name.clone(), FrameKind::Java) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn frame(name: String, kind: FrameKind) -> Frame {
    Frame { name, kind, is_inlined: false, module: None, file: None, line: None, address: None }
}

/// Returns the readable name of a symbol, and its language.
fn function(symbol: &str) -> (String, FrameKind) {
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return (format!("{name:#}"), FrameKind::Rust);
    }
    let is_of_rust = symbol.contains("::") || symbol.starts_with('{') || symbol.starts_with('<');
    let of_cpp = || cpp_demangle::Symbol::new(symbol).ok()?.demangle().ok();
    match of_cpp() {
        Some(name) => (name, FrameKind::C),
        None if is_of_rust => (symbol.to_owned(), FrameKind::Rust),
        None => (symbol.to_owned(), FrameKind::C),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_are_readable() {
        let named = |symbol: &str| function(symbol);
        assert_eq!(
            named("_RNvNtCs1234_4core3fmt5write"),
            ("core::fmt::write".to_owned(), FrameKind::Rust)
        );
        assert_eq!(
            named("_ZN4core3fmt5write17h0123456789abcdefE"),
            ("core::fmt::write".to_owned(), FrameKind::Rust)
        );
        assert_eq!(named("_ZN3foo3barEi"), ("foo::bar(int)".to_owned(), FrameKind::C));
        assert_eq!(named("rd_kafka_poll"), ("rd_kafka_poll".to_owned(), FrameKind::C));
        assert_eq!(named("{closure#0}"), ("{closure#0}".to_owned(), FrameKind::Rust));
    }
}
