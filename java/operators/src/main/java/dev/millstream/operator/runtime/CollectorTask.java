package dev.millstream.operator.runtime;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** The schedule of a collector, its running call, and its counters. Guarded by the lock of the pool. */
final class CollectorTask {
    /** How long a call that was interrupted may take to end, and a stopped collector to be closed. */
    static final long GRACE_NS = TimeUnit.SECONDS.toNanos(5);
    /** Longest time between two interrupts of a call, for code that ignores the first one. */
    private static final long REPEAT_NS = TimeUnit.SECONDS.toNanos(1);

    private static final long PERIOD_MAX_MS = TimeUnit.DAYS.toMillis(365);

    private enum Phase {
        /** Not started, or until the next call. */
        WAITING,
        RUNNING,
        /** Stopped, and waits for a thread that closes it. */
        STOPPED,
        CLOSING
    }

    final int id;
    final LoadedCollector collector;
    private final long graceNs;
    private final long repeatNs;
    private final long intervalNs;
    private final long timeoutNs;
    /** Made in advance: there may be no memory when it is needed. */
    private final String timeoutText;
    private final CollectorBackoff backoff = new CollectorBackoff();
    private final AtomicLong events = new AtomicLong();

    private Phase phase = Phase.WAITING;
    private boolean isStarted;
    private long handle;
    /** When the next call is due, or since when the collector waits to be closed. */
    private long dueNs;
    private boolean isStopping;

    private Thread thread;
    private CallEvents call;
    private long beganNs;
    private boolean isInterrupted;
    /** The time that the call had run when it was interrupted. */
    private long interruptedAfterNs;
    private boolean isHanging;

    private long calls;
    private long failures;
    private long missed;
    private String lastFailure;

    CollectorTask(int id, LoadedCollector collector, long graceNs) {
        this.id = id;
        this.collector = collector;
        this.graceNs = graceNs;
        repeatNs = Math.min(graceNs / 2, REPEAT_NS);
        intervalNs = nanoseconds(collector.spec().intervalMs());
        timeoutNs = nanoseconds(collector.spec().timeoutMs());
        timeoutText = "exceeds its timeout of " + collector.spec().timeoutMs() + " ms";
    }

    private static long nanoseconds(long milliseconds) {
        return TimeUnit.MILLISECONDS.toNanos(Math.min(Math.max(milliseconds, 0), PERIOD_MAX_MS));
    }

    long handle() {
        return handle;
    }

    boolean isStarted() {
        return isStarted;
    }

    boolean isStopped() {
        return phase == Phase.STOPPED;
    }

    boolean isStopping() {
        return isStopping;
    }

    boolean isRunning() {
        return phase == Phase.RUNNING || phase == Phase.CLOSING;
    }

    /** Returns whether a thread should take it. */
    boolean isDue(long nowNs) {
        return phase == Phase.STOPPED || isStarted && phase == Phase.WAITING && dueNs - nowNs <= 0;
    }

    /** Returns whether it goes before another that is due. */
    boolean isBefore(CollectorTask other) {
        boolean isSameKind = isStopped() == other.isStopped();
        return isSameKind ? dueNs - other.dueNs < 0 : isStopped();
    }

    /** Returns for how long it has been due. */
    long lateNs(long nowNs) {
        return nowNs - dueNs;
    }

    /** Begins to call it. */
    void start(long newHandle, long nowNs) {
        handle = newHandle;
        dueNs = nowNs;
        isStarted = true;
    }

    /** Begins a call, or to close it. */
    CallEvents begin(Delivery delivery, long nowNs) {
        call = new CallEvents(delivery, handle, events);
        phase = isStopped() ? Phase.CLOSING : Phase.RUNNING;
        calls += phase == Phase.RUNNING ? 1 : 0;
        thread = Thread.currentThread();
        beganNs = nowNs;
        isInterrupted = false;
        isHanging = false;
        return call;
    }

    /**
     * Returns the call, which is about to end.
     *
     * @param failure why it failed, or null
     */
    CollectorCall ended(String failure, long nowNs) {
        String outcome = outcome(failure != null || isHanging);
        return new CollectorCall(collector.component(), nowNs, nowNs - beganNs, call.taken(), call.takenBytes(), outcome);
    }

