package dev.millstream.operator.runtime;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** The schedule of a collector, its running call, and its counters. Guarded by the pool's lock. */
final class CollectorTask {
    /** Time that an interrupted call may take to end, and that a stopped collector may take to be closed. */
    static final long GRACE_NS = TimeUnit.SECONDS.toNanos(5);
    /** Maximum time between two interrupts of a call, for code that ignores the first interrupt. */
    private static final long REPEAT_NS = TimeUnit.SECONDS.toNanos(1);

    private static final long PERIOD_MAX_MS = TimeUnit.DAYS.toMillis(365);

    private enum Phase {
        /** Not started, or waiting for the next call. */
        WAITING,
        RUNNING,
        /** Stopped, and waiting for a thread that closes the collector. */
        STOPPED,
        CLOSING
    }

    final int id;
    final LoadedCollector collector;
    private final long graceNs;
    private final long repeatNs;
    private final long intervalNs;
    private final long timeoutNs;
    /** Created in advance, because there may be no memory when the text is needed. */
    private final String timeoutText;
    private final CollectorBackoff backoff = new CollectorBackoff();
    private final AtomicLong events = new AtomicLong();

    private Phase phase = Phase.WAITING;
    private boolean isStarted;
    private long handle;
    /** Time at which the next call is due, or since which the collector waits to be closed. */
    private long dueNs;
    private boolean isStopping;

    private Thread thread;
    private CallEvents call;
    private long beganNs;
    private boolean isInterrupted;
    /** How long the call had run when it was interrupted. */
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

    /** Returns whether a thread should take this task. */
    boolean isDue(long nowNs) {
        return phase == Phase.STOPPED || isStarted && phase == Phase.WAITING && dueNs - nowNs <= 0;
    }

    /** Returns whether this task goes before another task that is due. */
    boolean isBefore(CollectorTask other) {
        boolean isSameKind = isStopped() == other.isStopped();
        return isSameKind ? dueNs - other.dueNs < 0 : isStopped();
    }

    /** Returns how long this task has been due, in nanoseconds. */
    long lateNs(long nowNs) {
        return nowNs - dueNs;
    }

    /** Starts calling the collector. */
    void start(long newHandle, long nowNs) {
        handle = newHandle;
        dueNs = nowNs;
        isStarted = true;
    }

    /** Begins to call or to close the collector. */
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
     * Returns a record of the call, which is about to end.
     *
     * @param failure the reason why the call failed, or null
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
     * Ends a call. Called on the call's thread.
     *
     * @param failure the reason why the call failed, or null
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

    /** Schedules the collector to be closed. No call may be running. */
    void close(long nowNs) {
        isStopping = true;
        phase = Phase.STOPPED;
        dueNs = nowNs;
    }

    /** Interrupts the running call. No other call begins afterwards. */
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

    /** Returns how long the call has run, excluding the time during which it waited for the agent. */
    private long ranNs(long nowNs) {
        return nowNs - beganNs - call.waitedNs(nowNs);
    }

    /**
     * Interrupts a call that takes too long, and detects a call that hangs.
     *
     * @return the number of nanoseconds until the next check
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
            return "hangs: close does not return";
        }
        String why = isStopping ? "the source is stopping, but the call" : "the call " + timeoutText + " and";
        return "hangs: " + why + " ignores the interrupt";
    }

    private String state(long nowNs) {
        if (isRunning()) {
            return isHanging ? "hangs" : call.isBlocked() ? "blocked" : "running";
        }
        return isDue(nowNs) ? "queued" : "waiting";
    }

    /** Returns the collector's counters and state. */
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
