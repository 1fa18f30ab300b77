package dev.millstream.benchmarks;

/**
 * Static methods over an event, in the shape of the JDK's mirror events. JFR generates the bodies for the JDK's classes only, so here they
 * are written by hand: the clock is that of the JVM, the threshold a setting of the event, and an event is an object.
 */
final class WriteMirror {
    private static final MirroredWriteEvent PROBE = new MirroredWriteEvent();

    private WriteMirror() {}

    static boolean enabled() {
        return PROBE.isEnabled();
    }

    static long timestamp() {
        return System.nanoTime();
    }

    static boolean shouldCommit(long durationNs) {
        return durationNs >= LimitControl.ns();
    }

    static void commit(long durationNs, String host, String address, int port, long bytes) {
        MirroredWriteEvent event = new MirroredWriteEvent();
        event.writeTime = durationNs;
        event.host = host;
        event.address = address;
        event.port = port;
        event.bytesWritten = bytes;
        event.commit();
    }
}
