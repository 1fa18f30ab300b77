//! The part of JNI that this crate uses, as safe functions around the tables of function pointers.

use jni_sys::{JNI_OK, JNI_VERSION_1_8, JNIEnv, JNINativeMethod, JavaVM, JavaVMAttachArgs};
use jni_sys::{jbyteArray, jclass, jmethodID, jobject, jstring, jvalue};
use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// The JNI version to request, which every JVM since Java 8 supports.
pub const VERSION: i32 = JNI_VERSION_1_8;

/// Calls a function in an interface table. Both tables exist as long as the process runs.
macro_rules! call {
    ($table:expr, $function:ident $(, $argument:expr)*) => {
        ((**$table.0.as_ptr()).v1_4.$function)($table.0.as_ptr() $(, $argument)*)
    };
}

/// The process's JVM. It is never destroyed.
#[derive(Clone, Copy, Debug)]
pub struct Vm(NonNull<JavaVM>);

// SAFETY: JNI permits calls of the invocation interface on every thread, and a JVM that is never
// destroyed outlives them.
unsafe impl Send for Vm {}
// SAFETY: as above.
unsafe impl Sync for Vm {}

/// The environment of an attached thread. Values of this type never leave their thread.
#[derive(Clone, Copy)]
pub struct Env(NonNull<JNIEnv>, PhantomData<*const ()>);

/// An exception as text: its class and message.
#[derive(Debug)]
pub struct Thrown(pub String);

/// A reference that keeps its object alive until it is deleted or the process exits.
#[derive(Clone, Copy, Debug)]
pub struct Global(jobject);

// SAFETY: JNI permits the use of global references on every thread.
unsafe impl Send for Global {}
// SAFETY: as above.
unsafe impl Sync for Global {}

/// A static method of a class that is never unloaded.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    class: Global,
    id: jmethodID,
}

// SAFETY: JNI permits the use of method ids on every thread.
unsafe impl Send for Method {}
// SAFETY: as above.
unsafe impl Sync for Method {}

/// An argument of a call.
#[derive(Clone, Copy)]
pub enum Argument<'a> {
    Int(i32),
    Bool(bool),
    Long(i64),
    Object(Global),
    Local(&'a Local),
}

/// A local reference that is deleted when it is dropped.
pub struct Local {
    env: Env,
    object: NonNull<()>,
}

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: the reference was created on this thread (`Env` never leaves it) and is deleted
        // once.
        unsafe { call!(self.env, DeleteLocalRef, self.raw()) }
    }
}

impl Local {
    fn raw(&self) -> jobject {
        self.object.as_ptr().cast()
    }
}

impl Vm {
    /// Wraps the pointers that `JNI_CreateJavaVM` returned.
    ///
    /// # Safety
    /// The pointers must belong to a JVM that is never destroyed, and to the current thread.
    pub unsafe fn new(vm: *mut JavaVM, env: *mut JNIEnv) -> Option<(Vm, Env)> {
        Some((Vm(NonNull::new(vm)?), Env(NonNull::new(env)?, PhantomData)))
    }

    /// Attaches the current thread under a name, as a daemon thread, which does not keep the JVM
    /// running.
    pub fn attach(self, name: &str) -> Result<Env, i32> {
        let name = CString::new(name.replace('\0', " ")).unwrap_or_default();
        let mut arguments = JavaVMAttachArgs {
            version: VERSION,
            name: name.as_ptr().cast_mut(),
            group: ptr::null_mut(),
        };
        let mut env = ptr::null_mut::<c_void>();
        let arguments = ptr::from_mut(&mut arguments).cast();
        // SAFETY: both pointers refer to local variables, and JNI copies the name.
        let code = unsafe { call!(self, AttachCurrentThreadAsDaemon, &raw mut env, arguments) };
        let env = NonNull::new(env.cast()).filter(|_| code == JNI_OK);
        env.map(|env| Env(env, PhantomData)).ok_or(code)
    }

    /// Returns the environment of the current thread for an interface version; `None` if the thread
    /// is not attached. This function is safe in signal handlers, on threads that have run Java.
    pub fn environment(self, version: i32) -> Option<NonNull<c_void>> {
        let mut env = ptr::null_mut();
        // SAFETY: the pointer refers to a local variable.
        let code = unsafe { call!(self, GetEnv, &raw mut env, version) };
        NonNull::new(env).filter(|_| code == JNI_OK)
    }

    /// Detaches the thread of this environment.
    ///
    /// # Safety
    /// Neither a copy of `env` nor a local reference may be used afterward.
    pub unsafe fn detach(self, env: Env) {
        let _ = env;
        // SAFETY: the thread is attached, because it has an environment. No Java frame is on its
        // stack, because Java never calls native code with an `Env`.
        unsafe { call!(self, DetachCurrentThread) };
    }
}

