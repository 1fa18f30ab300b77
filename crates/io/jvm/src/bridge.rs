//! The Java class that runs operators, with the ids of its methods.

use crate::jni::{Argument, Env, Global, Method, Thrown};
use jni_sys::{JNIEnv, jclass};
use std::ffi::{CStr, c_void};

const CLASS: &CStr = c"dev/millstream/operator/runtime/Bridge";

/// The static methods of the Java class `Bridge`.
#[derive(Debug)]
pub struct Bridge {
    start: Method,
    worker: Method,
    worker_ends: Method,
    register: Method,
    remove: Method,
    apply: Method,
    failure: Method,
    stats: Method,
    process: Method,
    heap: Method,
    noop: Method,
    collector_register: Method,
    collector_start: Method,
    collector_stop: Method,
    collector_stats: Method,
}

/// The functions that Java calls as native methods of `Bridge`.
pub struct Natives {
    /// [`grow`](crate::worker::grow)
    pub grow: extern "system" fn(*mut JNIEnv, jclass, i64, i64, i64) -> i64,
    /// [`deliver`](crate::collector::deliver)
    pub deliver: extern "system" fn(*mut JNIEnv, jclass, i64, i64, i64, i32) -> i32,
    /// [`stopped`](crate::collector::stopped)
    pub stopped: extern "system" fn(*mut JNIEnv, jclass, i64),
}

impl Bridge {
    /// Finds the class and its methods, and registers the native methods.
    ///
    /// # Errors
    /// Returns an error if the jar does not contain the class or one of the methods.
    pub fn load(env: Env, natives: &Natives) -> Result<Bridge, Thrown> {
        let class = env.class(CLASS)?;
        let method = |name: &CStr, signature: &CStr| env.method(class, name, signature);
        let bridge = Bridge {
            start: method(c"start", c"([B)[B")?,
            worker: method(c"worker", c"(Ljava/lang/String;)Ljava/lang/Object;")?,
            worker_ends: method(c"workerEnds", c"(Ljava/lang/Object;)V")?,
            register: method(c"register", c"([B)[B")?,
            remove: method(c"remove", c"(I)V")?,
            apply: method(c"apply", c"(Ljava/lang/Object;IJ)J")?,
            failure: method(c"failure", c"(Ljava/lang/Object;)[B")?,
            stats: method(c"stats", c"(I)[B")?,
            process: method(c"process", c"()[B")?,
            heap: method(c"heap", c"(Z)[B")?,
            noop: method(c"noop", c"(I)I")?,
            collector_register: method(c"collectorRegister", c"([B)[B")?,
            collector_start: method(c"collectorStart", c"(IJ)V")?,
            collector_stop: method(c"collectorStop", c"(I)V")?,
            collector_stats: method(c"collectorStats", c"()[B")?,
        };
        let grow = natives.grow as *mut c_void;
        // SAFETY: the parameters of `grow` match this signature.
        unsafe { env.register_native(class, c"grow", c"(JJJ)J", grow)? };
        let deliver = natives.deliver as *mut c_void;
        // SAFETY: the parameters of `deliver` match this signature.
        unsafe { env.register_native(class, c"deliver", c"(JJJI)I", deliver)? };
        let stopped = natives.stopped as *mut c_void;
        // SAFETY: the parameters of `stopped` match this signature.
        unsafe { env.register_native(class, c"stopped", c"(J)V", stopped)? };
        Ok(bridge)
    }

    pub fn start(&self, env: Env, settings: &[u8]) -> Result<Vec<u8>, Thrown> {
        let settings = env.bytes(settings)?;
        // SAFETY: the argument matches the method's signature in `load`. The same holds for all
        // calls below.
        unsafe { env.call_bytes(self.start, &[Argument::Local(&settings)]) }
    }

    /// Creates the current thread's context.
    pub fn worker(&self, env: Env, name: &str) -> Result<Global, Thrown> {
        let name = env.string(name)?;
        // SAFETY: as above.
        let worker = unsafe { env.call_object(self.worker, &[Argument::Local(&name)])? };
        env.global(worker)
    }

    pub fn worker_ends(&self, env: Env, worker: Global) -> Result<(), Thrown> {
        // SAFETY: as above.
        unsafe { env.call_void(self.worker_ends, &[Argument::Object(worker)]) }
    }

    pub fn register(&self, env: Env, spec: &[u8]) -> Result<Vec<u8>, Thrown> {
        let spec = env.bytes(spec)?;
        // SAFETY: as above.
        unsafe { env.call_bytes(self.register, &[Argument::Local(&spec)]) }
    }

    pub fn remove(&self, env: Env, operator: i32) -> Result<(), Thrown> {
        // SAFETY: as above.
        unsafe { env.call_void(self.remove, &[Argument::Int(operator)]) }
    }

    /// Runs an operator on the request at this address.
    #[inline(always)]
    pub unsafe fn apply(
        &self,
        env: Env,
        worker: Global,
        operator: i32,
        request: i64,
    ) -> Result<i64, Thrown> {
        // SAFETY: the arguments match the signature, and the caller guarantees that the request is
        // valid.
        unsafe { env.call_long(self.apply, worker, operator, request) }
    }

    pub fn failure(&self, env: Env, worker: Global) -> Result<Vec<u8>, Thrown> {
        // SAFETY: as above.
        unsafe { env.call_bytes(self.failure, &[Argument::Object(worker)]) }
    }

    pub fn stats(&self, env: Env, operator: i32) -> Result<Vec<u8>, Thrown> {
        // SAFETY: as above.
        unsafe { env.call_bytes(self.stats, &[Argument::Int(operator)]) }
    }

    pub fn process(&self, env: Env) -> Result<Vec<u8>, Thrown> {
        // SAFETY: as above.
        unsafe { env.call_bytes(self.process, &[]) }
    }

    pub fn heap(&self, env: Env, is_tight: bool) -> Result<Vec<u8>, Thrown> {
        // SAFETY: as above.
        unsafe { env.call_bytes(self.heap, &[Argument::Bool(is_tight)]) }
    }

    #[inline(always)]
    pub fn noop(&self, env: Env, value: i32) -> Result<i32, Thrown> {
        // SAFETY: as above.
        unsafe { env.call_int(self.noop, value) }
    }

    pub fn collector_register(&self, env: Env, spec: &[u8]) -> Result<Vec<u8>, Thrown> {
        let spec = env.bytes(spec)?;
        // SAFETY: as above.
        unsafe { env.call_bytes(self.collector_register, &[Argument::Local(&spec)]) }
    }

    /// Starts calling a collector. Java passes this handle along with each of its chunks.
    pub fn collector_start(&self, env: Env, collector: i32, handle: i64) -> Result<(), Thrown> {
        let arguments = [Argument::Int(collector), Argument::Long(handle)];
        // SAFETY: as above.
        unsafe { env.call_void(self.collector_start, &arguments) }
    }

    pub fn collector_stop(&self, env: Env, collector: i32) -> Result<(), Thrown> {
        // SAFETY: as above.
        unsafe { env.call_void(self.collector_stop, &[Argument::Int(collector)]) }
    }

    pub fn collector_stats(&self, env: Env) -> Result<Vec<u8>, Thrown> {
        // SAFETY: as above.
        unsafe { env.call_bytes(self.collector_stats, &[]) }
    }
}
