//! The objects that the dynamic linker has loaded: the program, its libraries, and the vDSO.

use gimli::{BaseAddresses, EhFrameHdr, LittleEndian};
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::slice;

/// A loaded object. The unwind information is a copy, because an object can be unloaded at any
/// time.
#[derive(Debug)]
pub(crate) struct LoadedObject {
    /// The range from the first to the last executable address.
    pub code: Range<u64>,
    /// The GNU build id in hexadecimal.
    pub build_id: Option<String>,
    /// The unwind information.
    pub unwind: Option<UnwindSections>,
}

/// Sections with unwind information, and their addresses.
#[derive(Debug)]
pub(crate) struct UnwindSections {
    pub header_at: u64,
    /// The `.eh_frame_hdr` section.
    pub header: Vec<u8>,
    pub frames_at: u64,
    /// The `.eh_frame` section, and the rest of its segment.
    pub frames: Vec<u8>,
}

/// How many objects have been loaded and unloaded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    loaded: u64,
    unloaded: u64,
}

/// Data collected while the dynamic linker lists its objects.
struct Listing<'k> {
    known: &'k dyn Fn(&Range<u64>) -> bool,
    found: Vec<LoadedObject>,
    all: Vec<Range<u64>>,
}

/// Returns the addresses of all loaded objects, and the objects for which `known` returns false.
pub(crate) fn loaded(known: impl Fn(&Range<u64>) -> bool) -> (Vec<Range<u64>>, Vec<LoadedObject>) {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        listing: *mut c_void,
    ) -> c_int {
        // SAFETY: the dynamic linker passes valid information, and the pointer that it received.
        let (info, listing) = unsafe { (&*info, &mut *listing.cast::<Listing<'_>>()) };
        // SAFETY: the dynamic linker keeps the object loaded while it lists it.
        unsafe { listing.visit(info) };
        0
    }
    let mut listing = Listing { known: &known, found: Vec::new(), all: Vec::new() };
    // SAFETY: `visit` receives the listing, which outlives the call, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut listing).cast()) };
    (listing.all, listing.found)
}

/// Returns how many objects have been loaded and unloaded so far.
pub(crate) fn changes() -> Changes {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        changes: *mut c_void,
    ) -> c_int {
        // SAFETY: the dynamic linker passes valid information, and the pointer that it received.
        let (info, changes) = unsafe { (&*info, &mut *changes.cast::<Changes>()) };
        *changes = Changes { loaded: info.dlpi_adds, unloaded: info.dlpi_subs };
        1
    }
    let mut changes = Changes::default();
    // SAFETY: `visit` receives the changes, which outlive the call, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut changes).cast()) };
    changes
}

impl Listing<'_> {
    /// Adds the object's addresses to the listing and, unless the object is known, also the object.
    ///
    /// # Safety
    ///
    /// The object must be loaded, and stay loaded during the call.
    unsafe fn visit(&mut self, info: &libc::dl_phdr_info) {
        // SAFETY: the pointer and length describe the object's program headers.
        let headers = unsafe { headers(info) };
        let segments = Segments { base: info.dlpi_addr, headers };
        let Some(code) = segments.code() else { return };
        self.all.push(code.clone());
        if (self.known)(&code) {
            return;
        }
        // SAFETY: the object is loaded.
        let (build_id, unwind) = unsafe { (segments.build_id(), segments.unwind_sections()) };
        self.found.push(LoadedObject { code, build_id, unwind });
    }
}

/// Returns the program headers of an object.
///
/// # Safety
///
/// The object must be loaded.
unsafe fn headers(info: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the dynamic linker passes the program headers of a loaded object.
    unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
}

/// The segments of a loaded object.
struct Segments<'o> {
    base: u64,
    headers: &'o [libc::Elf64_Phdr],
}

