//! Vectorscan's search for literals, if its library is installed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::io;
use std::ptr::{null, null_mut};

const LIBRARY: &CStr = c"libhs.so.5";
/// `HS_MODE_BLOCK`.
const MODE_BLOCK: c_uint = 1;
/// `HS_FLAG_SINGLEMATCH`: each literal once per line.
const SINGLE_MATCH: c_uint = 8;

type OnMatch = unsafe extern "C" fn(c_uint, c_ulonglong, c_ulonglong, c_uint, *mut c_void) -> c_int;
type Compile = unsafe extern "C" fn(
    *const *const c_char,
    *const c_uint,
    *const c_uint,
    *const usize,
    c_uint,
    c_uint,
    *const c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;
type AllocScratch = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;
type Scan = unsafe extern "C" fn(
    *const c_void,
    *const c_char,
    c_uint,
    c_uint,
    *mut c_void,
    OnMatch,
    *mut c_void,
) -> c_int;

/// A compiled search. Its database stays in memory until the process ends, like the library.
pub struct Vectorscan {
    scan: Scan,
    database: *mut c_void,
    scratch: *mut c_void,
}

impl Vectorscan {
    /// Compiles a search for literals; `None` if the library is not installed.
    pub fn new(literals: &[String]) -> io::Result<Option<Vectorscan>> {
        // SAFETY: the name is a C string; the library only initializes itself.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Ok(None);
        }
        let texts: Vec<*const c_char> = literals.iter().map(|text| text.as_ptr().cast()).collect();
        let lens: Vec<usize> = literals.iter().map(String::len).collect();
        let flags = vec![SINGLE_MATCH; literals.len()];
        let ids: Vec<c_uint> = (0..literals.len() as c_uint).collect();
        let (mut database, mut scratch, mut error) = (null_mut(), null_mut(), null_mut());
        // SAFETY: the symbols of the library have these types (hs_compile.h, hs_runtime.h). All
        // arrays have one element per literal, and the lengths delimit the strings; the database is
        // used only if the compilation succeeded.
        let (scan, is_ready) = unsafe {
            let compile: Compile = std::mem::transmute(symbol(library, c"hs_compile_lit_multi")?);
            let alloc: AllocScratch = std::mem::transmute(symbol(library, c"hs_alloc_scratch")?);
            let scan: Scan = std::mem::transmute(symbol(library, c"hs_scan")?);
            let count = literals.len() as c_uint;
            let (texts, flags, ids) = (texts.as_ptr(), flags.as_ptr(), ids.as_ptr());
            let lens = lens.as_ptr();
            let to = (&raw mut database, &raw mut error);
            let compiled =
                compile(texts, flags, ids, lens, count, MODE_BLOCK, null(), to.0, to.1) == 0;
            (scan, compiled && alloc(database, &raw mut scratch) == 0)
        };
        match is_ready {
            true => Ok(Some(Vectorscan { scan, database, scratch })),
            false => Err(io::Error::other("Vectorscan cannot compile the literals")),
        }
    }

    /// Counts the literals in a line.
    pub fn count(&self, line: &[u8]) -> usize {
        let mut found = 0_usize;
        let context = (&raw mut found).cast();
        let (text, len) = (line.as_ptr().cast(), line.len() as c_uint);
        // SAFETY: database and scratch were created for each other and are used by one thread, the
        // text has this length, and the context outlives the call.
        unsafe { (self.scan)(self.database, text, len, 0, self.scratch, on_match, context) };
        found
    }
}

fn symbol(library: *mut c_void, name: &CStr) -> io::Result<*mut c_void> {
    // SAFETY: the library is open, and the name is a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    let fault = || io::Error::other(format!("{LIBRARY:?} has no {name:?}"));
    if found.is_null() { Err(fault()) } else { Ok(found) }
}

/// SAFETY: called by [`Vectorscan::count`] only, whose context is a `usize`.
unsafe extern "C" fn on_match(
    _: c_uint,
    _: c_ulonglong,
    _: c_ulonglong,
    _: c_uint,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the context is a `usize`, and nothing else refers to the number during the scan.
    unsafe { *context.cast::<usize>() += 1 };
    0
}
