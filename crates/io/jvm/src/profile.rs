//! Java frames in this process's profiles.
//!
//! `AsyncGetCallTrace`, a function that HotSpot provides for profilers, walks the calling thread's
//! Java frames in a signal handler. The function identifies methods by ids, which exist only if
//! they were requested before. Therefore, a profile requests the ids at its start, and for each
//! class that is loaded while the profile runs.

use crate::jni::{Env, Vm};
use crate::jvmti::Jvmti;
use jni_sys::{JNIEnv, jint, jmethodID};
use millstream_profiler::{
    ALLOC_BYTES, Event, MethodAddress, Runtime, RuntimeMethod, handler_room, method_address,
};
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

/// Maximum number of Java frames in a stack.
const FRAMES_MAX: usize = 96;

/// Stack space that a walk needs, in bytes. The JVM uses several register maps of a few KB each.
const WALK_BYTES: usize = 32 << 10;

/// Name of the profiler thread in the JVM.
const THREAD: &str = "profiler";

/// A frame in the format that HotSpot writes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CallFrame {
    /// Index of the bytecode, or a negative number.
    location: jint,
    method: jmethodID,
}

/// A stack in the format that HotSpot writes.
#[repr(C)]
pub struct CallTrace {
    env: *mut JNIEnv,
    /// Number of frames; 0 or less if there are no Java frames, or if they cannot be walked at the
    /// moment.
    count: jint,
    frames: *mut CallFrame,
}

/// Type of the function `AsyncGetCallTrace`.
pub type AsyncGetCallTrace = unsafe extern "C" fn(*mut CallTrace, jint, *mut c_void);

/// Provides Java frames from the process's JVM to profiles.
struct JavaFrames {
    vm: Vm,
    walk: AsyncGetCallTrace,
    jvmti: Jvmti,
}

static FRAMES: OnceLock<JavaFrames> = OnceLock::new();

/// Enables Java frames in this process's profiles. The current thread must be attached.
pub fn offer(vm: Vm, walk: Option<AsyncGetCallTrace>) {
    let frames = walk.zip(Jvmti::new(vm)).map(|(walk, jvmti)| JavaFrames { vm, walk, jvmti });
    match frames {
        Some(frames) => millstream_profiler::set_runtime(FRAMES.get_or_init(|| frames)),
        None => log::debug!("jvm: profiles do not contain Java frames with this JVM"),
    }
}

impl JavaFrames {
    /// Runs a function on this thread, attached to the JVM for the duration of the call. Logs any
    /// error, which is a JNI or JVMTI code.
    fn attached<T>(&self, what: &str, run: impl FnOnce(Env) -> Result<T, jint>) -> Option<T> {
        let result = self.vm.attach(THREAD).and_then(|env| {
            let result = run(env);
            // SAFETY: only `run` used the environment, and it has returned.
            unsafe { self.vm.detach(env) };
            result
        });
        let failed = |code: &jint| log::warn!("jvm: cannot {what} for a profile: error {code}");
        result.inspect_err(failed).ok()
    }
}

impl Runtime for JavaFrames {
    fn begin(&self, event: Event) {
        self.attached("identify methods", |env| {
            self.jvmti.watch_classes(true)?;
            self.jvmti.identify_methods(env)
        });
        if event == Event::Alloc {
            let sample = |_| self.jvmti.sample_allocations(ALLOC_BYTES);
            self.attached("sample allocations", sample);
        }
    }

    fn end(&self) {
        self.attached("end events", |_| {
            self.jvmti.end_allocations()?;
            self.jvmti.watch_classes(false)
        });
    }

    unsafe fn walk(&self, context: *mut c_void, addresses: &mut [u64]) -> usize {
        if handler_room().is_some_and(|bytes| bytes < WALK_BYTES) {
            return 0;
        }
        let Some(env) = self.vm.environment(crate::jni::VERSION) else { return 0 };
        // SAFETY: the caller guarantees the conditions.
        unsafe { walk(self.walk, env.as_ptr().cast(), context, addresses) }
    }

    fn describe(&self, methods: &[MethodAddress]) -> Vec<RuntimeMethod> {
        let describe =
            |env: Env| Ok(methods.iter().map(|at| self.describe_one(env, *at)).collect());
        self.attached("name methods", describe).unwrap_or_default()
    }
}

impl JavaFrames {
    fn describe_one(&self, env: Env, at: MethodAddress) -> RuntimeMethod {
        let id = ptr::with_exposed_provenance_mut::<c_void>(at.id() as usize).cast();
        let text = self.jvmti.describe(env, id, at.location());
        let name = text.as_ref().map_or("[unloaded method]", |text| &text.name).to_owned();
        let (file, line) = text.map_or((None, None), |text| (text.file, text.line));
        RuntimeMethod { address: at.0, name, file, line }
    }
}

/// Writes the calling thread's Java frames; returns how many there are. The stack frame of this
/// function is large.
///
/// # Safety
/// The environment must belong to this thread, and the context must belong to a signal handler on
/// this thread.
#[inline(never)]
unsafe fn walk(
    walk: AsyncGetCallTrace,
    env: *mut JNIEnv,
    context: *mut c_void,
    addresses: &mut [u64],
) -> usize {
    let mut frames = [CallFrame { location: 0, method: ptr::null_mut() }; FRAMES_MAX];
    let mut trace = CallTrace { env, count: 0, frames: frames.as_mut_ptr() };
    let depth = addresses.len().min(FRAMES_MAX);
    // SAFETY: there is space for this many frames, and the caller guarantees the other conditions.
    unsafe { walk(&raw mut trace, depth as jint, context) };
    let count = usize::try_from(trace.count).unwrap_or_default().min(depth);
    for (address, frame) in addresses.iter_mut().zip(&frames[..count]) {
        // Native methods have negative locations, and methods without an id are null.
        let location = u32::try_from(frame.location).unwrap_or(u32::MAX);
        *address = method_address(frame.method.expose_provenance() as u64, location);
    }
    count
}
