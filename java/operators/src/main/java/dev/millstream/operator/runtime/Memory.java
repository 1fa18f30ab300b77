package dev.millstream.operator.runtime;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.nio.ByteOrder;
import java.util.Locale;

/**
 * Reads and writes memory at absolute addresses.
 *
 * <p>The handles use {@code java.lang.foreign} on Java 22 or later, and {@code sun.misc.Unsafe} on earlier versions. The handles are
 * constants, so the JIT compiles a call to a single move. Nothing is checked.
 */
final class Memory {
    /** Whether the first byte of a word in memory is the lowest byte. */
    static final boolean IS_LITTLE_ENDIAN = ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN;

    private static final MethodHandle GET_BYTE;
    private static final MethodHandle GET_INT;
    private static final MethodHandle GET_LONG;
    private static final MethodHandle PUT_BYTE;
    private static final MethodHandle PUT_INT;
    private static final MethodHandle PUT_LONG;
    private static final MethodHandle READ_BYTES;
    private static final MethodHandle WRITE_BYTES;
    private static final MethodHandle WRITE_LONGS;

    static {
        try {
            Access access = Runtime.version().feature() >= 22 ? new Foreign() : new Unsafe();
            GET_BYTE = access.get(byte.class);
            GET_INT = access.get(int.class);
            GET_LONG = access.get(long.class);
            PUT_BYTE = access.put(byte.class);
            PUT_INT = access.put(int.class);
            PUT_LONG = access.put(long.class);
            READ_BYTES = access.read();
            WRITE_BYTES = access.write(byte[].class);
            WRITE_LONGS = access.write(long[].class);
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    private Memory() {}

    static byte getByte(long address) {
        try {
            return (byte) GET_BYTE.invokeExact(address);
        } catch (Throwable error) {
            throw rethrown(error);
        }
    }

    static int getInt(long address) {
        try {
            return (int) GET_INT.invokeExact(address);
        } catch (Throwable error) {
            throw rethrown(error);
        }
    }

    static long getLong(long address) {
        try {
            return (long) GET_LONG.invokeExact(address);
        } catch (Throwable error) {
            throw rethrown(error);
        }
    }

    static void putByte(long address, byte value) {
        try {
            PUT_BYTE.invokeExact(address, value);
        } catch (Throwable error) {
            throw rethrown(error);
        }
    }

    static void putInt(long address, int value) {
        try {
            PUT_INT.invokeExact(address, value);
        } catch (Throwable error) {
            throw rethrown(error);
        }
    }

    static void putLong(long address, long value) {
        try {
            PUT_LONG.invokeExact(address, value);
        } catch (Throwable error) {
            throw rethrown(error);
        }
    }

    /** Copies memory into the first bytes of an array. */
    static void read(long address, byte[] to, int length) {
        try {
            READ_BYTES.invokeExact(address, to, length);
        } catch (Throwable error) {
            throw rethrown(error);
        }
    }

    /** Copies the first bytes of an array to memory. */
    static void write(byte[] from, int length, long address) {
        try {
            WRITE_BYTES.invokeExact(from, length, address);
        } catch (Throwable error) {
            throw rethrown(error);
        }
    }

    /** Copies the first words of an array to memory. */
    static void write(long[] from, int length, long address) {
        try {
            WRITE_LONGS.invokeExact(from, length, address);
        } catch (Throwable error) {
            throw rethrown(error);
        }
    }

    /** Returns a copy of memory. */
    static byte[] bytes(long address, long length) {
        byte[] bytes = new byte[Math.toIntExact(length)];
        read(address, bytes, bytes.length);
        return bytes;
    }

    private static Error rethrown(Throwable error) {
        if (error instanceof Error known) {
            return known;
        }
        throw (RuntimeException) error;
    }

    /** Creates handles. */
    private interface Access {
        /** Returns a handle (long address) to a value. */
        MethodHandle get(Class<?> type) throws ReflectiveOperationException;

        /** Returns a handle (long address, value). */
        MethodHandle put(Class<?> type) throws ReflectiveOperationException;

        /** Returns a handle (long address, byte[] to, int length). */
        MethodHandle read() throws ReflectiveOperationException;

        /** Returns a handle (array from, int length, long address). */
        MethodHandle write(Class<?> array) throws ReflectiveOperationException;
    }

    /** Access through a segment that covers all memory. */
    private static final class Foreign implements Access {
        private static final String PACKAGE = "java.lang.foreign.";

        private final MethodHandles.Lookup lookup = MethodHandles.lookup();
        private final Class<?> segmentType = Class.forName(PACKAGE + "MemorySegment");
        private final Class<?> layoutType = Class.forName(PACKAGE + "ValueLayout");
        private final Object all;

        Foreign() throws ReflectiveOperationException {
            Object none = segmentType.getField("NULL").get(null);
            all = segmentType.getMethod("reinterpret", long.class).invoke(none, Long.MAX_VALUE);
        }

        private Object layout(Class<?> type) throws ReflectiveOperationException {
            String suffix = type == byte.class ? "" : "_UNALIGNED";
            return layoutType.getField("JAVA_" + type.getName().toUpperCase(Locale.ROOT) + suffix).get(null);
        }

        private static Class<?> layoutType(Class<?> type) throws ReflectiveOperationException {
            String name = type.getName();
            return Class.forName(PACKAGE + "ValueLayout$Of" + Character.toUpperCase(name.charAt(0)) + name.substring(1));
        }

        @Override
        public MethodHandle get(Class<?> type) throws ReflectiveOperationException {
            MethodType signature = MethodType.methodType(type, layoutType(type), long.class);
            return MethodHandles.insertArguments(lookup.findVirtual(segmentType, "get", signature), 0, all, layout(type));
        }

        @Override
        public MethodHandle put(Class<?> type) throws ReflectiveOperationException {
            MethodType signature = MethodType.methodType(void.class, layoutType(type), long.class, type);
            return MethodHandles.insertArguments(lookup.findVirtual(segmentType, "set", signature), 0, all, layout(type));
        }

        @Override
        public MethodHandle read() throws ReflectiveOperationException {
            MethodType signature =
                    MethodType.methodType(void.class, segmentType, layoutType, long.class, Object.class, int.class, int.class);
            MethodHandle copy = lookup.findStatic(segmentType, "copy", signature);
            MethodHandle bound = MethodHandles.insertArguments(copy, 0, all, layout(byte.class));
            return MethodHandles.insertArguments(bound, 2, 0)
                    .asType(MethodType.methodType(void.class, long.class, byte[].class, int.class));
        }

        @Override
        public MethodHandle write(Class<?> array) throws ReflectiveOperationException {
            MethodType signature =
                    MethodType.methodType(void.class, Object.class, int.class, segmentType, layoutType, long.class, int.class);
            MethodHandle copy = lookup.findStatic(segmentType, "copy", signature);
            MethodHandle bound = MethodHandles.insertArguments(copy, 2, all, layout(array.getComponentType()));
            MethodHandle first = MethodHandles.insertArguments(bound, 1, 0);
            MethodType order = MethodType.methodType(void.class, Object.class, int.class, long.class);
            return MethodHandles.permuteArguments(first, order, 0, 2, 1)
                    .asType(MethodType.methodType(void.class, array, int.class, long.class));
        }
    }

    /** Access through Unsafe. */
    private static final class Unsafe implements Access {
        private final MethodHandles.Lookup lookup = MethodHandles.lookup();
        private final Object unsafe;

        Unsafe() throws ReflectiveOperationException {
            Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
            field.setAccessible(true);
            unsafe = field.get(null);
        }

        private MethodHandle bound(String name, MethodType signature) throws ReflectiveOperationException {
            return lookup.findVirtual(unsafe.getClass(), name, signature).bindTo(unsafe);
        }

        private static String suffix(Class<?> type) {
            String name = type.getName();
            return Character.toUpperCase(name.charAt(0)) + name.substring(1);
        }

        private MethodHandle copy() throws ReflectiveOperationException {
            MethodType signature =
                    MethodType.methodType(void.class, Object.class, long.class, Object.class, long.class, long.class);
            return bound("copyMemory", signature);
        }

        private int base(Class<?> array) throws ReflectiveOperationException {
            return (int) unsafe.getClass().getMethod("arrayBaseOffset", Class.class).invoke(unsafe, array);
        }

        @Override
        public MethodHandle get(Class<?> type) throws ReflectiveOperationException {
            return bound("get" + suffix(type), MethodType.methodType(type, long.class));
        }

        @Override
        public MethodHandle put(Class<?> type) throws ReflectiveOperationException {
            return bound("put" + suffix(type), MethodType.methodType(void.class, long.class, type));
        }

        @Override
        public MethodHandle read() throws ReflectiveOperationException {
            MethodType signature = MethodType.methodType(
                    void.class, MethodHandle.class, long.class, long.class, byte[].class, int.class);
            MethodHandle handle = MethodHandles.insertArguments(lookup.findStatic(Unsafe.class, "read", signature), 0, copy());
            return MethodHandles.insertArguments(handle, 0, (long) base(byte[].class));
        }

        @Override
        public MethodHandle write(Class<?> array) throws ReflectiveOperationException {
            MethodType signature = MethodType.methodType(
                    void.class, MethodHandle.class, long.class, int.class, Object.class, int.class, long.class);
            MethodHandle handle = lookup.findStatic(Unsafe.class, "write", signature);
            int shift = array == long[].class ? 3 : 0;
            return MethodHandles.insertArguments(handle, 0, copy(), (long) base(array), shift)
                    .asType(MethodType.methodType(void.class, array, int.class, long.class));
        }

        /** Copies memory into an array. {@link #read()} binds this method. */
        static void read(MethodHandle copy, long base, long address, byte[] to, int length) throws Throwable {
            copy.invokeExact((Object) null, address, (Object) to, base, (long) length);
        }

        /** Copies an array to memory. {@link #write} binds this method. */
        static void write(MethodHandle copy, long base, int shift, Object from, int length, long address) throws Throwable {
            copy.invokeExact(from, base, (Object) null, address, (long) length << shift);
        }
    }
}
