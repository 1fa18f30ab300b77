package dev.millstream.operator.runtime;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The threads that call collectors.
 *
 * <p>A thread takes the collector that is due first. A thread whose call hangs stays with the call, and counts toward the maximum. The pool
 * starts one thread beyond the maximum only to close a stopped collector, so that a hanging call does not keep other sources from stopping.
 */
final class CollectorPool {
    private static final long IDLE_NS = TimeUnit.SECONDS.toNanos(30);
    /** Time until the pool retries to start a thread after a failure. */
    private static final long RETRY_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long SLEEP_NS = TimeUnit.HOURS.toNanos(1);
    /** Exceeds the number of calls that collectors with an interval complete in the second between two polls of the agent. */
    private static final int CALLS_MAX = 1024;

    private final Delivery delivery;
    private final long graceNs;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition work = lock.newCondition();
    private final Condition clock = lock.newCondition();
    private final List<CollectorTask> tasks = new ArrayList<>();
    private final AtomicLong started = new AtomicLong();
    private final Recent calls = new Recent(CALLS_MAX);
    private int nextId;
    private int threadsMax = CollectorSpec.THREADS_DEFAULT;
    private int threads;
    private int idle;
    private boolean hasClock;
    /** Time of the clock thread's next check. */
    private long lookNs;

    CollectorPool(Delivery delivery) {
        this(delivery, CollectorTask.GRACE_NS);
    }

    /**
     * Creates a pool without threads.
     *
     * @param graceNs the time that an interrupted call may take to end
     */
    CollectorPool(Delivery delivery, long graceNs) {
        this.delivery = delivery;
        this.graceNs = graceNs;
    }

    /** Adds a collector, which is not called yet. Returns its id. */
    int add(LoadedCollector collector) {
        lock.lock();
        try {
            startClock();
            threadsMax = collector.spec().threads();
            work.signalAll();
            CollectorTask task = new CollectorTask(nextId, collector, graceNs);
            tasks.add(task);
            nextId++;
            return task.id;
        } finally {
            lock.unlock();
        }
    }

