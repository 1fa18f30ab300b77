package dev.millstream.operator.runtime;

/** Takes the events of collectors; replaced in tests, where no agent is linked. */
interface Delivery {
    /** What {@link #deliver} returns if the events were taken. */
    int TAKEN = 0;

    /**
     * Copies a chunk, see {@link ChunkLayout}; waits while the agent takes no more.
     *
     * @param handle that of the source
     * @return TAKEN, or another number if the source is stopping
     */
    int deliver(long handle, long address, long bytes, int events);

    /** Tells that a collector has stopped; the handle is not used again. */
    void stopped(long handle);
}
