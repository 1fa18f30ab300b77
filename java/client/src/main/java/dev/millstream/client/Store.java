package dev.millstream.client;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.LongAdder;

/** A last value. The client sends the value at the next flush after a change, and at the first flush after a reconnect. Thread-safe. */
public final class Store implements Accumulator {
    private static final VarHandle VALUE;
    private static final VarHandle IS_CHANGED;

    static {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            VALUE = lookup.findVarHandle(Store.class, "value", double.class);
            IS_CHANGED = lookup.findVarHandle(Store.class, "isChanged", boolean.class);
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    private final Series series;
    private final LongAdder invalid;
    private double value;
    private boolean isChanged;
    /** Whether a value was ever sent; used only by the sender. */
    private boolean wasSet;

    Store(Series series, LongAdder invalid) {
        this.series = series;
        this.invalid = invalid;
    }

    /**
     * Sets the value. Never allocates and never blocks.
     *
     * @param value a finite number; other values are dropped and counted
     */
    public void set(double value) {
        if (!Double.isFinite(value)) {
            invalid.increment();
            return;
        }
        VALUE.setOpaque(this, value);
        // Release order: a thread that sees the flag also sees the value.
        IS_CHANGED.setRelease(this, true);
    }

    @Override
    public Series series() {
        return series;
    }

    @Override
    public void flushTo(Packet packet, boolean resend) {
        // Clear the flag before reading the value. A value set in between is sent now and resent at the next flush.
        boolean isDue = (boolean) IS_CHANGED.getAndSet(this, false) || resend && wasSet;
        if (isDue) {
            wasSet = true;
            packet.add(series, (double) VALUE.getOpaque(this), Packet.NO_SECOND);
        }
    }
}
