package dev.millstream.javaagent;

import dev.millstream.client.MetricClient;
import java.nio.file.Path;

/** The destination of metrics and log events: a Unix socket, or a UDP host and port. */
record Address(Path socket, String host, int port) {
    static final Address DEFAULT = socket("/run/millstream/metric.stream.sock");

    private static final int PORT_MAX = 65_535;

    static Address socket(String path) {
        if (path.isEmpty()) {
            throw new IllegalArgumentException("empty path");
        }
        return new Address(Path.of(path), null, 0);
    }

    /** Parses HOST:PORT, where the host may be an IPv6 address in brackets. */
    static Address udp(String text) {
        int colon = text.lastIndexOf(':');
        int port = colon < 1 ? 0 : Integer.parseInt(text.substring(colon + 1));
        if (port < 1 || port > PORT_MAX) {
            throw new IllegalArgumentException("not HOST:PORT");
        }
        String host = text.substring(0, colon);
        boolean hasBrackets = host.startsWith("[") && host.endsWith("]");
        return new Address(null, hasBrackets ? host.substring(1, host.length() - 1) : host, port);
    }

    MetricClient.Builder builder() {
        return socket == null ? MetricClient.builder().udp(host, port) : MetricClient.builder().unix(socket);
    }
}
