package dev.millstream.client;

/**
 * Counters of a client since its creation. Every recorded point is eventually either sent or dropped; until then, it is queued in the
 * client. {@link Counter#add} and {@link Store#set} record no points: each flush sends one point per changed handle.
 *
 * @param sent points passed to the kernel
 * @param packets datagrams or messages that contained them
 * @param droppedFull points dropped because the buffer was full: the agent is down or too slow
 * @param droppedLost points in packets that are known to be lost: datagrams to a port without a listener, and points that
 *     {@link MetricClient#close} could not send in time
 * @param droppedInvalid values that are not finite, and points of {@link MetricClient#emit} whose name or tags the agent would reject
 * @param droppedClosed points recorded after the client was closed
 * @param connects connections, including reconnects
 * @param errors failed attempts to connect or send
 */
public record Stats(long sent, long packets, long droppedFull, long droppedLost, long droppedInvalid, long droppedClosed, long connects,
        long errors) {
    /**
     * Returns the number of points dropped for any reason.
     *
     * @return the sum of the dropped points
     */
    public long dropped() {
        return droppedFull + droppedLost + droppedInvalid + droppedClosed;
    }
}
