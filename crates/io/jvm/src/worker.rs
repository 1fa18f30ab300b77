//! A thread that calls operators. It is attached to the JVM on its first call, and detached when it
//! exits.

use crate::answer::Answer;
use crate::bridge::Bridge;
use crate::buffer::{Buffer, Pool};
use crate::error::CallError;
use crate::input::Input;
use crate::jni::{Env, Global, Thrown, Vm};
use crate::layout;
use crate::request::{Request, Tables};
use crate::validate::{self, Parsed};
use jni_sys::{JNIEnv, jclass};
use millstream_profiler::{RuntimeCall, SignalStack};
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Size of an answer's words, in bytes.
pub const ANSWER_BYTES: usize = layout::ANSWER_WORDS as usize * size_of::<i64>();

/// State that all workers share.
pub struct Shared {
    pub vm: Vm,
    pub bridge: Arc<Bridge>,
    pub pool: Arc<Pool>,
}

/// The state of a call, shared with `grow`, which Java calls during the call.
struct Call {
    request: Request,
    buffer: RefCell<Buffer>,
    /// Maximum number of bytes that Java may write.
    bytes_max: Cell<usize>,
}

impl Call {
    fn new(buffer: Buffer) -> Call {
        let (request, buffer) = (Request::default(), RefCell::new(buffer));
        Call { request, buffer, bytes_max: Cell::new(0) }
    }

    /// Sets the request's buffer.
    fn set_buffer(&self, address: usize, len: usize) {
        self.request.set_buffer(address, len.min(self.bytes_max.get()));
    }
}

/// An attached thread.
struct Worker {
    shared: Arc<Shared>,
    env: Env,
    /// The thread's context in Java.
    context: Global,
    call: Box<Call>,
    tables: Tables,
    /// Signal stack for profiles, because the standard library's stack is too small to walk Java
    /// frames. `None` if there is no memory for it.
    _signal_stack: Option<SignalStack>,
}

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
    /// The call that is running on this thread.
    static CURRENT: Cell<*const Call> = const { Cell::new(ptr::null()) };
}

/// Runs an operator on the current thread.
///
/// # Errors
/// Returns an error if the call failed as a whole, or the answer is invalid.
pub fn call(
    shared: &Arc<Shared>,
    operator: i32,
    rules: usize,
    input: &Input<'_>,
) -> Result<Answer, CallError> {
    input.check()?;
    let begin = Instant::now();
    let mut answer = with(shared, |worker| worker.call(operator, rules, input))?;
    answer.duration = begin.elapsed();
    Ok(answer)
}

/// Runs an operator on the request at an address. The buffer has its maximum size and cannot grow.
/// Returns the offset of the answer.
///
/// # Errors
/// Returns an error if the call failed as a whole.
///
/// # Safety
/// The request and all data in it must be valid during the call.
pub unsafe fn call_at(shared: &Arc<Shared>, operator: i32, request: i64) -> Result<i64, CallError> {
    // SAFETY: as the caller promises.
    with(shared, |worker| unsafe { worker.apply_at(operator, request) })
}

/// Calls a Java method that does nothing, `count` times.
///
/// # Errors
/// Returns an error if the thread cannot be attached, or Java threw an exception.
pub fn noop(shared: &Arc<Shared>, count: u64) -> Result<(), CallError> {
    with(shared, |worker| {
        let bridge = &worker.shared.bridge;
        let mut calls = (0..count).map(|_| bridge.noop(worker.env, 1));
        calls.try_for_each(|result| result.map(drop)).map_err(exception)
    })
}

/// Reads statistics about an operator.
///
/// # Errors
/// Returns an error if the thread cannot be attached, or Java threw an exception.
pub fn stats(shared: &Arc<Shared>, operator: i32) -> Result<Vec<u8>, CallError> {
    with(shared, |worker| worker.shared.bridge.stats(worker.env, operator).map_err(exception))
}

/// Reads statistics about the JVM.
///
/// # Errors
/// See [`stats`].
pub fn process(shared: &Arc<Shared>) -> Result<Vec<u8>, CallError> {
    with(shared, |worker| worker.shared.bridge.process(worker.env).map_err(exception))
}

