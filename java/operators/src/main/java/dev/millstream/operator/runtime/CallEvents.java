package dev.millstream.operator.runtime;

import dev.millstream.collector.CollectorStoppedException;
import dev.millstream.collector.Events;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The events of one collector call.
 *
 * <p>The methods are synchronized because a thread that the collector has started may still use them when the call ends. After
 * {@link #finish}, nothing is delivered.
 */
final class CallEvents implements Events {
    static final String STOPPING = "the source is stopping";

    private static final String ENDED = "the call has ended";

    private final Delivery delivery;
    private final long handle;
    private final AtomicLong total;
    private final Chunk chunk = new Chunk();
    private NativeBlock block;
    private long added;
    /** Reason why no event can be added; null if events can be added. */
    private volatile String refusal;
    private volatile boolean isBlocked;
    private volatile long blockedSinceNs;
    private volatile long waitedNs;
    private volatile long taken;
    private volatile long takenBytes;

    /**
     * Creates the events of a call.
     *
     * @param total counts the events that the agent has accepted
     */
    CallEvents(Delivery delivery, long handle, AtomicLong total) {
        this.delivery = delivery;
        this.handle = handle;
        this.total = total;
    }

    /** Rejects additional events. Any thread may call this method. */
    void refuse(String why) {
        refusal = why;
    }

    /** Returns whether the call waits for the agent. */
    boolean isBlocked() {
        return isBlocked;
    }

    /** Returns how long the call has waited for the agent. */
    long waitedNs(long nowNs) {
        long waited = waitedNs;
        return isBlocked ? waited + nowNs - blockedSinceNs : waited;
    }

    /** Returns the number of added events. */
    synchronized long added() {
        return added;
    }

    /** Returns the number of events that the agent has accepted. */
    long taken() {
        return taken;
    }

    /** Returns the bytes of the accepted events' messages and fields. */
    long takenBytes() {
        return takenBytes;
    }

    @Override
    public void add(String message) {
        add(message, Map.of());
    }

    @Override
    public synchronized void add(String message, Map<String, ?> fields) {
        check();
        chunk.add(message, fields);
        added++;
        if (chunk.isFull()) {
            send();
        }
    }

    @Override
    public synchronized void flush() {
        check();
        send();
    }

    private void check() {
        String why = refusal;
        if (why != null) {
            throw new CollectorStoppedException(why);
        }
    }

    /** Ends the call, and sends the remaining events unless the source is stopping. */
    synchronized void finish() {
        try {
            if (!STOPPING.equals(refusal)) {
                send();
            }
        } catch (CollectorStoppedException stopping) {
            // The remaining events are lost with the source.
        } finally {
            refusal = ENDED;
            chunk.clear();
            free();
        }
    }

    private void send() {
        int events = chunk.events();
        if (events == 0) {
            return;
        }
        reserve(chunk.used());
        Memory.write(chunk.bytes(), chunk.used(), block.address());
        int bytes = chunk.used();
        chunk.clear();
        if (deliver(bytes, events) != Delivery.TAKEN) {
            refusal = STOPPING;
            throw new CollectorStoppedException(STOPPING);
        }
        total.addAndGet(events);
        taken += events;
        takenBytes += bytes - (long) events * ChunkLayout.EVENT_HEADER_BYTES;
    }

    private int deliver(int bytes, int events) {
        blockedSinceNs = System.nanoTime();
        isBlocked = true;
        try {
            return delivery.deliver(handle, block.address(), bytes, events);
        } finally {
            waitedNs = waitedNs + System.nanoTime() - blockedSinceNs;
            isBlocked = false;
        }
    }

    private void reserve(int bytes) {
        if (block == null || block.bytes() < bytes) {
            free();
            block = NativeBlock.allocate(bytes);
        }
    }

    private void free() {
        NativeBlock freed = block;
        block = null;
        if (freed != null) {
            freed.close();
        }
    }
}
