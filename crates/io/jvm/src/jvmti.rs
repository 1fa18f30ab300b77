//! The part of JVMTI that profiles use, with safe functions around its table of function pointers.
//!
//! The numbers come from the tables in the JVM Tool Interface specification.

use crate::jni::{Env, Vm};
use jni_sys::{JNIEnv, jclass, jint, jmethodID, jobject};
use millstream_profiler::{method_address, sample_allocation};
use std::ffi::{CStr, c_char, c_uchar, c_void};
use std::ptr::{self, NonNull};

/// The JVMTI version to request: 11, the oldest version that every supported JVM provides.
const VERSION: jint = 0x300B_0000;

/// Event modes and event types.
const ENABLE: jint = 1;
const DISABLE: jint = 0;
const CLASS_LOAD: jint = 55;
const CLASS_PREPARE: jint = 56;
const SAMPLED_OBJECT_ALLOC: jint = 86;

/// Maximum number of frames in a sampled allocation.
const FRAMES_MAX: usize = 96;

/// Event type of the first callback in the table.
const FIRST_EVENT: jint = 50;

/// Number of callbacks in the table of version 11.
const EVENTS: usize = 37;

/// Capability bits in the first word.
const GET_SOURCE_FILE_NAME: u32 = 11;
const GET_LINE_NUMBERS: u32 = 12;
/// Capability bit in the second word.
const GENERATE_SAMPLED_OBJECT_ALLOC: u32 = 43 - 32;

/// Function numbers.
const SET_EVENT_NOTIFICATION_MODE: usize = 2;
const DEALLOCATE: usize = 47;
const GET_CLASS_SIGNATURE: usize = 48;
const GET_SOURCE_FILE_NAME_FUNCTION: usize = 50;
const GET_CLASS_METHODS: usize = 52;
const GET_METHOD_NAME: usize = 64;
const GET_METHOD_DECLARING_CLASS: usize = 65;
const GET_LINE_NUMBER_TABLE: usize = 70;
const GET_LOADED_CLASSES: usize = 78;
const GET_STACK_TRACE: usize = 104;
const SET_EVENT_CALLBACKS: usize = 122;
const ADD_CAPABILITIES: usize = 142;
const SET_HEAP_SAMPLING_INTERVAL: usize = 156;

/// A pointer to a table of functions. The functions are numbered from 1.
type Interface = *const *const c_void;

type SetMode = unsafe extern "C" fn(*mut Interface, jint, jint, jobject, ...) -> jint;
type Free = unsafe extern "C" fn(*mut Interface, *mut c_uchar) -> jint;
type OfClass = unsafe extern "C" fn(*mut Interface, jclass, *mut *mut c_char) -> jint;
type Signature =
    unsafe extern "C" fn(*mut Interface, jclass, *mut *mut c_char, *mut *mut c_char) -> jint;
type Methods = unsafe extern "C" fn(*mut Interface, jclass, *mut jint, *mut *mut jmethodID) -> jint;
type MethodName = unsafe extern "C" fn(
    *mut Interface,
    jmethodID,
    *mut *mut c_char,
    *mut *mut c_char,
    *mut *mut c_char,
) -> jint;
type DeclaringClass = unsafe extern "C" fn(*mut Interface, jmethodID, *mut jclass) -> jint;
type Lines =
    unsafe extern "C" fn(*mut Interface, jmethodID, *mut jint, *mut *mut LineEntry) -> jint;
type Classes = unsafe extern "C" fn(*mut Interface, *mut jint, *mut *mut jclass) -> jint;
type SetCallbacks = unsafe extern "C" fn(*mut Interface, *const Callbacks, jint) -> jint;
type SetInterval = unsafe extern "C" fn(*mut Interface, jint) -> jint;
type Trace =
    unsafe extern "C" fn(*mut Interface, jobject, jint, jint, *mut FrameInfo, *mut jint) -> jint;