impl Env {
    /// Returns a class that the system class loader finds, such as `java/lang/Object`.
    ///
    /// # Errors
    /// Returns an error if the class does not exist, or its initialization failed.
    pub fn class(self, name: &CStr) -> Result<Global, Thrown> {
        // SAFETY: the thread is attached, and `name` ends with 0.
        let class = unsafe { call!(self, FindClass, name.as_ptr()) };
        self.global(self.local(class)?)
    }

    /// Creates a global reference.
    pub fn global(self, local: Local) -> Result<Global, Thrown> {
        // SAFETY: `local` is a valid reference on this thread.
        let global = unsafe { call!(self, NewGlobalRef, local.raw()) };
        if global.is_null() { Err(self.thrown()) } else { Ok(Global(global)) }
    }

    /// Deletes a global reference.
    ///
    /// # Safety
    /// No copy of the reference may be used afterward.
    pub unsafe fn delete(self, global: Global) {
        // SAFETY: the caller guarantees the conditions.
        unsafe { call!(self, DeleteGlobalRef, global.0) }
    }

    /// Deletes a local reference.
    ///
    /// # Safety
    /// The reference must belong to this thread, and must not be used afterward.
    pub unsafe fn delete_local(self, object: jobject) {
        // SAFETY: the caller guarantees the conditions.
        unsafe { call!(self, DeleteLocalRef, object) }
    }

    /// Returns a static method of a class.
    ///
    /// # Errors
    /// Returns an error if the class has no method with this name and signature.
    pub fn method(self, class: Global, name: &CStr, signature: &CStr) -> Result<Method, Thrown> {
        let (name, signature) = (name.as_ptr(), signature.as_ptr());
        // SAFETY: the class is valid, and both strings end with 0.
        let id = unsafe { call!(self, GetStaticMethodID, class.0, name, signature) };
        if id.is_null() { Err(self.thrown()) } else { Ok(Method { class, id }) }
    }

    /// Registers `function` as the code of a native method.
    ///
    /// # Safety
    /// The function must have the parameters in the signature, after the environment and the class.
    pub unsafe fn register_native(
        self,
        class: Global,
        name: &CStr,
        signature: &CStr,
        function: *mut c_void,
    ) -> Result<(), Thrown> {
        let method = JNINativeMethod {
            name: name.as_ptr().cast_mut(),
            signature: signature.as_ptr().cast_mut(),
            fnPtr: function,
        };
        // SAFETY: JNI reads the one method and copies its strings; the caller promises that the
        // function is correct.
        let code = unsafe { call!(self, RegisterNatives, class.0, &raw const method, 1) };
        if code == JNI_OK { Ok(()) } else { Err(self.thrown()) }
    }

    /// Creates a Java string.
    pub fn string(self, text: &str) -> Result<Local, Thrown> {
        let units: Vec<u16> = text.encode_utf16().collect();
        // SAFETY: JNI reads exactly as many units as the slice contains.
        let string = unsafe { call!(self, NewString, units.as_ptr(), units.len() as i32) };
        self.local(string)
    }

    /// Creates a Java array of bytes.
    pub fn bytes(self, bytes: &[u8]) -> Result<Local, Thrown> {
        let len = bytes.len().min(i32::MAX as usize) as i32;
        // SAFETY: the thread is attached.
        let array = self.local(unsafe { call!(self, NewByteArray, len) })?;
        // SAFETY: the array contains `len` bytes, and the slice at least as many.
        unsafe { call!(self, SetByteArrayRegion, array.raw(), 0, len, bytes.as_ptr().cast()) };
        Ok(array)
    }

    /// Returns the contents of a byte array.
    fn bytes_of(self, array: &Local) -> Vec<u8> {
        let array: jbyteArray = array.raw();
        // SAFETY: `array` is a valid array of bytes.
        let len = unsafe { call!(self, GetArrayLength, array) };
        let mut bytes = vec![0u8; usize::try_from(len).unwrap_or_default()];
        let into = bytes.as_mut_ptr().cast();
        // SAFETY: the array and the vector both have `len` bytes.
        unsafe { call!(self, GetByteArrayRegion, array, 0, bytes.len() as i32, into) };
        bytes
    }

    fn local(self, object: jobject) -> Result<Local, Thrown> {
        let object = NonNull::new(object.cast()).ok_or_else(|| self.thrown())?;
        Ok(Local { env: self, object })
    }

    /// Takes the pending exception. If there is none, the failure means that JNI had no memory for
    /// a reference.
    fn thrown(self) -> Thrown {
        self.take_thrown().unwrap_or_else(|| Thrown("no memory for a reference".to_owned()))
    }

    /// Takes the pending exception, if there is one.
    #[inline(always)]
    fn take_thrown(self) -> Option<Thrown> {
        // SAFETY: the thread is attached.
        match unsafe { call!(self, ExceptionCheck) } {
            false => None,
            true => Some(self.describe()),
        }
    }

