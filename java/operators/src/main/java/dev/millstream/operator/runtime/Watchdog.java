package dev.millstream.operator.runtime;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;

/** Interrupts rows that take too long. The watchdog's thread sleeps while no operator with a timeout runs. */
final class Watchdog {
    private static final long LOOK_NS = 4_000_000;
    /** Number of checks without a call before the thread sleeps, so that short calls do not wake the thread each time. */
    private static final int IDLE_LOOKS = 25;

    private final List<RowWatch> watches = new CopyOnWriteArrayList<>();
    private final Thread thread = new Thread(this::run, "jvm-watchdog");
    private volatile boolean isAsleep;

    void start() {
        thread.setDaemon(true);
        thread.start();
    }

    void add(RowWatch watch) {
        watches.add(watch);
    }

    void remove(RowWatch watch) {
        watches.remove(watch);
    }

    /** Wakes the thread if it sleeps. Called after a call has begun. */
    void wake() {
        if (isAsleep) {
            LockSupport.unpark(thread);
        }
    }

    private void run() {
        int idleLooks = 0;
        while (true) {
            long now = System.nanoTime();
            boolean isBusy = false;
            for (RowWatch watch : watches) {
                isBusy |= watch.look(now);
            }
            idleLooks = isBusy ? 0 : idleLooks + 1;
            if (idleLooks < IDLE_LOOKS) {
                LockSupport.parkNanos(this, LOOK_NS);
            } else {
                sleep();
                idleLooks = 0;
            }
        }
    }

    private void sleep() {
        isAsleep = true;
        // A call that began before it could see the flag is visible here.
        if (watches.stream().noneMatch(RowWatch::isActive)) {
            LockSupport.park(this);
        }
        isAsleep = false;
    }
}