type Capabilities = unsafe extern "C" fn(*mut Interface, *const [u32; 4]) -> jint;

/// Callbacks, indexed by event type starting at [`FIRST_EVENT`].
#[repr(C)]
struct Callbacks([*const c_void; EVENTS]);

/// An entry of a line table: the location in a method at which the code for a line begins.
#[repr(C)]
#[derive(Clone, Copy)]
struct LineEntry {
    location: i64,
    line: jint,
}

/// A stack frame.
#[repr(C)]
#[derive(Clone, Copy)]
struct FrameInfo {
    method: jmethodID,
    location: i64,
}

/// A JVMTI environment. It is never disposed.
#[derive(Clone, Copy, Debug)]
pub struct Jvmti(NonNull<Interface>);

// SAFETY: JVMTI permits its functions on every attached thread.
unsafe impl Send for Jvmti {}
// SAFETY: as above.
unsafe impl Sync for Jvmti {}

/// Calls a function by its number. The table exists as long as the process runs.
macro_rules! call {
    ($jvmti:expr, $number:expr, $kind:ty $(, $argument:expr)*) => {{
        let entry = (*$jvmti.0.as_ptr()).add($number - 1);
        let function = std::mem::transmute::<*const c_void, $kind>(*entry);
        function($jvmti.0.as_ptr() $(, $argument)*)
    }};
}

/// Memory that JVMTI has allocated, and that is freed when this value is dropped.
struct Allocated<T>(Jvmti, *mut T);

impl<T> Drop for Allocated<T> {
    fn drop(&mut self) {
        // SAFETY: the memory came from this environment, and is freed once. A null pointer is
        // permitted.
        unsafe { call!(self.0, DEALLOCATE, Free, self.1.cast()) };
    }
}

impl Allocated<c_char> {
    fn text(&self) -> Option<String> {
        // SAFETY: JVMTI returns strings that end with a zero byte.
        let text = (!self.1.is_null()).then(|| unsafe { CStr::from_ptr(self.1) });
        text.map(|text| text.to_string_lossy().into_owned())
    }
}

/// A method as it is written in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodText {
    /// Name of the class, such as `java.lang.String`, and of the method.
    pub name: String,
    pub file: Option<String>,
    pub line: Option<u32>,
}

impl Jvmti {
    /// Creates an environment that can describe methods with their lines; `None` if the JVM does
    /// not provide one.
    pub fn new(vm: Vm) -> Option<Jvmti> {
        let jvmti = Jvmti(vm.environment(VERSION)?.cast());
        let wanted: [u32; 4] = [1 << GET_SOURCE_FILE_NAME | 1 << GET_LINE_NUMBERS, 0, 0, 0];
        let mut callbacks = Callbacks([ptr::null(); EVENTS]);
        let at = |event: jint| (event - FIRST_EVENT) as usize;
        callbacks.0[at(CLASS_LOAD)] = class_loads as *const c_void;
        callbacks.0[at(CLASS_PREPARE)] = class_is_prepared as *const c_void;
        callbacks.0[at(SAMPLED_OBJECT_ALLOC)] = object_is_sampled as *const c_void;
        // SAFETY: both structures have the types that the functions expect, and the functions copy
        // them. If the capabilities are refused, there are no lines.
        let code = unsafe {
            call!(jvmti, ADD_CAPABILITIES, Capabilities, &raw const wanted);
            let bytes = size_of::<Callbacks>() as jint;
            call!(jvmti, SET_EVENT_CALLBACKS, SetCallbacks, &raw const callbacks, bytes)
        };
        (code == 0).then_some(jvmti)
    }

    /// Enables or disables class events. While they are enabled, the methods of new classes get
    /// ids.
    pub fn watch_classes(self, is_on: bool) -> Result<(), jint> {
        let mode = if is_on { ENABLE } else { DISABLE };
        self.set_mode(mode, CLASS_LOAD)?;
        self.set_mode(mode, CLASS_PREPARE)
    }

