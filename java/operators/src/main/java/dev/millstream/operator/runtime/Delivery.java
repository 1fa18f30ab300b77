package dev.millstream.operator.runtime;

/** Receives the events of collectors. Tests replace this interface, because they run without an agent. */
interface Delivery {
    /** Result of {@link #deliver} if the agent has accepted the events. */
    int TAKEN = 0;

    /**
     * Copies a chunk (see {@link ChunkLayout}). Waits while the agent is not accepting events.
     *
     * @param handle the handle of the source
     * @return TAKEN, or another number if the source is stopping
     */
    int deliver(long handle, long address, long bytes, int events);

    /** Reports that a collector has stopped. The handle is not used afterwards. */
    void stopped(long handle);
}
