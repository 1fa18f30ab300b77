package dev.millstream.operator.runtime;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * The watchdog's view of a worker.
 *
 * <p>An interrupt must hit only the row that takes too long. The watchdog announces the row as {@code target}, and interrupts the thread at
 * its next check if the worker is still at that row. The worker first writes its new row, then reads {@code target}. Because milliseconds
 * pass between two checks, at least one side sees the other side's write. A row therefore costs only an opaque write and an opaque read.
 */
final class RowWatch {
    private static final long NONE = 0;
    /** Minimum time between two interrupts of a row, for code that ignores the first interrupt. */
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
    /** Number of rows that have begun; used only by the worker. */
    private long rows;
    /** The running row, or NONE. */
    private long current;
    /** The row that the watchdog will interrupt or has interrupted, or NONE. */
    private long target;
    /** Whether the thread was interrupted for the target; guarded by this object. */
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

    /** Ends a call, and clears the thread's interrupt. */
    void endCall() {
        endRow();
        timeoutNs = 0;
        Thread.interrupted();
    }

    /** Begins a row, and clears the thread's interrupt, even if the operator has set it. */
    void beginRow() {
        Thread.interrupted();
        CURRENT.setOpaque(this, ++rows);
        if ((long) TARGET.getOpaque(this) != NONE) {
            settle();
        }
    }

    /** Ends a row. Returns whether the row was interrupted. */
    boolean endRow() {
        CURRENT.setVolatile(this, NONE);
        return (long) TARGET.getVolatile(this) != NONE && settle();
    }

    /** Withdraws an interrupt of an earlier row. Returns whether there was an interrupt. */
    private synchronized boolean settle() {
        boolean wasInterrupted = isInterrupted;
        isInterrupted = false;
        TARGET.setVolatile(this, NONE);
        if (wasInterrupted) {
            Thread.interrupted();
        }
        return wasInterrupted;
    }

    /** Returns whether a call with a timeout is running. */
    boolean isActive() {
        return timeoutNs > 0;
    }

    /**
     * Interrupts a row that takes too long. Called by the watchdog.
     *
     * @return whether there was a call with a timeout since the previous check
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

    /** Withdraws the announcement for a row that has ended. */
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