    fn set_mode(self, mode: jint, event: jint) -> Result<(), jint> {
        let thread: jobject = ptr::null_mut();
        // SAFETY: the arguments match the function. A null thread means all threads.
        checked(unsafe { call!(self, SET_EVENT_NOTIFICATION_MODE, SetMode, mode, event, thread) })
    }

    /// Starts sampling about one allocation per this many bytes.
    pub fn sample_allocations(self, bytes: u64) -> Result<(), jint> {
        let wanted: [u32; 4] = [0, 1 << GENERATE_SAMPLED_OBJECT_ALLOC, 0, 0];
        let bytes = jint::try_from(bytes).unwrap_or(jint::MAX);
        // SAFETY: the structure has the type that the function expects, and the function copies it.
        checked(unsafe { call!(self, ADD_CAPABILITIES, Capabilities, &raw const wanted) })?;
        // SAFETY: the argument matches the function.
        checked(unsafe { call!(self, SET_HEAP_SAMPLING_INTERVAL, SetInterval, bytes) })?;
        self.set_mode(ENABLE, SAMPLED_OBJECT_ALLOC)
    }

    /// Stops sampling allocations, if sampling is on.
    pub fn end_allocations(self) -> Result<(), jint> {
        self.set_mode(DISABLE, SAMPLED_OBJECT_ALLOC)
    }

    /// Assigns an id to each method of the loaded classes.
    pub fn identify_methods(self, env: Env) -> Result<(), jint> {
        let (mut count, mut classes) = (0, ptr::null_mut());
        // SAFETY: both pointers refer to local variables.
        let code =
            unsafe { call!(self, GET_LOADED_CLASSES, Classes, &raw mut count, &raw mut classes) };
        let classes = Allocated(self, classes);
        for index in 0..usize::try_from(count).unwrap_or_default() {
            // SAFETY: the array contains at least this many classes.
            let class = unsafe { *classes.1.add(index) };
            self.identify_methods_of(class);
            // SAFETY: the reference belongs to this thread, and has not been deleted.
            unsafe { env.delete_local(class) };
        }
        if code == 0 { Ok(()) } else { Err(code) }
    }

    /// Assigns ids to a class's methods, as a side effect of listing them.
    fn identify_methods_of(self, class: jclass) {
        let (mut count, mut methods) = (0, ptr::null_mut());
        // SAFETY: the class is a reference of this thread, and both pointers refer to local
        // variables. A class that is not prepared causes an error.
        unsafe { call!(self, GET_CLASS_METHODS, Methods, class, &raw mut count, &raw mut methods) };
        drop(Allocated(self, methods));
    }

    /// Describes a method, and the source line of a location in it; `None` if its class was
    /// unloaded.
    pub fn describe(
        self,
        env: Env,
        method: jmethodID,
        location: Option<u32>,
    ) -> Option<MethodText> {
        let (mut name, mut class) = (ptr::null_mut(), ptr::null_mut());
        let (no_signature, no_generic) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: ids of unloaded methods cause errors. The pointers refer to local variables, or
        // are null if a result is not needed.
        let code = unsafe {
            call!(
                self,
                GET_METHOD_NAME,
                MethodName,
                method,
                &raw mut name,
                no_signature,
                no_generic
            )
        };
        let name = Allocated(self, name).text().filter(|_| code == 0)?;
        // SAFETY: ids of unloaded methods cause errors, and the pointer refers to a local variable.
        let code = unsafe {
            call!(self, GET_METHOD_DECLARING_CLASS, DeclaringClass, method, &raw mut class)
        };
        if code != 0 {
            return None;
        }
        let described = MethodText {
            name: format!("{}.{name}", self.class_name(class).unwrap_or_default()),
            file: self.file(class),
            line: location.and_then(|location| self.line(method, location)),
        };
        // SAFETY: the reference belongs to this thread, and has not been deleted.
        unsafe { env.delete_local(class) };
        Some(described)
    }

