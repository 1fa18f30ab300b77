package dev.millstream.client;

/**
 * What a client has counted since it was made. Every point that was recorded is at last either sent or dropped; what is neither yet waits in
 * the client. Calls of {@link Counter#add} and {@link Store#set} are no points: one point tells all of them since the last one.
 *
 * @param sent points handed to the kernel
 * @param packets datagrams or messages they went out in
 * @param droppedFull points dropped because all packets were full: the agent is away or too slow
 * @param droppedLost points in packets that are known to be lost: datagrams to a port where nobody listens, and what a client could not
 *     send until the end of {@link MetricClient#close}
 * @param droppedInvalid values that are not finite, and points of {@link MetricClient#emit} whose name or tags the agent would refuse
 * @param droppedClosed points recorded after the client was closed
 * @param connects connections made; from the second on, the agent was away
 * @param errors tries to connect or to send that failed
 */
public record Stats(long sent, long packets, long droppedFull, long droppedLost, long droppedInvalid, long droppedClosed, long connects,
        long errors) {
    /**
     * Points that were dropped, for whatever reason.
     *
     * @return their number
     */
    public long dropped() {
        return droppedFull + droppedLost + droppedInvalid + droppedClosed;
    }
}
