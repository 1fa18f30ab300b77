//! Loads the JVM library and creates the JVM.

use crate::discover::Java;
use crate::error::StartError;
use crate::jni::{Env, VERSION, Vm};
use crate::profile::{self, AsyncGetCallTrace};
use jni_sys::{JNI_EEXIST, JNI_EINVAL, JNI_ENOMEM, JNI_EVERSION, JNI_OK};
use jni_sys::{JNIEnv, JavaVM, JavaVMInitArgs, JavaVMOption};
use parking_lot::Mutex;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of bytes to keep from the JVM's output for an error message.
const OUTPUT_BYTES_MAX: usize = 4096;

/// Maximum bytes that are kept per call of the print hook; additional bytes are dropped.
const LINE_BYTES_MAX: usize = 1024;

type Create = unsafe extern "system" fn(*mut *mut JavaVM, *mut *mut c_void, *mut c_void) -> c_int;

/// Output of the JVM while it is being created; `None` before and afterward.
static OUTPUT: Mutex<Option<String>> = Mutex::new(None);

/// Whether this process has tried to create a JVM.
static WAS_CALLED: AtomicBool = AtomicBool::new(false);

/// Returns whether the process has a JVM, even one that was only partly created.
pub fn was_called() -> bool {
    WAS_CALLED.load(Ordering::Relaxed)
}

/// The functions that are used from a JVM library.
struct Library {
    create: Create,
    /// Function for stack walks, which only HotSpot provides.
    walk: Option<AsyncGetCallTrace>,
}

/// Creates the process's JVM, and attaches the current thread to it.
///
/// # Errors
/// Returns an error if the library cannot be loaded, or the JVM refuses to start.
pub fn create(java: &Java, arguments: &[String]) -> Result<(Vm, Env), StartError> {
    let Library { create, walk } = load(java)?;
    WAS_CALLED.store(true, Ordering::Relaxed);
    *OUTPUT.lock() = Some(String::new());
    let created = call(create, arguments);
    let output = OUTPUT.lock().take().unwrap_or_default();
    match created {
        Ok(created) => {
            output.lines().for_each(|line| log::warn!("jvm: {line}"));
            profile::offer(created.0, walk);
            Ok(created)
        }
        Err(code) => Err(StartError::Create { code: describe(code), output }),
    }
}

/// Loads the library and finds its functions.
fn load(java: &Java) -> Result<Library, StartError> {
    let failed = |error: libloading::Error| StartError::Library {
        library: java.library.clone(),
        reason: error.to_string(),
    };
    // SAFETY: the library belongs to a JVM and is made to be loaded by any program. Its
    // initializers have no preconditions.
    let library = unsafe { libloading::Library::new(&java.library) }.map_err(failed)?;
    // Never unload the library, because a JVM cannot be unloaded.
    let library = ManuallyDrop::new(library);
    // SAFETY: according to JNI, every JVM has this function with these parameters.
    let create = unsafe { library.get::<Create>(c"JNI_CreateJavaVM") }.map_err(failed)?;
    // SAFETY: if a JVM has this function, it is HotSpot's function with these parameters.
    let walk = unsafe { library.get::<AsyncGetCallTrace>(c"AsyncGetCallTrace") };
    Ok(Library { create: *create, walk: walk.ok().map(|walk| *walk) })
}

fn call(create: Create, arguments: &[String]) -> Result<(Vm, Env), c_int> {
    let texts: Vec<CString> =
        arguments.iter().filter_map(|argument| CString::new(argument.as_str()).ok()).collect();
    let mut options: Vec<JavaVMOption> =
        texts.iter().map(|text| option(text, ptr::null_mut())).collect();
    options.push(option(c"vfprintf", print as *mut c_void));
    options.push(option(c"exit", exit as *mut c_void));
    options.push(option(c"abort", abort as *mut c_void));
    let mut initial = JavaVMInitArgs {
        version: VERSION,
        nOptions: options.len() as c_int,
        options: options.as_mut_ptr(),
        ignoreUnrecognized: false,
    };
    let (mut vm, mut env) = (ptr::null_mut::<JavaVM>(), ptr::null_mut::<c_void>());
    let initial = ptr::from_mut(&mut initial).cast();
    // SAFETY: the pointers refer to local variables, and JNI copies the options. The hooks have the
    // parameters that the Invocation API specifies.
    let code = unsafe { create(&raw mut vm, &raw mut env, initial) };
    if code != JNI_OK {
        return Err(code);
    }
    // SAFETY: the JVM was just created on this thread, and nothing ever destroys it.
    unsafe { Vm::new(vm, env.cast::<JNIEnv>()) }.ok_or(JNI_EINVAL)
}

