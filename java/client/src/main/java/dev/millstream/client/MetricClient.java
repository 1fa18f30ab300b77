package dev.millstream.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;

/**
 * A client of the agent's source {@code metricserver}. One for the whole program is enough; it is safe for any number of threads, virtual
 * ones too.
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
 * <p>Handles are made once and kept: making one checks and encodes its name and tags. Recording then allocates nothing and never waits: a
 * daemon thread sends. Sums of counters and last values of stores are held by their handles; each other value is a point, and waits in
 * memory of fixed size. When that is full, as the agent is away or too slow, points are dropped and {@linkplain #stats counted}. When the
 * agent is there again, the client goes on by itself.
 */
public final class MetricClient implements AutoCloseable {
    private final int messageBytes;
    private final long closeNanos;
    private final Packets packets;
    private final Sender sender;
    private final Map<Key, Object> handles = new ConcurrentHashMap<>();
    private final Queue<Held> held = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean isClosed = new AtomicBoolean();
    private final LongAdder droppedFull = new LongAdder();
    private final LongAdder droppedInvalid = new LongAdder();
    private final LongAdder droppedClosed = new LongAdder();

    /** What makes two handles the same. */
    private record Key(Kind kind, String name, String tags) {}

    private MetricClient(Builder options, Link<?> link, int messageBytes) {
        this.messageBytes = messageBytes;
        closeNanos = options.closeTimeout.toNanos();
        int count = Math.max(Builder.PACKETS_MIN, options.bufferBytes / (messageBytes + Packet.LENGTH_BYTES));
        packets = new Packets(count, messageBytes, Runtime.getRuntime().availableProcessors(), this::wake);
        sender = new Sender(packets, held, link, options.flushInterval.toNanos(), messageBytes);
        sender.start();
    }

    private void wake() {
        sender.wake();
    }

    /**
     * Begins a client.
     *
     * @return options, of which the address must be set
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * The sum of what is added.
     *
     * @param name name of the metric
     * @param tags keys and values in turn
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would refuse the name or the tags
     */
    public Counter counter(String name, String... tags) {
        return sum(Kind.COUNTER, name, tags);
    }

    /**
     * The sum of a period by its seconds; see {@link #counter}.
     *
     * @param name name of the metric
     * @param tags keys and values in turn
     * @return the handle
     */
    public Counter rateCounter(String name, String... tags) {
        return sum(Kind.RATE_COUNTER, name, tags);
    }

    /**
     * A sum and its rate; see {@link #counter}.
     *
     * @param name name of the metric
     * @param tags keys and values in turn
     * @return the handle
     */
    public Counter meter(String name, String... tags) {
        return sum(Kind.METER, name, tags);
    }

    /**
     * A sum that is told only for periods that have one, and its rate; see {@link #counter}.
     *
     * @param name name of the metric
     * @param tags keys and values in turn
     * @return the handle
     */
    public Counter deltaCounter(String name, String... tags) {
        return sum(Kind.DELTA_COUNTER, name, tags);
    }

    private Counter sum(Kind kind, String name, String[] tags) {
        return handle(Counter.class, kind, name, tags, series -> hold(new Counter(series)));
    }

    /**
     * The last value that was set.
     *
     * @param name name of the metric
     * @param tags keys and values in turn
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would refuse the name or the tags
     */
    public Store store(String name, String... tags) {
        return handle(Store.class, Kind.STORE, name, tags, series -> hold(new Store(series, droppedInvalid)));
    }

    /**
     * Values at times of their own.
     *
     * @param name name of the metric
     * @param tags keys and values in turn
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would refuse the name or the tags
     */
    public TimedStore timedStore(String name, String... tags) {
        return handle(TimedStore.class, Kind.TIMED_STORE, name, tags, series -> new TimedStore(this, series));
    }

    /**
     * A distribution of times.
     *
     * @param name name of the metric
     * @param tags keys and values in turn
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would refuse the name or the tags
     */
    public Timer timer(String name, String... tags) {
        return handle(Timer.class, Kind.TIMER, name, tags, series -> new Timer(this, series));
    }

