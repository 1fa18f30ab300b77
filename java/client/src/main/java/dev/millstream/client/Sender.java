package dev.millstream.client;

import java.io.IOException;
import java.util.Queue;
import java.util.concurrent.locks.LockSupport;

/** The thread that sends: full packets at once, the others and what is held at each flush. */
final class Sender implements Runnable {
    /** Longest pause between tries to connect while the client is being closed. */
    private static final long CLOSING_PAUSE_NS = 10_000_000;

    /** How long it may take to end after an interrupt. */
    private static final long INTERRUPTED_MS = 1_000;

    private final Packets packets;
    private final Queue<Held> held;
    private final Link<?> link;
    private final long flushNanos;
    private final int[] full;
    /** For what is held; it is in no pool. */
    private final Packet own;
    private final Backoff backoff = new Backoff();
    private final Thread thread = new Thread(this, "millstream-metrics");

    private volatile boolean isIdle;
    private volatile boolean isClosing;
    private volatile long deadline;
    private volatile boolean hasEnded;
    /** Flushes asked for, and those that are done. */
    private volatile long asked;
    private volatile long done;

    // Written by the sender only.
    private volatile long sent;
    private volatile long sentPackets;
    private volatile long lost;
    private volatile long connects;
    private volatile long errors;
    /** Points of the packet that was sent last, while an error may still come. */
    private int unsure;
    /** The agent may have forgotten last values. */
    private boolean isAgain;

    Sender(Packets packets, Queue<Held> held, Link<?> link, long flushNanos, int messageBytes) {
        this.packets = packets;
        this.held = held;
        this.link = link;
        this.flushNanos = flushNanos;
        full = new int[packets.count()];
        own = new Packet(Stack.NONE, messageBytes);
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    // Of other threads.

    /** There is a full packet. */
    void wake() {
        // Read behind the push, as the sender looks for packets behind its write.
        if (isIdle) {
            LockSupport.unpark(thread);
        }
    }

    /** Whether it has sent its last packet; then who recorded one meanwhile drops it. */
    boolean hasEnded() {
        return hasEnded;
    }

    /** Sends what there is, and waits until that is done, or for so long. */
    synchronized long ask() {
        asked++;
        LockSupport.unpark(thread);
        return asked;
    }

    boolean isDone(long flush) {
        return done >= flush;
    }

    /** Sends what there is within so many nanoseconds, and ends; what is left then is lost. */
    void close(long nanos) throws InterruptedException {
        deadline = System.nanoTime() + nanos;
        isClosing = true;
        LockSupport.unpark(thread);
        thread.join(nanos / 1_000_000 + 1);
        // An agent that reads nothing holds it up within a write. While it looks up a name it does not hear this.
        thread.interrupt();
        thread.join(INTERRUPTED_MS);
    }

    Stats stats(long full, long invalid, long closed) {
        return new Stats(sent, sentPackets, full, lost, invalid, closed, connects, errors);
    }

    // The thread.

    @Override
    public void run() {
        long due = System.nanoTime() + flushNanos;
        while (!isClosing) {
            idle(due);
            long flush = asked;
            boolean isDue = System.nanoTime() - due >= 0 || flush != done;
            round(isDue);
            if (isDue) {
                done = flush;
                due = System.nanoTime() + flushNanos;
            }
        }
        round(true);
        link.close();
        hasEnded = true;
        done = Long.MAX_VALUE;
    }

    private void idle(long due) {
        isIdle = true;
        long left = due - System.nanoTime();
        if (left > 0 && !packets.hasFull() && !isClosing && asked == done) {
            LockSupport.parkNanos(this, left);
        }
        isIdle = false;
    }

    private void round(boolean isDue) {
        if (isDue) {
            packets.sweep();
        }
        int count = packets.takeFull(full);
        for (int at = 0; at < count; at++) {
            Packet packet = packets.get(full[at]);
            deliver(packet);
            packets.free(packet);
        }
        if (isDue) {
            deliverHeld();
        }
        check();
    }

    private void deliverHeld() {
        boolean again = isAgain;
        isAgain = false;
        for (Held one : held) {
            if (!own.hasRoom(Packet.room(one.series()))) {
                deliver(own);
                own.clear();
            }
            one.addTo(own, again);
        }
        deliver(own);
        own.clear();
    }

    /** Sends a packet, however long that takes; at the end of the client's life it gives up. */
    private void deliver(Packet packet) {
        while (!packet.isEmpty() && !trySend(packet)) {
            if (isClosing && System.nanoTime() - deadline >= 0) {
                lost += packet.points();
                return;
            }
            pause(backoff.next());
        }
    }

    private boolean trySend(Packet packet) {
        try {
            if (!link.isOpen()) {
                link.open();
                isAgain = connects > 0;
                connects++;
            }
            link.send(packet);
        } catch (IOException | RuntimeException error) {
            failed(error);
            return false;
        }
        backoff.reset();
        sent += packet.points();
        sentPackets++;
        unsure = packet.points();
        return true;
    }

    private void failed(Exception error) {
        errors++;
        if (!isClosing) {
            // An interrupt that is not ours would break each connection off.
            Thread.interrupted();
        }
        if (link.losesLast(error)) {
            sent -= unsure;
            lost += unsure;
        }
        unsure = 0;
        link.close();
    }

    /** Asks whether the last packet is known to be lost. */
    private void check() {
        try {
            if (link.isOpen()) {
                link.check();
            }
        } catch (IOException | RuntimeException error) {
            failed(error);
        }
        unsure = 0;
    }

    private void pause(long nanos) {
        long end = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(this, isClosing ? Math.min(left, CLOSING_PAUSE_NS) : left);
            if (isClosing) {
                return;
            }
        }
    }
}