fn option(text: &CStr, extra: *mut c_void) -> JavaVMOption {
    JavaVMOption { optionString: text.as_ptr().cast_mut(), extraInfo: extra }
}

fn describe(code: c_int) -> String {
    let text = match code {
        JNI_ENOMEM => "out of memory; lower `heap` or the sizes in `options`",
        JNI_EEXIST => "the process already has a JVM; restart the agent",
        JNI_EINVAL => "an invalid option",
        JNI_EVERSION => "the JNI version is not supported",
        _ => "an invalid option, a damaged installation, or too little memory for `heap`",
    };
    format!("{code}, {text}")
}

// Declarations from the C library. A `va_list` parameter is an address on both architectures that
// the program supports: of an array on x86-64, of a structure on aarch64.
unsafe extern "C" {
    static stdout: *mut c_void;
    static stderr: *mut c_void;
    fn vfprintf(file: *mut c_void, format: *const c_char, list: *mut c_void) -> c_int;
    fn vsnprintf(into: *mut c_char, size: usize, format: *const c_char, list: *mut c_void)
    -> c_int;
}

/// Print hook, which the JVM calls instead of `vfprintf`. The hook keeps the output while the JVM
/// is being created, because only this output explains a failed start. Later, the hook writes the
/// output to standard error, because the agent's standard output may be data.
///
/// The hook never waits for any of the agent's locks, because a crashing JVM prints from signal
/// handlers.
extern "C" fn print(file: *mut c_void, format: *const c_char, list: *mut c_void) -> c_int {
    // SAFETY: the C library sets both variables before the program starts, and never changes them.
    let (out, errors) = unsafe { (stdout, stderr) };
    if file == out || file == errors {
        if let Some(Some(output)) = OUTPUT.try_lock().as_deref_mut() {
            return keep(output, format, list);
        }
        // SAFETY: the JVM passes a format with matching arguments.
        return unsafe { vfprintf(errors, format, list) };
    }
    // SAFETY: the JVM passes a format with matching arguments, and a file that it has opened.
    unsafe { vfprintf(file, format, list) }
}

fn keep(output: &mut String, format: *const c_char, list: *mut c_void) -> c_int {
    let mut line = [0u8; LINE_BYTES_MAX];
    // SAFETY: the JVM passes a format with matching arguments, and vsnprintf writes at most
    // `line.len()` bytes.
    let len = unsafe { vsnprintf(line.as_mut_ptr().cast(), line.len(), format, list) };
    let printed = &line[..usize::try_from(len).unwrap_or(0).min(LINE_BYTES_MAX - 1)];
    if output.len() < OUTPUT_BYTES_MAX {
        output.push_str(&String::from_utf8_lossy(printed));
    }
    len
}

/// Exit hook, which the JVM calls when Java code ends the process. The runtime for operators
/// prevents this if possible. The process exits after the function returns.
extern "C" fn exit(code: c_int) {
    write_kept();
    log::error!("an operator exited the process with System.exit({code})");
}

/// Abort hook, which the JVM calls after a fatal error, or if it cannot be created with its
/// options. The process exits after the function returns.
extern "C" fn abort() {
    write_kept();
    let text = b"the operators' JVM failed, and the process exits\n";
    _ = rustix::io::write(rustix::stdio::stderr(), text);
}

/// Writes out the JVM's output from its creation, which contains the reason why the JVM ends the
/// process.
fn write_kept() {
    if let Some(Some(output)) = OUTPUT.try_lock().as_deref() {
        _ = rustix::io::write(rustix::stdio::stderr(), output.as_bytes());
    }
}
