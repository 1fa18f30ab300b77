package dev.millstream.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;

/**
 * A client of the agent's {@code metricserver} source. One instance per program is enough. The client is thread-safe, including for virtual
 * threads.
 *
 * <pre>{@code
 * try (MetricClient client = MetricClient.builder().unix(Path.of("/run/millstream/metric.stream.sock")).build()) {
 *     Counter orders = client.counter("orders", "shop", "eu");
 *     Timer wait = client.timer("wait", "shop", "eu");
 *     orders.increment();
 *     wait.record(12.5);
 * }
 * }</pre>
 *
 * <p>Create handles once and keep them, because creating a handle checks and encodes its name and tags. Recording then never allocates and
 * never blocks, because a daemon thread sends the points. Handles accumulate the sums of counters and the last values of stores. Every
 * other value is a point in a fixed-size buffer. If the buffer is full because the agent is down or too slow, points are dropped and
 * {@linkplain #stats counted}. The client reconnects automatically.
 */
public final class MetricClient implements AutoCloseable {
    private final int messageBytes;
    private final long closeNanos;
    private final PacketPool packets;
    private final Sender sender;
    private final Map<Key, Object> handles = new ConcurrentHashMap<>();
    private final Queue<Accumulator> accumulators = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean isClosed = new AtomicBoolean();
    private final LongAdder droppedFull = new LongAdder();
    private final LongAdder droppedInvalid = new LongAdder();
    private final LongAdder droppedClosed = new LongAdder();

    /** The identity of a handle. */
    private record Key(Kind kind, String name, String tags) {}

    private MetricClient(Builder options, Transport<?> transport, int messageBytes) {
        this.messageBytes = messageBytes;
        closeNanos = options.closeTimeout.toNanos();
        int count = Math.max(Builder.PACKETS_MIN, options.bufferBytes / (messageBytes + Packet.LENGTH_BYTES));
        packets = new PacketPool(count, messageBytes, Runtime.getRuntime().availableProcessors(), this::wake);
        sender = new Sender(packets, accumulators, transport, options.flushInterval.toNanos(), messageBytes);
        sender.start();
    }

    private void wake() {
        sender.wake();
    }

    /**
     * Creates a builder.
     *
     * @return options with defaults; the address has no default and must be set
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Returns a handle for a sum.
     *
     * @param name name of the metric
     * @param tags alternating keys and values
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would reject the name or the tags
     */
    public Counter counter(String name, String... tags) {
        return sum(Kind.COUNTER, name, tags);
    }

    /**
     * Returns a handle for the sum of a period divided by the period's length in seconds; see {@link #counter}.
     *
     * @param name name of the metric
     * @param tags alternating keys and values
     * @return the handle
     */
    public Counter rateCounter(String name, String... tags) {
        return sum(Kind.RATE_COUNTER, name, tags);
    }

    /**
     * Returns a handle for a sum and its rate; see {@link #counter}.
     *
     * @param name name of the metric
     * @param tags alternating keys and values
     * @return the handle
     */
    public Counter meter(String name, String... tags) {
        return sum(Kind.METER, name, tags);
    }

    /**
     * Returns a handle for a sum and its rate, emitted only for periods with additions; see {@link #counter}.
     *
     * @param name name of the metric
     * @param tags alternating keys and values
     * @return the handle
     */
    public Counter deltaCounter(String name, String... tags) {
        return sum(Kind.DELTA_COUNTER, name, tags);
    }

    private Counter sum(Kind kind, String name, String[] tags) {
        return handle(Counter.class, kind, name, tags, series -> register(new Counter(series)));
    }

    /**
     * Returns a handle for a last value.
     *
     * @param name name of the metric
     * @param tags alternating keys and values
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would reject the name or the tags
     */
    public Store store(String name, String... tags) {
        return handle(Store.class, Kind.STORE, name, tags, series -> register(new Store(series, droppedInvalid)));
    }

    /**
     * Returns a handle for values with explicit timestamps.
     *
     * @param name name of the metric
     * @param tags alternating keys and values
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would reject the name or the tags
     */
    public TimedStore timedStore(String name, String... tags) {
        return handle(TimedStore.class, Kind.TIMED_STORE, name, tags, series -> new TimedStore(this, series));
    }

    /**
     * Returns a handle for a distribution of durations.
     *
     * @param name name of the metric
     * @param tags alternating keys and values
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would reject the name or the tags
     */
    public Timer timer(String name, String... tags) {
        return handle(Timer.class, Kind.TIMER, name, tags, series -> new Timer(this, series));
    }

    /**
     * Returns a handle for a distribution of values.
     *
     * @param name name of the metric
     * @param tags alternating keys and values
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would reject the name or the tags
     */
    public Histogram histogram(String name, String... tags) {
        return handle(Histogram.class, Kind.HISTOGRAM, name, tags, series -> new Histogram(this, series));
    }

    private <T> T handle(Class<T> type, Kind kind, String name, String[] tags, Function<Series, T> create) {
        Series.checkName(name);
        Key key = new Key(kind, name, Series.tags(tags));
        return type.cast(handles.computeIfAbsent(key, missing -> create.apply(checkedSeries(missing))));
    }

