package dev.millstream.client;

/** A series whose values the client holds until the next flush; then one point tells what they have come to. */
interface Held {
    /**
     * Adds that point if there is something to tell.
     *
     * @param again whether to tell a last value once more, as the agent may not know it
     */
    void addTo(Packet packet, boolean again);

    /** Its name and tags. */
    Series series();
}
