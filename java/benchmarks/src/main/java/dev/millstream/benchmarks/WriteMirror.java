package dev.millstream.benchmarks;

/**
 * Static methods for an event, in the form of the JDK's mirror events. JFR generates the method bodies only for JDK classes, so the bodies
 * here are written by hand: the clock is the JVM's clock, the threshold is an event setting, and an event is an object.
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