/// Collects garbage and returns memory to the system, or lets the heap keep as much memory as its
/// options allow. Returns the size of the heap afterward.
///
/// # Errors
/// See [`stats`].
pub fn heap(shared: &Arc<Shared>, is_tight: bool) -> Result<Vec<u8>, CallError> {
    with(shared, |worker| worker.shared.bridge.heap(worker.env, is_tight).map_err(exception))
}

/// Reads statistics about the collectors.
///
/// # Errors
/// See [`stats`].
pub fn collector_stats(shared: &Arc<Shared>) -> Result<Vec<u8>, CallError> {
    with(shared, |worker| worker.shared.bridge.collector_stats(worker.env).map_err(exception))
}

/// Attaches the thread if it is not attached yet, and runs a function with its worker.
fn with<T>(
    shared: &Arc<Shared>,
    run: impl FnOnce(&mut Worker) -> Result<T, CallError>,
) -> Result<T, CallError> {
    let borrowed = WORKER.try_with(|slot| {
        let mut slot =
            slot.try_borrow_mut().map_err(|_| attach("a call is running on this thread"))?;
        let worker = match slot.take() {
            Some(worker) => worker,
            None => Worker::attach(Arc::clone(shared))?,
        };
        run(slot.insert(worker))
    });
    borrowed.unwrap_or_else(|_| Err(attach("it is ending")))
}

fn attach(reason: &str) -> CallError {
    CallError::Attach(reason.to_owned())
}

fn exception(thrown: Thrown) -> CallError {
    CallError::Exception(thrown.0)
}

impl Worker {
    fn attach(shared: Arc<Shared>) -> Result<Worker, CallError> {
        let thread = thread::current();
        let name = thread.name().unwrap_or("worker");
        let env = shared.vm.attach(name).map_err(|code| attach(&format!("JNI error {code}")))?;
        let context = shared.bridge.worker(env, name).map_err(|thrown| {
            // SAFETY: `env` is not used afterward, and no local references exist.
            unsafe { shared.vm.detach(env) };
            attach(&thrown.0)
        })?;
        let call = Box::new(Call::new(Buffer::new(Arc::clone(&shared.pool))));
        let (tables, signal_stack) = (Tables::default(), SignalStack::install().ok());
        Ok(Worker { shared, env, context, call, tables, _signal_stack: signal_stack })
    }

    fn call(
        &mut self,
        operator: i32,
        rules: usize,
        input: &Input<'_>,
    ) -> Result<Answer, CallError> {
        self.call.request.write(input, &mut self.tables);
        let memory = self.call.buffer.borrow_mut().prepare();
        self.call.bytes_max.set(input.answer_bytes_max());
        let (address, len) = memory.map_err(|_| CallError::Memory)?;
        self.call.set_buffer(address, len);
        let offset = self.apply(operator);
        let mut buffer = self.call.buffer.borrow_mut();
        let answer = offset.and_then(|offset| answer(&mut buffer, offset, input, rules));
        if answer.is_err() {
            // The contents are useless, and it is unknown how many bytes were written.
            buffer.note_written(usize::MAX);
            buffer.shrink();
        }
        answer
    }

    /// Calls Java, and returns the offset of the answer.
    fn apply(&self, operator: i32) -> Result<i64, CallError> {
        CURRENT.set(ptr::from_ref(&*self.call));
        // SAFETY: the request refers to the input, which the caller of `call` borrows until this
        // function returns, to `tables`, and to the buffer. During the call, only `grow` changes
        // any of them.
        let result = unsafe { self.apply_at(operator, self.call.request.address()) };
        CURRENT.set(ptr::null());
        result
    }

