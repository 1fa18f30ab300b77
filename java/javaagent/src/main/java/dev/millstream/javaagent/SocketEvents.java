package dev.millstream.javaagent;

import dev.millstream.client.Counter;
import dev.millstream.client.Timer;
import java.time.Duration;
import jdk.jfr.consumer.RecordedEvent;

/** Metrics and log events for socket reads and writes. */
final class SocketEvents {
    /** Lowest port that is usually ephemeral. Each connection of a client has a different ephemeral port. */
    private static final int EPHEMERAL_PORT_MIN = 32_768;

    private final Bounded<Peer, Series> series;
    private final SlowEvents slow;

    SocketEvents(Metrics metrics, SlowEvents slow) {
        this.slow = slow;
        series = metrics.bounded(new Peer(Tags.OTHER, ""), peer -> new Series(metrics, peer.tags(metrics.process())));
    }

    /** The identity of a series. The port is empty if it is ephemeral. */
    private record Peer(String address, String port) {
        Tags tags(Tags process) {
            Tags tags = process.with("network.peer.address", address);
            return port.isEmpty() ? tags : tags.with("network.peer.port", port);
        }
    }

    /** Handles for a peer. */
    private static final class Series {
        final Tags tags;
        final Timer readDuration;
        final Timer writeDuration;
        final Counter readBytes;
        final Counter writeBytes;

        Series(Metrics metrics, Tags tags) {
            this.tags = tags;
            readDuration = metrics.timer("jvm.socket.read.duration_ms", tags);
            writeDuration = metrics.timer("jvm.socket.write.duration_ms", tags);
            readBytes = metrics.counter("jvm.socket.read.bytes", tags);
            writeBytes = metrics.counter("jvm.socket.write.bytes", tags);
        }
    }

    void read(RecordedEvent event) {
        long bytes = Math.max(0, event.getLong("bytesRead"));
        Tags tags = recordRead(address(event), event.getInt("port"), event.getDuration(), bytes);
        log(event, "read from", tags, bytes);
    }

    void write(RecordedEvent event) {
        long bytes = Math.max(0, event.getLong("bytesWritten"));
        Tags tags = recordWrite(address(event), event.getInt("port"), event.getDuration(), bytes);
        log(event, "write to", tags, bytes);
    }

    Tags recordRead(String address, int port, Duration duration, long bytes) {
        Series of = series(address, port);
        of.readDuration.record(duration.toNanos() / 1e6);
        of.readBytes.add(bytes);
        return of.tags;
    }

    Tags recordWrite(String address, int port, Duration duration, long bytes) {
        Series of = series(address, port);
        of.writeDuration.record(duration.toNanos() / 1e6);
        of.writeBytes.add(bytes);
        return of.tags;
    }

    private Series series(String address, int port) {
        boolean isService = port > 0 && port < EPHEMERAL_PORT_MIN;
        return series.get(new Peer(address, isService ? Integer.toString(port) : ""));
    }

    private static String address(RecordedEvent event) {
        return address(event.getString("host"), event.getString("address"));
    }

    /**
     * Returns the host, or the address if the host is unknown. For a Unix socket, returns the path, because the host is then a generic
     * text. The address of a Unix socket is its path in brackets.
     */
    static String address(String host, String address) {
        boolean hasAddress = address != null && !address.isEmpty();
        if (hasAddress && address.startsWith("[/") && address.endsWith("]")) {
            return address.substring(1, address.length() - 1);
        }
        boolean hasHost = host != null && !host.isEmpty();
        return hasHost ? host : hasAddress ? address : "unknown";
    }

    private void log(RecordedEvent event, String action, Tags tags, long bytes) {
        if (slow.isSlow(event)) {
            int port = event.getInt("port");
            String peer = address(event) + (port > 0 ? ":" + port : "");
            String duration = SlowEvents.milliseconds(event.getDuration());
            String message = "socket " + action + " " + peer + " took " + duration + " ms, " + bytes + " bytes";
            slow.log(event, message, tags, "bytes", Long.toString(bytes));
        }
    }
}
