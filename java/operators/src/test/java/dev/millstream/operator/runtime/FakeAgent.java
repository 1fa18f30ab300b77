package dev.millstream.operator.runtime;

import dev.millstream.operator.runtime.LocalEvents.LocalEvent;
import java.util.ArrayList;
import java.util.List;

/** Accepts the events of collectors as long as it is open. */
final class FakeAgent implements Delivery {
    private static final int STOPPING = 1;

    private final List<LocalEvent> events = new ArrayList<>();
    private final List<Integer> chunks = new ArrayList<>();
    private final List<Long> stopped = new ArrayList<>();
    private boolean isFull;
    private boolean isStopping;

    @Override
    public synchronized int deliver(long handle, long address, long bytes, int count) {
        while (isFull && !isStopping) {
            try {
                wait();
            } catch (InterruptedException ignored) {
                // The agent cannot be interrupted.
                continue;
            }
        }
        if (stopped.contains(handle)) {
            throw new AssertionError("handle " + handle + " is used after its end");
        }
        if (isStopping) {
            return STOPPING;
        }
        List<LocalEvent> read = LocalEvents.read(address, bytes);
        if (read.size() != count) {
            throw new AssertionError(count + " events announced, " + read.size() + " read");
        }
        events.addAll(read);
        chunks.add((int) bytes);
        return TAKEN;
    }

    @Override
    public synchronized void stopped(long handle) {
        stopped.add(handle);
    }

    /** Sets whether the agent stops accepting events. */
    synchronized void full(boolean full) {
        isFull = full;
        notifyAll();
    }

    /** Stops all sources. */
    synchronized void stopSources() {
        isStopping = true;
        notifyAll();
    }

    synchronized List<LocalEvent> events() {
        return List.copyOf(events);
    }

    List<String> messages() {
        return events().stream().map(LocalEvent::message).toList();
    }

    /** Returns the lengths of the accepted chunks. */
    synchronized List<Integer> chunks() {
        return List.copyOf(chunks);
    }

    /** Returns the handles that have stopped. */
    synchronized List<Long> stopped() {
        return List.copyOf(stopped);
    }
}
