package dev.millstream.client;

import java.io.IOException;
import java.util.Queue;
import java.util.concurrent.locks.LockSupport;

/** The thread that sends full packets immediately, and sends the other packets and the accumulators at each flush. */
final class Sender implements Runnable {
    /** Maximum pause between connection attempts while the client closes. */
    private static final long CLOSING_PAUSE_NS = 10_000_000;

    /** How long to wait for the thread to exit after an interrupt. */
    private static final long INTERRUPT_TIMEOUT_MS = 1_000;

    private final PacketPool pool;
    private final Queue<Accumulator> accumulators;
    private final Transport<?> transport;
    private final long flushNanos;
    private final int[] full;
    /** The packet for the accumulators, which is not in the pool. */
    private final Packet accumulatorPacket;
    private final Backoff backoff = new Backoff();
    private final Thread thread = new Thread(this, "millstream-metrics");

    private volatile boolean isIdle;
    private volatile boolean isClosing;
    private volatile long deadline;
    private volatile boolean isTerminated;
    /** Numbers of requested and completed flushes. */
    private volatile long requestedFlushes;
    private volatile long completedFlushes;

    // Written only by the sender thread.
    private volatile long sent;
    private volatile long sentPackets;
    private volatile long lost;
    private volatile long connects;
    private volatile long errors;
    /** Number of points in the last packet, while its loss may still be reported. */
    private int unconfirmed;
    /** Whether to resend last values because the agent may have restarted. */
    private boolean isResendDue;

    Sender(PacketPool pool, Queue<Accumulator> accumulators, Transport<?> transport, long flushNanos, int messageBytes) {
        this.pool = pool;
        this.accumulators = accumulators;
        this.transport = transport;
        this.flushNanos = flushNanos;
        full = new int[pool.count()];
        accumulatorPacket = new Packet(IndexStack.NONE, messageBytes);
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    // Called by other threads.

    /** Wakes the sender thread because a packet is full. */
    void wake() {
        // No packet is missed: this thread pushes the packet, then reads isIdle; the sender writes isIdle, then looks for packets.
        if (isIdle) {
            LockSupport.unpark(thread);
        }
    }

    /** Returns whether the sender thread has sent its last packet. Recording threads must then drop their packets. */
    boolean isTerminated() {
        return isTerminated;
    }

    /** Requests a flush. Returns the flush number for {@link #isFlushed}. */
    synchronized long requestFlush() {
        requestedFlushes++;
        LockSupport.unpark(thread);
        return requestedFlushes;
    }

    boolean isFlushed(long flush) {
        return completedFlushes >= flush;
    }

    /** Sends the recorded points within this time and stops the sender thread. Unsent points are lost. */
    void close(long nanos) throws InterruptedException {
        deadline = System.nanoTime() + nanos;
        isClosing = true;
        LockSupport.unpark(thread);
        thread.join(nanos / 1_000_000 + 1);
        // Ends a write that blocks because the agent does not read. A name lookup ignores the interrupt.
        thread.interrupt();
        thread.join(INTERRUPT_TIMEOUT_MS);
    }

    Stats stats(long full, long invalid, long closed) {
        return new Stats(sent, sentPackets, full, lost, invalid, closed, connects, errors);
    }

    // Called by the sender thread.

    @Override
    public void run() {
        long due = System.nanoTime() + flushNanos;
        while (!isClosing) {
            waitForWork(due);
            long flush = requestedFlushes;
            boolean isDue = System.nanoTime() - due >= 0 || flush != completedFlushes;
            sendPending(isDue);
            if (isDue) {
                completedFlushes = flush;
                due = System.nanoTime() + flushNanos;
            }
        }
        sendPending(true);
        transport.close();
        isTerminated = true;
        completedFlushes = Long.MAX_VALUE;
    }

    private void waitForWork(long due) {
        isIdle = true;
        long left = due - System.nanoTime();
        if (left > 0 && !pool.hasFull() && !isClosing && requestedFlushes == completedFlushes) {
            LockSupport.parkNanos(this, left);
        }
        isIdle = false;
    }

    private void sendPending(boolean isDue) {
        if (isDue) {
            pool.markSlotsFull();
        }
        int count = pool.takeFull(full);
        for (int at = 0; at < count; at++) {
            Packet packet = pool.get(full[at]);
            sendWithRetries(packet);
            pool.free(packet);
        }
        if (isDue) {
            sendAccumulators();
        }
        checkLast();
    }

    private void sendAccumulators() {
        boolean resend = isResendDue;
        isResendDue = false;
        for (Accumulator accumulator : accumulators) {
            if (!accumulatorPacket.hasCapacity(Packet.pointBytes(accumulator.series()))) {
                sendWithRetries(accumulatorPacket);
                accumulatorPacket.clear();
            }
            accumulator.flushTo(accumulatorPacket, resend);
        }
        sendWithRetries(accumulatorPacket);
        accumulatorPacket.clear();
    }

    /** Sends a packet, and retries until the close deadline. */
    private void sendWithRetries(Packet packet) {
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
            if (!transport.isOpen()) {
                transport.open();
                isResendDue = connects > 0;
                connects++;
            }
            transport.send(packet);
        } catch (IOException | RuntimeException error) {
            handleError(error);
            return false;
        }
        backoff.reset();
        sent += packet.points();
        sentPackets++;
        unconfirmed = packet.points();
        return true;
    }

    private void handleError(Exception error) {
        errors++;
        if (!isClosing) {
            // Clear an interrupt from other code, which would close each new connection.
            Thread.interrupted();
        }
        if (transport.meansLastLost(error)) {
            sent -= unconfirmed;
            lost += unconfirmed;
        }
        unconfirmed = 0;
        transport.close();
    }

    /** Checks whether the last packet is known to be lost. */
    private void checkLast() {
        try {
            if (transport.isOpen()) {
                transport.check();
            }
        } catch (IOException | RuntimeException error) {
            handleError(error);
        }
        unconfirmed = 0;
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