    /**
     * A distribution of values.
     *
     * @param name name of the metric
     * @param tags keys and values in turn
     * @return the handle; the same one for the same series
     * @throws IllegalArgumentException if the agent would refuse the name or the tags
     */
    public Histogram histogram(String name, String... tags) {
        return handle(Histogram.class, Kind.HISTOGRAM, name, tags, series -> new Histogram(this, series));
    }

    private <T> T handle(Class<T> type, Kind kind, String name, String[] tags, Function<Series, T> make) {
        Series.checkName(name);
        Key key = new Key(kind, name, Series.tags(tags));
        return type.cast(handles.computeIfAbsent(key, missing -> make.apply(fitting(missing))));
    }

    private Series fitting(Key key) {
        Series series = Series.of(key.kind, key.name, key.tags);
        if (Packet.messageBytes(series) > messageBytes) {
            throw new IllegalArgumentException("a point of '" + key.name + "' does not fit a packet of " + messageBytes
                + " bytes; shorten its tags, or build the client with a larger packetBytes");
        }
        return series;
    }

    private <T extends Held> T hold(T one) {
        held.add(one);
        return one;
    }

    /**
     * Records a single point, for names and tags that are known too late for a handle. Allocates nothing and waits for nobody, but takes
     * longer, as name and tags are encoded each time. Each call is a point, also of counters and stores; last values of several threads, or
     * beside a {@link Store}, may reach the agent in another order.
     *
     * @param kind what the agent makes of the value
     * @param name name of the metric, up to 255 bytes of UTF-8
     * @param value a finite number
     * @param tags tags as {@code key=value|key2=value2}, or empty; sent as they are. What is no UTF-8, has control characters, or is longer
     *     than 4,096 bytes or a packet, is dropped and counted, as names and values at fault are
     */
    public void emit(Kind kind, String name, double value, String tags) {
        int nameBytes = Text.bytes(name);
        int tagsBytes = Text.bytes(tags);
        int room = Packet.room(kind, nameBytes, tagsBytes);
        boolean isTags = tagsBytes >= 0 && tagsBytes <= Series.TAGS_BYTES_MAX;
        if (!Series.isName(nameBytes) || !isTags || !Double.isFinite(value) || room > packets.roomMax()) {
            droppedInvalid.increment();
            return;
        }
        int slot = packets.slot();
        Packet packet = take(slot, room);
        if (packet != null) {
            packet.add(kind, name, nameBytes, value, tags, tagsBytes);
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
        Packet packet = take(slot, Packet.room(series));
        if (packet != null) {
            packet.add(series, value, second);
            put(slot, packet);
        }
    }

    /** A packet to add one point to, or null after the point was counted as dropped. */
    private Packet take(int slot, int room) {
        if (isClosed.get()) {
            droppedClosed.increment();
            return null;
        }
        Packet packet = packets.take(slot, room);
        if (packet == null) {
            droppedFull.increment();
        }
        return packet;
    }

    private void put(int slot, Packet packet) {
        packets.put(slot, packet);
        if (sender.hasEnded()) {
            abandon();
        }
    }

    /** Counts what was put where nobody looks any more. */
    private void abandon() {
        packets.sweep();
        int[] left = new int[packets.count()];
        int count = packets.takeFull(left);
        for (int at = 0; at < count; at++) {
            Packet packet = packets.get(left[at]);
            droppedClosed.add(packet.points());
            packets.free(packet);
        }
    }

    /**
     * Sends what was recorded before, without waiting for the flush interval, and waits until the kernel has it.
     *
     * @param timeout how long to wait
     * @return whether the kernel has it; false if the agent is away or too slow
     * @throws InterruptedException if this thread is interrupted
     */
    public boolean flush(Duration timeout) throws InterruptedException {
        long end = System.nanoTime() + timeout.toNanos();
        long flush = sender.ask();
        while (!sender.isDone(flush)) {
            if (System.nanoTime() - end >= 0) {
                return false;
            }
            Thread.sleep(1);
        }
        return true;
    }

    /**
     * What was sent and dropped until now.
     *
     * @return the counts
     */
    public Stats stats() {
        return sender.stats(droppedFull.sum(), droppedInvalid.sum(), droppedClosed.sum());
    }

    /**
     * Sends what was recorded before, for as long as {@link Builder#closeTimeout} says, and ends. What is recorded later is not sent. The
     * second call does nothing.
     */
    @Override
    public void close() {
        if (isClosed.getAndSet(true)) {
            return;
        }
        try {
            sender.close(closeNanos);
            abandon();
        } catch (InterruptedException error) {
            // The sender ends by itself; who interrupted does not want to wait.
            Thread.currentThread().interrupt();
        }
    }

    /** Options of a client. */
    public static final class Builder {
        /** Fewer would be used up by threads that record at the same time. */
        private static final int PACKETS_MIN = 8;

        /** What fits a frame of Ethernet with room for headers of tunnels, and what is quick where there is no such frame. */
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
         * Sends to a Unix stream socket: in the agent, {@code listen: ["unix:///PATH"]}. Nothing is lost on the way while the agent runs.
         *
         * @param path path of the socket; it need not be there yet
         * @return these options
         */
        public Builder unix(Path path) {
            this.path = path;
            return this;
        }

        /**
         * Sends datagrams: in the agent, {@code listen: ["udp://HOST:PORT"]}.
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
         * How long points wait for others to go out with; a full packet does not wait.
         *
         * @param interval more than nothing; 100 ms by default
         * @return these options
         */
        public Builder flushInterval(Duration interval) {
            flushInterval = interval;
            return this;
        }

        /**
         * Largest datagram or message.
         *
         * @param bytes 512 to 65,507 over UDP, or to 65,536; 8,192 by default, 1,432 to other hosts
         * @return these options
         */
        public Builder packetBytes(int bytes) {
            packetBytes = bytes;
            return this;
        }

        /**
         * Memory for points that wait, taken at once: as packets, of which there are eight at least. When it is full, points are dropped.
         *
         * @param bytes at least 65,536; 1 MiB by default
         * @return these options
         */
        public Builder bufferBytes(int bytes) {
            bufferBytes = bytes;
            return this;
        }

        /**
         * How long {@link MetricClient#close} tries to send what is left.
         *
         * @param timeout 1 s by default
         * @return these options
         */
        public Builder closeTimeout(Duration timeout) {
            closeTimeout = timeout;
            return this;
        }

        /**
         * Makes the client and starts its thread. The agent need not be there yet.
         *
         * @return the client
         * @throws IllegalArgumentException if an option is missing or out of its range
         */
        public MetricClient build() {
            check((path == null) != (host == null), "write either unix(PATH) or udp(HOST, PORT)");
            check(path != null || port > 0 && port < 0x10000, "the port is 1 to 65535, not " + port);
            int bytes = packetBytes == 0 ? standardBytes() : packetBytes;
            int max = path == null ? UDP_BYTES_MAX : UNIX_BYTES_MAX;
            check(bytes >= PACKET_BYTES_MIN && bytes <= max, "packetBytes is " + PACKET_BYTES_MIN + " to " + max + ", not " + bytes);
            check(bufferBytes >= BUFFER_BYTES_MIN, "bufferBytes is " + BUFFER_BYTES_MIN + " at least, not " + bufferBytes);
            check(flushInterval.compareTo(Duration.ZERO) > 0, "flushInterval is more than nothing, not " + flushInterval);
            check(!closeTimeout.isNegative(), "closeTimeout is not negative, as is " + closeTimeout);
            return new MetricClient(this, path == null ? new UdpLink(host, port) : new UnixLink(path), bytes);
        }

        private int standardBytes() {
            try {
                return path != null || InetAddress.getByName(host).isLoopbackAddress() ? LOCAL_BYTES : REMOTE_BYTES;
            } catch (UnknownHostException error) {
                // It may be known later.
                return REMOTE_BYTES;
            }
        }

        private static void check(boolean holds, String message) {
            if (!holds) {
                throw new IllegalArgumentException(message);
            }
        }
    }
}