    private Series checkedSeries(Key key) {
        Series series = Series.of(key.kind, key.name, key.tags);
        if (Packet.messageBytes(series) > messageBytes) {
            throw new IllegalArgumentException("a point of '" + key.name + "' does not fit in a packet of " + messageBytes
                + " bytes; shorten its tags, or build the client with a larger packetBytes");
        }
        return series;
    }

    private <T extends Accumulator> T register(T accumulator) {
        accumulators.add(accumulator);
        return accumulator;
    }

    /**
     * Records a single point, for names and tags that are not known in advance. Never allocates and never blocks, but is slower than a
     * handle because each call encodes the name and tags. Each call is a point, even for counters and stores. If several threads record
     * last values, or a {@link Store} records them as well, the values may reach the agent out of order.
     *
     * @param kind how the agent aggregates the value
     * @param name name of the metric, up to 255 bytes of UTF-8
     * @param value a finite number
     * @param tags tags as {@code key=value|key2=value2}, or empty; sent unchanged. A point is dropped and counted if its tags contain
     *     unpaired surrogates or control characters or are longer than 4,096 bytes or a packet, or if its name or value is invalid
     */
    public void emit(Kind kind, String name, double value, String tags) {
        int nameBytes = Text.bytes(name);
        int tagsBytes = Text.bytes(tags);
        int pointBytes = Packet.pointBytes(kind, nameBytes, tagsBytes);
        boolean isValid = Series.isValidName(nameBytes) && Series.hasValidLength(tagsBytes) && Double.isFinite(value);
        if (!isValid || pointBytes > packets.pointBytesMax()) {
            droppedInvalid.increment();
            return;
        }
        int slot = packets.slot();
        Packet packet = take(slot, pointBytes);
        if (packet != null) {
            packet.add(kind, name, nameBytes, value, tags, tagsBytes);
            put(slot, packet);
        }
    }

    /**
     * Records a log event. Never blocks, but allocates. The client sends and counts a log event like a point: if the buffer is full or the
     * event is invalid, the event is dropped and {@linkplain #stats counted}. If the event exceeds a packet, the client first cuts the end
     * of its {@code stack} field.
     *
     * @param level the severity
     * @param name name of the event, up to 255 bytes of UTF-8
     * @param message human-readable text
     * @param tags tags as {@code key=value|key2=value2}, or empty; see {@link #emit}
     * @param time when the event happened, or null for the time at which the agent receives the event
     * @param fields up to 32 alternating keys and values. The agent parses a value as a number if its key ends in {@code _ms} or
     *     {@code _bytes}, or is {@code bytes}
     */
    public void log(LogLevel level, String name, String message, String tags, Instant time, String... fields) {
        byte[] event = LogEncoder.encode(level, name, message, tags, time, fields, packets.pointBytesMax());
        if (event == null) {
            droppedInvalid.increment();
            return;
        }
        int slot = packets.slot();
        Packet packet = take(slot, event.length);
        if (packet != null) {
            packet.add(event);
            put(slot, packet);
        }
    }

    /** Records a point of a series. */
    void record(Series series, double value, long second) {
        if (!Double.isFinite(value)) {
            droppedInvalid.increment();
            return;
        }
        int slot = packets.slot();
        Packet packet = take(slot, Packet.pointBytes(series));
        if (packet != null) {
            packet.add(series, value, second);
            put(slot, packet);
        }
    }

    /** Takes a packet for one point. If all packets are full, counts the point as dropped and returns null. */
    private Packet take(int slot, int pointBytes) {
        if (isClosed.get()) {
            droppedClosed.increment();
            return null;
        }
        Packet packet = packets.take(slot, pointBytes);
        if (packet == null) {
            droppedFull.increment();
        }
        return packet;
    }

    private void put(int slot, Packet packet) {
        packets.put(slot, packet);
        if (sender.isTerminated()) {
            dropRemaining();
        }
    }

    /** Drops and counts the points that were recorded after the sender's last flush. */
    private void dropRemaining() {
        packets.markSlotsFull();
        int[] full = new int[packets.count()];
        int count = packets.takeFull(full);
        for (int at = 0; at < count; at++) {
            Packet packet = packets.get(full[at]);
            droppedClosed.add(packet.points());
            packets.free(packet);
        }
    }

    /**
     * Sends all previously recorded points without waiting for the flush interval, and waits until the kernel has accepted the points.
     *
     * @param timeout maximum time to wait
     * @return whether the kernel has accepted the points; false if the agent is down or too slow
     * @throws InterruptedException if this thread is interrupted
     */
    public boolean flush(Duration timeout) throws InterruptedException {
        long deadline = System.nanoTime() + timeout.toNanos();
        long flush = sender.requestFlush();
        while (!sender.isFlushed(flush)) {
            if (System.nanoTime() - deadline >= 0) {
                return false;
            }
            Thread.sleep(1);
        }
        return true;
    }

