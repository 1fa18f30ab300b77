package dev.millstream.benchmarks;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** A socket write with the fields of the JDK's {@code jdk.SocketWrite}. JFR sets start and duration from the calls of begin and end. */
@Name(WriteEvent.NAME)
@Label("Socket Write")
@Category({"Millstream", "Benchmarks"})
final class WriteEvent extends Event {
    static final String NAME = "dev.millstream.SocketWrite";

    @Label("Remote Host")
    String host;

    @Label("Remote Address")
    String address;

    @Label("Remote Port")
    int port;

    @Label("Bytes Written")
    @DataAmount
    long bytesWritten;

    /** Sets the data and records the event. */
    void commit(Peer peer, long bytes) {
        host = peer.host();
        address = peer.address();
        port = peer.port();
        bytesWritten = bytes;
        commit();
    }
}
