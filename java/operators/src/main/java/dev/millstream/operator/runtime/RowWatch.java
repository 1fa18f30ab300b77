package dev.millstream.operator.runtime;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * What the watchdog sees of a worker.
 *
 * <p>An interrupt must hit only the row that takes too long. The watchdog announces it as {@code target}, and interrupts at its next look
 * if the worker is still at that row. The worker first writes its new row, then reads {@code target}; as milliseconds pass between two
 * looks, at least one of both sees what the other wrote. So a row costs an opaque write and an opaque read.
 */
final class RowWatch {
    private static final long NONE = 0;
    /** Shortest time between two interrupts of a row, for code that ignores the first one. */
    private static final long REPEAT_NS = 100_000_000;
    private static final VarHandle CURRENT;
    private static final VarHandle TARGET;

    static {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            CURRENT = lookup.findVarHandle(RowWatch.class, "current", long.class);
            TARGET = lookup.findVarHandle(RowWatch.class, "target", long.class);
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    private final Thread thread = Thread.currentThread();
    /** Number of rows that began; used only by the worker. */
    private long rows;
    /** The row that runs, or NONE. */
    private long current;
    /** The row that the watchdog is going to interrupt or has interrupted, or NONE. */
    private long target;
    /** Whether the thread was interrupted for the target; guarded by this. */
    private boolean isInterrupted;
    private volatile long timeoutNs;
    private volatile long calls;

    // Used only by the watchdog.
    private long seenCalls;
    private long seenRow;
    private long seenNs;

    void beginCall(long newTimeoutNs) {
        if (newTimeoutNs > 0) {
            calls = calls + 1;
            timeoutNs = newTimeoutNs;
        }
    }

    /** Ends a call. The thread is not interrupted afterwards. */
    void endCall() {
        endRow();
        timeoutNs = 0;
        Thread.interrupted();
    }

    /** Begins a row. The thread is not interrupted, also if the operator did that itself. */
    void beginRow() {
        Thread.interrupted();
        CURRENT.setOpaque(this, ++rows);
        if ((long) TARGET.getOpaque(this) != NONE) {
            settle();
        }
    }

    /** Returns whether the row that ends was interrupted. */
    boolean endRow() {
        CURRENT.setVolatile(this, NONE);
        return (long) TARGET.getVolatile(this) != NONE && settle();
    }

    /** Takes back an interrupt of an earlier row. Returns whether there was one. */
    private synchronized boolean settle() {
        boolean wasInterrupted = isInterrupted;
        isInterrupted = false;
        TARGET.setVolatile(this, NONE);
        if (wasInterrupted) {
            Thread.interrupted();
        }
        return wasInterrupted;
    }

    /** Returns whether a call runs that has a timeout. */
    boolean isActive() {
        return timeoutNs > 0;
    }

    /**
     * Interrupts a row that takes too long; called by the watchdog.
     *
     * @return whether there was a call with a timeout since the last time
     */
    boolean look(long nowNs) {
        long timeout = timeoutNs;
        long begun = calls;
        boolean isBusy = timeout > 0 || begun != seenCalls;
        seenCalls = begun;
        long row = (long) CURRENT.getVolatile(this);
        if (row == NONE || row != seenRow || timeout == 0) {
            seenRow = row;
            seenNs = nowNs;
            disarm(row);
        } else if ((long) TARGET.getVolatile(this) == row) {
            interrupt(row, nowNs, timeout);
        } else if (nowNs - seenNs >= timeout) {
            TARGET.setVolatile(this, row);
        }
        return isBusy;
    }

    /** Takes back the announcement for a row that has ended. */
    private synchronized void disarm(long row) {
        if (target != row && !isInterrupted) {
            TARGET.setVolatile(this, NONE);
        }
    }

    private synchronized void interrupt(long row, long nowNs, long timeout) {
        boolean isCurrent = target == row && (long) CURRENT.getVolatile(this) == row;
        boolean isDue = !isInterrupted || nowNs - seenNs >= Math.max(timeout, REPEAT_NS);
        if (isCurrent && isDue) {
            isInterrupted = true;
            seenNs = nowNs;
            thread.interrupt();
        }
    }
}