    /**
     * Returns the counters of sent and dropped points.
     *
     * @return the counters
     */
    public Stats stats() {
        return sender.stats(droppedFull.sum(), droppedInvalid.sum(), droppedClosed.sum());
    }

    /**
     * Sends all previously recorded points within {@link Builder#closeTimeout} and stops the sender thread. Points that are recorded later
     * are dropped. Further calls do nothing.
     */
    @Override
    public void close() {
        if (isClosed.getAndSet(true)) {
            return;
        }
        try {
            sender.close(closeNanos);
            dropRemaining();
        } catch (InterruptedException error) {
            // The sender stops at its deadline. The interrupted caller does not wait for the sender.
            Thread.currentThread().interrupt();
        }
    }

    /** Options of a client. */
    public static final class Builder {
        /** Minimum number of packets. With fewer, concurrent threads would exhaust the packets. */
        private static final int PACKETS_MIN = 8;

        /** Fits in an Ethernet frame with a few tunnel headers. Local sockets have no such limit. */
        private static final int REMOTE_BYTES = 1432;
        private static final int LOCAL_BYTES = 8192;

        private static final int PACKET_BYTES_MIN = 512;
        private static final int UDP_BYTES_MAX = 65_507;
        private static final int UNIX_BYTES_MAX = 65_536;
        private static final int BUFFER_BYTES_MIN = 65_536;

        private Path path;
        private String host;
        private int port;
        private int packetBytes;
        private int bufferBytes = 1 << 20;
        private Duration flushInterval = Duration.ofMillis(100);
        private Duration closeTimeout = Duration.ofSeconds(1);

        private Builder() {}

        /**
         * Sends to a Unix stream socket, which the agent opens with {@code listen: ["unix:///PATH"]}. No point is lost in transit while the
         * agent runs.
         *
         * @param path path of the socket, which need not exist yet
         * @return these options
         */
        public Builder unix(Path path) {
            this.path = path;
            return this;
        }

        /**
         * Sends datagrams to a UDP port, which the agent opens with {@code listen: ["udp://HOST:PORT"]}.
         *
         * @param host name or IP address
         * @param port from 1 to 65535
         * @return these options
         */
        public Builder udp(String host, int port) {
            this.host = host;
            this.port = port;
            return this;
        }

        /**
         * Sets how long the client batches points before it sends them. Full packets are sent immediately.
         *
         * @param interval greater than zero; the default is 100 ms
         * @return these options
         */
        public Builder flushInterval(Duration interval) {
            flushInterval = interval;
            return this;
        }

        /**
         * Sets the maximum size of a datagram or message.
         *
         * @param bytes 512 to 65,507 for UDP, 512 to 65,536 for Unix; the default is 8,192, or 1,432 for UDP to other hosts
         * @return these options
         */
        public Builder packetBytes(int bytes) {
            packetBytes = bytes;
            return this;
        }

        /**
         * Sets the size of the buffer for queued points. The client allocates the buffer in advance, as at least eight packets. If the
         * buffer is full, points are dropped.
         *
         * @param bytes at least 65,536; the default is 1 MiB
         * @return these options
         */
        public Builder bufferBytes(int bytes) {
            bufferBytes = bytes;
            return this;
        }

        /**
         * Sets how long {@link MetricClient#close} tries to send the remaining points.
         *
         * @param timeout the default is 1 s
         * @return these options
         */
        public Builder closeTimeout(Duration timeout) {
            closeTimeout = timeout;
            return this;
        }

        /**
         * Creates the client and starts its thread. The agent need not be running yet.
         *
         * @return the client
         * @throws IllegalArgumentException if an option is missing or out of range
         */
        public MetricClient build() {
            check((path == null) != (host == null), "set either unix(PATH) or udp(HOST, PORT)");
            check(path != null || port > 0 && port < 0x10000, "the port must be 1 to 65535, not " + port);
            int bytes = packetBytes == 0 ? defaultPacketBytes() : packetBytes;
            int max = path == null ? UDP_BYTES_MAX : UNIX_BYTES_MAX;
            check(bytes >= PACKET_BYTES_MIN && bytes <= max, "packetBytes must be " + PACKET_BYTES_MIN + " to " + max + ", not " + bytes);
            check(bufferBytes >= BUFFER_BYTES_MIN, "bufferBytes must be at least " + BUFFER_BYTES_MIN + ", not " + bufferBytes);
            check(flushInterval.compareTo(Duration.ZERO) > 0, "flushInterval must be greater than zero, not " + flushInterval);
            check(!closeTimeout.isNegative(), "closeTimeout must be at least zero, not " + closeTimeout);
            return new MetricClient(this, path == null ? new UdpTransport(host, port) : new UnixTransport(path), bytes);
        }

        private int defaultPacketBytes() {
            try {
                return path != null || InetAddress.getByName(host).isLoopbackAddress() ? LOCAL_BYTES : REMOTE_BYTES;
            } catch (UnknownHostException error) {
                // The host may become resolvable later.
                return REMOTE_BYTES;
            }
        }

        private static void check(boolean isValid, String message) {
            if (!isValid) {
                throw new IllegalArgumentException(message);
            }
        }
    }
}