    private String outcome(boolean isFailed) {
        if (!isFailed) {
            return CollectorCall.DONE;
        }
        if (isStopping) {
            return CollectorCall.STOPPED;
        }
        return isInterrupted ? CollectorCall.TIMEOUT : CollectorCall.FAILED;
    }

    /**
     * Ends a call; called on its thread.
     *
     * @param failure why it failed, or null
     */
    void end(String failure, long added, long nowNs) {
        if (failure != null && !isStopping && !isHanging) {
            fail(isInterrupted ? timeoutText : failure);
        }
        schedule(failure != null || isHanging, added, nowNs);
        thread = null;
        call = null;
        isHanging = false;
        phase = Phase.WAITING;
        Thread.interrupted();
    }

    private void fail(String failure) {
        failures++;
        lastFailure = failure;
    }

    private void schedule(boolean isFailed, long added, long nowNs) {
        if (intervalNs == 0) {
            dueNs = nowNs + backoff.pauseNs(isFailed, added, nowNs - beganNs);
        } else {
            long passed = Math.max(lateNs(nowNs), 0) / intervalNs;
            missed += passed;
            dueNs += (passed + 1) * intervalNs;
        }
    }

    /** Makes it due to be closed; no call runs. */
    void close(long nowNs) {
        isStopping = true;
        phase = Phase.STOPPED;
        dueNs = nowNs;
    }

    /** Interrupts the call that runs, after which no other begins. */
    void stop(long nowNs) {
        isStopping = true;
        call.refuse(CallEvents.STOPPING);
        interrupt(nowNs);
    }

    private void interrupt(long nowNs) {
        if (!isInterrupted) {
            isInterrupted = true;
            interruptedAfterNs = ranNs(nowNs);
        }
        thread.interrupt();
    }

    /** Returns how long the call has run without the time in which it waited for the agent. */
    private long ranNs(long nowNs) {
        return nowNs - beganNs - call.waitedNs(nowNs);
    }

    /**
     * Interrupts a call that takes too long, and notes that it hangs.
     *
     * @return in how many nanoseconds to look again
     */
    long look(long nowNs) {
        long ranNs = ranNs(nowNs);
        if (!isInterrupted) {
            return lookAtTimeout(ranNs, nowNs);
        }
        thread.interrupt();
        if (!isHanging && ranNs - interruptedAfterNs >= graceNs) {
            isHanging = true;
            fail(hanging());
        }
        return repeatNs;
    }

    private long lookAtTimeout(long ranNs, long nowNs) {
        long limitNs = phase == Phase.CLOSING ? graceNs : timeoutNs;
        if (limitNs == 0) {
            return Long.MAX_VALUE;
        }
        if (ranNs < limitNs) {
            return limitNs - ranNs;
        }
        if (!isStopping) {
            call.refuse(timeoutText);
        }
        interrupt(nowNs);
        return repeatNs;
    }

    private String hanging() {
        if (phase == Phase.CLOSING) {
            return "hangs: its method close does not return";
        }
        String why = isStopping ? "is to stop" : timeoutText;
        return "hangs: " + why + ", and does not end when it is interrupted";
    }

    private String state(long nowNs) {
        if (isRunning()) {
            return isHanging ? "hangs" : call.isBlocked() ? "blocked" : "running";
        }
        return isDue(nowNs) ? "queued" : "waiting";
    }

    /** Returns its counters and its state. */
    Map<String, Object> stats(long nowNs) {
        Map<String, Object> stats = new LinkedHashMap<>();
        stats.put("id", id);
        stats.put("component", collector.component());
        stats.put("calls", calls);
        stats.put("failures", failures);
        stats.put("events", events.get());
        stats.put("missed", missed);
        stats.put("running_ms", isRunning() ? TimeUnit.NANOSECONDS.toMillis(nowNs - beganNs) : -1);
        stats.put("state", state(nowNs));
        stats.put("last_failure", lastFailure);
        return stats;
    }
}
