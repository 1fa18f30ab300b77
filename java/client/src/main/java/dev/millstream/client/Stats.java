package dev.millstream.client;

/**
 * A client's counters since its creation. Every recorded point is eventually either sent or dropped; until then, the point is queued in the
 * client. {@link Counter#add} and {@link Store#set} record no points, because each flush sends one point per changed handle.
 *
 * @param sent points passed to the kernel
 * @param packets datagrams or messages that contained the sent points
 * @param droppedFull points dropped because the buffer was full, which means that the agent is down or too slow
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
     * Returns the number of points that were dropped for any reason.
     *
     * @return the sum of the dropped points
     */
    public long dropped() {
        return droppedFull + droppedLost + droppedInvalid + droppedClosed;
    }
}