    #[cold]
    fn describe(self) -> Thrown {
        // SAFETY: the thread is attached; both calls are permitted while an exception is pending.
        let object = unsafe {
            let object = call!(self, ExceptionOccurred);
            call!(self, ExceptionClear);
            object
        };
        let Some(object) = NonNull::new(object.cast()) else {
            return Thrown("an unknown exception".to_owned());
        };
        let text = self.text_of(&Local { env: self, object });
        Thrown(text.unwrap_or_else(|| "an exception without text".to_owned()))
    }

    /// Returns `object.toString()`; `None` if the method throws.
    fn text_of(self, object: &Local) -> Option<String> {
        // SAFETY: the object is a valid reference, and every class has this method, which has no
        // parameters and returns a string.
        let text: jstring = unsafe {
            let class: jclass = call!(self, GetObjectClass, object.raw());
            let (name, signature) = (c"toString".as_ptr(), c"()Ljava/lang/String;".as_ptr());
            let method = call!(self, GetMethodID, class, name, signature);
            call!(self, DeleteLocalRef, class);
            match method.is_null() {
                true => ptr::null_mut(),
                false => call!(self, CallObjectMethodA, object.raw(), method, ptr::null()),
            }
        };
        let text = NonNull::new(text.cast()).map(|object| Local { env: self, object });
        // SAFETY: the thread is attached.
        unsafe { call!(self, ExceptionClear) };
        Some(self.chars_of(&text?))
    }

    fn chars_of(self, string: &Local) -> String {
        // SAFETY: `string` is a valid string.
        let len = unsafe { call!(self, GetStringLength, string.raw()) };
        let mut units = vec![0u16; usize::try_from(len).unwrap_or_default()];
        let into = units.as_mut_ptr();
        // SAFETY: the string and the vector both have `len` units.
        unsafe { call!(self, GetStringRegion, string.raw(), 0, units.len() as i32, into) };
        String::from_utf16_lossy(&units)
    }

    /// Calls a method that returns nothing.
    ///
    /// # Safety
    /// The arguments must match the method's signature. The same applies to the functions below.
    pub unsafe fn call_void(
        self,
        method: Method,
        arguments: &[Argument<'_>],
    ) -> Result<(), Thrown> {
        let values = values(arguments);
        // SAFETY: the caller guarantees the conditions, and there is one value per argument.
        unsafe { call!(self, CallStaticVoidMethodA, method.class.0, method.id, values.as_ptr()) };
        self.take_thrown().map_or(Ok(()), Err)
    }

    /// Calls a method that returns an object.
    ///
    /// # Safety
    /// See [`Env::call_void`].
    pub unsafe fn call_object(
        self,
        method: Method,
        arguments: &[Argument<'_>],
    ) -> Result<Local, Thrown> {
        let values = values(arguments);
        // SAFETY: the caller guarantees the conditions, and there is one value per argument.
        let object = unsafe {
            call!(self, CallStaticObjectMethodA, method.class.0, method.id, values.as_ptr())
        };
        match self.take_thrown() {
            Some(thrown) => Err(thrown),
            None => self.local(object).map_err(|_| Thrown("the result is null".to_owned())),
        }
    }

    /// Calls a method that returns an array of bytes.
    ///
    /// # Safety
    /// See [`Env::call_void`].
    pub unsafe fn call_bytes(
        self,
        method: Method,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<u8>, Thrown> {
        // SAFETY: the caller guarantees the conditions.
        let array = unsafe { self.call_object(method, arguments)? };
        Ok(self.bytes_of(&array))
    }

    /// Calls a method that returns an integer.
    ///
    /// # Safety
    /// See [`Env::call_void`].
    #[inline(always)]
    pub unsafe fn call_int(self, method: Method, argument: i32) -> Result<i32, Thrown> {
        let values = [jvalue { i: argument }];
        // SAFETY: the caller guarantees the conditions.
        let result = unsafe {
            call!(self, CallStaticIntMethodA, method.class.0, method.id, values.as_ptr())
        };
        self.take_thrown().map_or(Ok(result), Err)
    }

    /// Calls a method that takes an object, an integer and a long, and returns a long.
    ///
    /// # Safety
    /// See [`Env::call_void`].
    #[inline(always)]
    pub unsafe fn call_long(
        self,
        method: Method,
        object: Global,
        int: i32,
        long: i64,
    ) -> Result<i64, Thrown> {
        let values = [jvalue { l: object.0 }, jvalue { i: int }, jvalue { j: long }];
        // SAFETY: the caller guarantees the conditions.
        let result = unsafe {
            call!(self, CallStaticLongMethodA, method.class.0, method.id, values.as_ptr())
        };
        self.take_thrown().map_or(Ok(result), Err)
    }
}

fn values(arguments: &[Argument<'_>]) -> Vec<jvalue> {
    let value = |argument: &Argument<'_>| match *argument {
        Argument::Int(value) => jvalue { i: value },
        Argument::Bool(value) => jvalue { z: value },
        Argument::Long(value) => jvalue { j: value },
        Argument::Object(global) => jvalue { l: global.0 },
        Argument::Local(local) => jvalue { l: local.raw() },
    };
    arguments.iter().map(value).collect()
}