impl Segments<'_> {
    fn of(&self, kind: u32) -> impl Iterator<Item = &libc::Elf64_Phdr> {
        self.headers.iter().filter(move |header| header.p_type == kind)
    }

    /// Returns the addresses of a segment that the file backs.
    fn addresses(&self, header: &libc::Elf64_Phdr) -> Range<u64> {
        let start = self.base.wrapping_add(header.p_vaddr);
        start..start.saturating_add(header.p_filesz.min(header.p_memsz))
    }

    fn code(&self) -> Option<Range<u64>> {
        let executable = self.of(libc::PT_LOAD).filter(|header| header.p_flags & libc::PF_X != 0);
        let ranges = executable.map(|header| self.addresses(header));
        ranges.reduce(|all, next| all.start.min(next.start)..all.end.max(next.end))
    }

    /// Copies up to `bytes` bytes, from an address to the end of its readable segment. Returns
    /// `None` if there is no such segment.
    ///
    /// # Safety
    ///
    /// The object must be loaded.
    unsafe fn copy(&self, start: u64, bytes: u64) -> Option<Vec<u8>> {
        let readable = self.of(libc::PT_LOAD).filter(|header| header.p_flags & libc::PF_R != 0);
        let mut ranges = readable.map(|header| self.addresses(header));
        let segment = ranges.find(|range| range.contains(&start))?;
        let bytes = bytes.min(segment.end - start) as usize;
        // SAFETY: the bytes are within a readable segment of a loaded object.
        Some(unsafe { slice::from_raw_parts(start as *const u8, bytes) }.to_vec())
    }

    /// Copies the sections with unwind information. Returns `None` if there are none, or if they
    /// cannot be read.
    ///
    /// # Safety
    ///
    /// The object must be loaded.
    unsafe fn unwind_sections(&self) -> Option<UnwindSections> {
        let header = self.addresses(self.of(libc::PT_GNU_EH_FRAME).next()?);
        let header_at = header.start;
        // SAFETY: the object is loaded.
        let header = unsafe { self.copy(header_at, header.end - header_at) }?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(header_at);
        let parsed = EhFrameHdr::new(&header, LittleEndian).parse(&bases, 8).ok()?;
        let frames_at = parsed.eh_frame_ptr().direct().ok()?;
        // SAFETY: the object is loaded.
        let frames = unsafe { self.copy(frames_at, u64::MAX) }?;
        Some(UnwindSections { header_at, header, frames_at, frames })
    }

    /// Returns the GNU build id, if there is one.
    ///
    /// # Safety
    ///
    /// The object must be loaded.
    unsafe fn build_id(&self) -> Option<String> {
        self.of(libc::PT_NOTE).find_map(|header| {
            let range = self.addresses(header);
            // SAFETY: the object is loaded.
            let notes = unsafe { self.copy(range.start, range.end - range.start) }?;
            build_id(&notes, header.p_align.max(4) as usize)
        })
    }
}

/// Returns the build id in ELF notes, in hexadecimal; `None` if there is no build id.
fn build_id(mut notes: &[u8], align: usize) -> Option<String> {
    const BUILD_ID: u32 = 3;
    loop {
        let number = |at: usize| Some(u32::from_le_bytes(*notes.get(at..)?.first_chunk()?));
        let (name_bytes, bytes, kind) = (number(0)? as usize, number(4)? as usize, number(8)?);
        let content_at = (12 + name_bytes).next_multiple_of(align);
        let content = notes.get(content_at..)?.get(..bytes)?;
        let is_gnu = CStr::from_bytes_until_nul(&notes[12..]).is_ok_and(|name| name == c"GNU");
        if kind == BUILD_ID && is_gnu {
            return Some(content.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get((content_at + bytes).next_multiple_of(align)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::{build_id, changes, loaded};

    #[test]
    fn the_program_and_its_libraries_have_unwind_information() {
        let here = changes as fn() -> _ as usize as u64;
        let (all, found) = loaded(|_| false);
        assert_eq!(all.len(), found.len());
        let program = found.iter().find(|object| object.code.contains(&here)).unwrap();
        let unwind = program.unwind.as_ref().unwrap();
        assert!(unwind.header.len() > 1000 && unwind.frames.len() > 10_000);
        let (again, none) = loaded(|code| all.contains(code));
        assert_eq!((again, none.len()), (all, 0));
        assert_eq!(changes(), changes());
    }

    #[test]
    fn the_build_id_is_found_after_other_notes() {
        let mut notes = Vec::new();
        for (kind, name, content) in [
            (1_u32, &b"GNU\0"[..], &[9_u8; 5][..]),
            (3, b"Go\0\0", &[8]),
            (3, b"GNU\0", &[0xab, 1]),
        ] {
            notes.extend(
                [name.len() as u32, content.len() as u32, kind].map(u32::to_le_bytes).concat(),
            );
            notes.extend(name);
            notes.extend(content);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id(&notes, 4).as_deref(), Some("ab01"));
        for cut in 0..notes.len() - 4 {
            assert_eq!(build_id(&notes[..cut], 4), None, "{cut} bytes");
        }
    }
}