    fn class_name(self, class: jclass) -> Option<String> {
        let mut signature = ptr::null_mut();
        // SAFETY: the class is a reference of this thread, and a null pointer for the generic
        // signature is permitted.
        unsafe {
            let no_generic = ptr::null_mut();
            call!(self, GET_CLASS_SIGNATURE, Signature, class, &raw mut signature, no_generic)
        };
        Allocated(self, signature).text().map(|signature| written(&signature))
    }

    fn file(self, class: jclass) -> Option<String> {
        let mut file = ptr::null_mut();
        // SAFETY: the class is a reference of this thread.
        unsafe { call!(self, GET_SOURCE_FILE_NAME_FUNCTION, OfClass, class, &raw mut file) };
        Allocated(self, file).text()
    }

    fn line(self, method: jmethodID, location: u32) -> Option<u32> {
        let (mut count, mut lines) = (0, ptr::null_mut());
        // SAFETY: the pointers refer to local variables.
        unsafe {
            call!(self, GET_LINE_NUMBER_TABLE, Lines, method, &raw mut count, &raw mut lines)
        };
        let lines = Allocated(self, lines);
        // SAFETY: the table contains at least this many entries.
        let entry = |index: usize| unsafe { *lines.1.add(index) };
        let entries = (0..usize::try_from(count).unwrap_or_default()).map(entry);
        let before = entries.filter(|entry| entry.location <= i64::from(location));
        u32::try_from(before.max_by_key(|entry| entry.location)?.line).ok()
    }
}

fn checked(code: jint) -> Result<(), jint> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Returns the name of a class as it is written in the source, such as `java.lang.String`, given
/// its signature.
fn written(signature: &str) -> String {
    let name = signature.strip_prefix('L').and_then(|name| name.strip_suffix(';'));
    name.unwrap_or(signature).replace('/', ".")
}

/// Does nothing. `AsyncGetCallTrace` requires that the event is enabled.
extern "C" fn class_loads(_: *mut Interface, _: *mut JNIEnv, _: jobject, _: jclass) {}

/// Assigns an id to each method of a new class.
extern "C" fn class_is_prepared(jvmti: *mut Interface, _: *mut JNIEnv, _: jobject, class: jclass) {
    if let Some(jvmti) = NonNull::new(jvmti) {
        Jvmti(jvmti).identify_methods_of(class);
    }
}

/// Adds a sample for an allocation by the current thread.
extern "C" fn object_is_sampled(
    jvmti: *mut Interface,
    _: *mut JNIEnv,
    thread: jobject,
    _: jobject,
    _: jclass,
    bytes: i64,
) {
    let Some(jvmti) = NonNull::new(jvmti) else { return };
    let mut frames = [FrameInfo { method: ptr::null_mut(), location: 0 }; FRAMES_MAX];
    let (mut count, max) = (0, FRAMES_MAX as jint);
    // SAFETY: the array has space for this many frames, and `thread` is a reference of this thread.
    unsafe {
        let jvmti = Jvmti(jvmti);
        call!(jvmti, GET_STACK_TRACE, Trace, thread, 0, max, frames.as_mut_ptr(), &raw mut count)
    };
    let count = usize::try_from(count).unwrap_or_default().min(FRAMES_MAX);
    let mut addresses = [0; FRAMES_MAX];
    for (address, frame) in addresses.iter_mut().zip(&frames[..count]) {
        // Native methods have negative locations.
        let location = u32::try_from(frame.location).unwrap_or(u32::MAX);
        *address = method_address(frame.method.expose_provenance() as u64, location);
    }
    sample_allocation(&addresses[..count], u64::try_from(bytes).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn classes_are_named_as_they_are_written() {
        assert_eq!(written("Ljava/lang/String;"), "java.lang.String");
        assert_eq!(written("LFoo$Bar;"), "Foo$Bar");
        assert_eq!(written("[I"), "[I");
    }
}
