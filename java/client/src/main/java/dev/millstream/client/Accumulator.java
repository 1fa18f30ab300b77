package dev.millstream.client;

/** A series whose values the client accumulates and sends as one point per flush. */
interface Accumulator {
    /**
     * Adds the point to a packet if the value has changed since the last flush.
     *
     * @param resend whether to resend an unchanged last value because the agent may have restarted
     */
    void flushTo(Packet packet, boolean resend);

    /** Returns the name and tags. */
    Series series();
}