    /// Calls Java with the request at an address, and returns the offset of the answer.
    ///
    /// # Safety
    /// The request and all data in it must be valid during the call.
    #[inline(always)]
    unsafe fn apply_at(&self, operator: i32, request: i64) -> Result<i64, CallError> {
        let bridge = &self.shared.bridge;
        let _call = RuntimeCall::begin();
        // SAFETY: as the caller promises.
        let result = unsafe { bridge.apply(self.env, self.context, operator, request) };
        match result.map_err(exception)? {
            layout::CALL_UNKNOWN_OPERATOR => Err(CallError::UnknownOperator),
            layout::CALL_FAILED => {
                let message = bridge.failure(self.env, self.context).map_err(exception)?;
                Err(CallError::Failed(String::from_utf8_lossy(&message).into_owned()))
            }
            offset => Ok(offset),
        }
    }
}

/// Checks the answer at an offset in the buffer, and takes its values.
fn answer(
    buffer: &mut Buffer,
    offset: i64,
    input: &Input<'_>,
    rules: usize,
) -> Result<Answer, CallError> {
    let parsed = validate::parse(buffer.bytes(), offset, input, rules)?;
    // Java writes the answer last, so everything else comes before its end.
    buffer.note_written(offset as usize + ANSWER_BYTES);
    taken(buffer, parsed)
}

/// Takes the values of a checked answer out of its buffer.
///
/// # Errors
/// Returns an error if there is no memory.
pub fn taken(buffer: &mut Buffer, parsed: Parsed) -> Result<Answer, CallError> {
    let values = buffer.take(parsed.value_bytes, &parsed.kept);
    Ok(Answer {
        columns: parsed.columns,
        buffer: values.map_err(|_| CallError::Memory)?,
        emitted: parsed.emitted,
        dropped: parsed.dropped,
        failed: parsed.failed,
        duration: Duration::ZERO,
    })
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Err(thrown) = self.shared.bridge.worker_ends(self.env, self.context) {
            log::warn!("an operator was not closed cleanly: {}", thrown.0);
        }
        // SAFETY: the worker is being dropped, and there is no copy of its context.
        unsafe { self.env.delete(self.context) };
        // SAFETY: the worker is being dropped, and there is no copy of its environment.
        unsafe { self.shared.vm.detach(self.env) };
    }
}

/// The native method `Bridge.grow`: enlarges the buffer of the call that runs on this thread to at
/// least `needed` bytes, updates the request, and returns the address, or 0 if there is no memory.
///
/// The handle is only compared with the address of the current request, so a call with a wrong
/// number does no harm.
pub extern "system" fn grow(
    _env: *mut JNIEnv,
    _class: jclass,
    handle: i64,
    _used: i64,
    needed: i64,
) -> i64 {
    let current = CURRENT.get();
    if current.is_null() {
        return 0;
    }
    // SAFETY: `apply` sets this to a call that lives while Java runs, and clears it afterward;
    // both run on this thread. Only shared references to the call exist during that time.
    let call = unsafe { &*current };
    let Ok(needed) = usize::try_from(needed) else { return 0 };
    if handle != call.request.address() || needed > call.bytes_max.get() {
        return 0;
    }
    let grown = call.buffer.try_borrow_mut().ok().and_then(|mut buffer| buffer.grow(needed).ok());
    let Some((address, len)) = grown else { return 0 };
    call.set_buffer(address, len);
    address as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_outside_a_call_is_refused() {
        assert_eq!(grow(ptr::null_mut(), ptr::null_mut(), 1, 0, 100), 0);
    }

    #[test]
    fn growth_changes_the_request_of_the_call_that_runs() {
        let call = Call::new(Buffer::new(Pool::new(1)));
        call.bytes_max.set(24 << 20);
        let grow = |handle, needed| grow(ptr::null_mut(), ptr::null_mut(), handle, 0, needed);
        let handle = call.request.address();
        CURRENT.set(&raw const call);
        let refused = [grow(handle + 8, 100), grow(handle, -1), grow(handle, (24 << 20) + 1)];
        let address = grow(handle, 20 << 20);
        CURRENT.set(ptr::null());
        assert_eq!(refused, [0, 0, 0]);
        assert_eq!(address, call.buffer.borrow_mut().prepare().unwrap().0 as i64);
        assert_eq!(call.buffer.borrow().bytes().len(), 32 << 20);
    }
}