    /** Starts calling a collector. */
    void start(int id, long handle) {
        lock.lock();
        try {
            CollectorTask task = find(id);
            if (task != null && !task.isStarted() && !task.isStopping()) {
                long now = System.nanoTime();
                task.start(handle, now);
                dispatch(now);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Stops calling a collector. Does not wait for a running call. */
    void stop(int id) {
        CollectorTask ended = null;
        lock.lock();
        try {
            CollectorTask task = find(id);
            if (task == null || task.isStopping()) {
                return;
            }
            if (task.isRunning()) {
                task.stop(System.nanoTime());
                lookIn(0);
            } else {
                ended = close(task);
            }
        } finally {
            lock.unlock();
        }
        release(ended);
    }

    /** Returns the threads and the collectors, and the calls that have ended since the previous poll. */
    Map<String, Object> stats() {
        lock.lock();
        try {
            long now = System.nanoTime();
            Map<String, Object> stats = new LinkedHashMap<>();
            stats.put("threads_max", threadsMax);
            stats.put("threads", threads);
            stats.put("collectors", tasks.stream().map(task -> task.stats(now)).toList());
            calls.moveTo(stats, "calls");
            return stats;
        } finally {
            lock.unlock();
        }
    }

    private CollectorTask find(int id) {
        for (CollectorTask task : tasks) {
            if (task.id == id) {
                return task;
            }
        }
        return null;
    }

    /** Schedules a collector to be closed. Returns the collector if it need not be closed; the caller then releases it without the lock. */
    private CollectorTask close(CollectorTask task) {
        long now = System.nanoTime();
        task.close(now);
        if (!task.collector.isOpen()) {
            tasks.remove(task);
            return task;
        }
        dispatch(now);
        lookIn(graceNs);
        return null;
    }

    private void release(CollectorTask ended) {
        if (ended == null) {
            return;
        }
        try {
            ended.collector.release();
        } catch (Throwable error) {
            log(ended, error);
        }
        try {
            if (ended.isStarted()) {
                delivery.stopped(ended.handle());
            }
        } catch (Throwable error) {
            log(ended, error);
        }
    }

    private static void log(CollectorTask task, Throwable error) {
        System.err.println("collector " + task.collector.component() + ": " + Thrown.text(error));
    }

    /** Returns the collector that a thread should take, or null if there is none. */
    private CollectorTask due(long now) {
        CollectorTask first = null;
        for (CollectorTask task : tasks) {
            if (task.isDue(now) && (first == null || task.isBefore(first))) {
                first = task;
            }
        }
        return first;
    }

    /** Wakes or starts a thread if a collector is due. */
    private void dispatch(long now) {
        CollectorTask first = due(now);
        if (first == null) {
            return;
        }
        if (idle > 0) {
            work.signal();
        } else if (threads < threadsMax || first.isStopped() && threads == threadsMax) {
            startThread();
        }
    }

    private void startThread() {
        threads++;
        try {
            thread(this::work, "collector-" + started.incrementAndGet()).start();
        } catch (Throwable error) {
            // There is no memory for a stack. The clock thread retries.
            threads--;
            lookIn(RETRY_NS);
        }
    }

    private void startClock() {
        if (!hasClock) {
            WarmUp.runCollector();
            lookNs = System.nanoTime() + SLEEP_NS;
            thread(this::watch, "collector-clock").start();
            hasClock = true;
        }
    }

    private static Thread thread(Runnable task, String name) {
        // The new thread does not inherit the thread-local values of a collector's thread.
        Thread thread = new Thread(null, task, name, 0, false);
        thread.setContextClassLoader(CollectorPool.class.getClassLoader());
        thread.setDaemon(true);
        return thread;
    }

    private void work() {
        boolean isNeeded = true;
        while (isNeeded) {
            try {
                isNeeded = runNext();
            } catch (Throwable error) {
                // There is no memory. The thread continues.
                LockSupport.parkNanos(PAUSE_NS);
            }
        }
    }

    /** Waits for a collector, and calls or closes it. Returns false if the thread should exit. */
    private boolean runNext() throws InterruptedException {
        CollectorTask task;
        CallEvents events;
        boolean isCall;
        lock.lock();
        try {
            task = take();
            if (task == null) {
                threads--;
                dispatch(System.nanoTime());
                return false;
            }
            isCall = !task.isStopped();
            long now = System.nanoTime();
            events = task.begin(delivery, now);
            lookIn(task.look(now));
            dispatch(now);
        } finally {
            lock.unlock();
        }
        if (isCall) {
            call(task, events);
        } else {
            closeNow(task);
        }
        return true;
    }

    /** Waits for a collector that is due. Returns null if the thread is not needed. */
    private CollectorTask take() throws InterruptedException {
        boolean isIdle = false;
        while (true) {
            CollectorTask first = due(System.nanoTime());
            boolean isExtra = threads > threadsMax;
            if (first != null && (!isExtra || first.isStopped())) {
                return first;
            }
            if (isExtra || isIdle) {
                return null;
            }
            idle++;
            try {
                isIdle = work.awaitNanos(IDLE_NS) <= 0;
            } finally {
                idle--;
            }
        }
    }

    private void call(CollectorTask task, CallEvents events) {
        String failure = null;
        try {
            task.collector.call(events);
        } catch (Throwable error) {
            failure = text(task, error);
        }
        try {
            events.finish();
        } catch (Throwable error) {
            failure = failure == null ? text(task, error) : failure;
        }
        release(end(task, failure, events.added()));
    }

    private static String text(CollectorTask task, Throwable error) {
        try {
            return task.collector.text(error);
        } catch (Throwable again) {
            return "an exception that cannot be converted to text";
        }
    }

    private CollectorTask end(CollectorTask task, String failure, long added) {
        lock.lock();
        try {
            long now = System.nanoTime();
            note(task, failure, now);
            task.end(failure, added, now);
            if (task.isStopping()) {
                return close(task);
            }
            if (!task.isDue(now)) {
                lookIn(-task.lateNs(now));
            }
            return null;
        } finally {
            lock.unlock();
        }
    }

    private void note(CollectorTask task, String failure, long now) {
        try {
            calls.add(task.ended(failure, now));
        } catch (Throwable error) {
            // There is no memory, but the call must end regardless.
            calls.omit();
        }
    }

    private void closeNow(CollectorTask task) {
        try {
            task.collector.close();
        } finally {
            lock.lock();
            try {
                Thread.interrupted();
                tasks.remove(task);
            } finally {
                lock.unlock();
            }
            release(task);
        }
    }

    /** Schedules the clock thread's next check after the given time at the latest. */
    private void lookIn(long ns) {
        long at = System.nanoTime() + Math.min(ns, SLEEP_NS);
        if (at - lookNs < 0) {
            lookNs = at;
            clock.signal();
        }
    }

    private void watch() {
        while (true) {
            try {
                tick().forEach(this::release);
            } catch (Throwable error) {
                // There is no memory. The clock thread continues.
                LockSupport.parkNanos(PAUSE_NS);
            }
        }
    }

    /** Waits until a check is due, and performs the check. Returns the collectors that end without being closed. */
    private List<CollectorTask> tick() throws InterruptedException {
        lock.lock();
        try {
            long waitNs = lookNs - System.nanoTime();
            if (waitNs > 0) {
                clock.awaitNanos(waitNs);
                return List.of();
            }
            long now = System.nanoTime();
            long nextNs = SLEEP_NS;
            List<CollectorTask> unclosed = new ArrayList<>();
            for (CollectorTask task : tasks) {
                nextNs = Math.min(nextNs, lookIn(task, now));
                if (task.isStopped() && task.lateNs(now) >= graceNs) {
                    unclosed.add(task);
                }
            }
            tasks.removeAll(unclosed);
            lookNs = now + nextNs;
            dispatch(now);
            return unclosed;
        } finally {
            lock.unlock();
        }
    }

    /** Checks a collector. Returns the number of nanoseconds until the next check. */
    private long lookIn(CollectorTask task, long now) {
        if (task.isRunning()) {
            return task.look(now);
        }
        if (task.isStopped()) {
            return Math.max(graceNs - task.lateNs(now), 1);
        }
        // Check a due collector again, because starting a thread may have failed.
        return task.isDue(now) ? RETRY_NS : task.isStarted() ? -task.lateNs(now) : SLEEP_NS;
    }
}
