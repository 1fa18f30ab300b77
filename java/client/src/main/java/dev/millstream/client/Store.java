package dev.millstream.client;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.LongAdder;

/**
 * A last value. It is sent with the next flush after it was set, and again after the agent was away. Safe for any number of threads.
 */
public final class Store implements Held {
    private static final VarHandle VALUE;
    private static final VarHandle NEWS;

    static {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            VALUE = lookup.findVarHandle(Store.class, "value", double.class);
            NEWS = lookup.findVarHandle(Store.class, "isNew", boolean.class);
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    private final Series series;
    private final LongAdder invalid;
    private double value;
    private boolean isNew;
    /** Of the sender: whether there ever was a value. */
    private boolean wasSet;

    Store(Series series, LongAdder invalid) {
        this.series = series;
        this.invalid = invalid;
    }

    /**
     * Sets the value. Allocates nothing and waits for nobody.
     *
     * @param value a finite number; another is dropped and counted
     */
    public void set(double value) {
        if (!Double.isFinite(value)) {
            invalid.increment();
            return;
        }
        VALUE.setOpaque(this, value);
        // Release: who sees that there is a new value sees it.
        NEWS.setRelease(this, true);
    }

    @Override
    public Series series() {
        return series;
    }

    @Override
    public void addTo(Packet packet, boolean again) {
        // First the note, then the value: one that comes between is told now, and once more.
        boolean isDue = (boolean) NEWS.getAndSet(this, false) || again && wasSet;
        if (isDue) {
            wasSet = true;
            packet.add(series, (double) VALUE.getOpaque(this), Packet.NO_SECOND);
        }
    }
}
