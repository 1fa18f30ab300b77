package dev.millstream.operator.runtime;

import java.lang.reflect.Field;
import java.lang.reflect.Method;

/** Memory outside the heap, for callers without an agent. */
final class NativeBlock implements AutoCloseable {
    private static final long ALIGNMENT = 8;

    private final long address;
    private final long bytes;
    private final AutoCloseable owner;

    private NativeBlock(long address, long bytes, AutoCloseable owner) {
        this.address = address;
        this.bytes = bytes;
        this.owner = owner;
    }

    /** Allocates memory, which is not cleared. */
    static NativeBlock allocate(long bytes) {
        try {
            return Runtime.version().feature() >= 22 ? allocateForeign(bytes) : allocateUnsafe(bytes);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static NativeBlock allocateForeign(long bytes) throws ReflectiveOperationException {
        Class<?> type = Class.forName("java.lang.foreign.Arena");
        AutoCloseable arena = (AutoCloseable) type.getMethod("ofShared").invoke(null);
        Object segment = type.getMethod("allocate", long.class, long.class).invoke(arena, Math.max(bytes, 1), ALIGNMENT);
        long address = (long) Class.forName("java.lang.foreign.MemorySegment").getMethod("address").invoke(segment);
        return new NativeBlock(address, bytes, arena);
    }

    private static NativeBlock allocateUnsafe(long bytes) throws ReflectiveOperationException {
        Class<?> type = Class.forName("sun.misc.Unsafe");
        Field field = type.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Object unsafe = field.get(null);
        long address = (long) type.getMethod("allocateMemory", long.class).invoke(unsafe, Math.max(bytes, 1));
        Method free = type.getMethod("freeMemory", long.class);
        return new NativeBlock(address, bytes, () -> free.invoke(unsafe, address));
    }

    long address() {
        return address;
    }

    long bytes() {
        return bytes;
    }

    @Override
    public void close() {
        try {
            owner.close();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
