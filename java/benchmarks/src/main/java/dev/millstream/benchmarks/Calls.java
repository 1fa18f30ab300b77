package dev.millstream.benchmarks;

import com.timgroup.statsd.NonBlockingStatsDClientBuilder;
import com.timgroup.statsd.StatsDClient;
import dev.millstream.client.Counter;
import dev.millstream.client.Kind;
import dev.millstream.client.MetricClient;
import dev.millstream.client.Store;
import dev.millstream.client.Timer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Measures the cost of a call for the recording thread: time, and allocated bytes with the {@code gc} profiler. Both clients send over UDP
 * to a port of this process that discards all data, so that the clients' sender threads do their usual work.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
public class Calls {
    private static final String NAME = "http.requests";
    private static final String[] DOGSTATSD_TAGS = {"route:/orders", "code:200", "method:GET"};
    private static final String TAGS = "code=200|method=GET|route=/orders";

    private DatagramChannel sink;
    private MetricClient client;
    private Counter counter;
    private Timer timer;
    private Store store;
    private StatsDClient dogstatsd;

    /** Starts both clients. */
    @Setup
    public void start() {
        int port = listen();
        client = MetricClient.builder().udp("127.0.0.1", port).build();
        String[] tags = {"route", "/orders", "code", "200", "method", "GET"};
        counter = client.counter(NAME, tags);
        timer = client.timer("http.wait", tags);
        store = client.store("http.open", tags);
        dogstatsd = new NonBlockingStatsDClientBuilder().hostname("127.0.0.1").port(port).enableTelemetry(false).build();
    }

    private int listen() {
        try {
            sink = DatagramChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
            int port = ((InetSocketAddress) sink.getLocalAddress()).getPort();
            Thread reader = new Thread(this::read);
            reader.setDaemon(true);
            reader.start();
            return port;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void read() {
        ByteBuffer message = ByteBuffer.allocateDirect(1 << 16);
        try {
            while (true) {
                sink.receive(message.clear());
            }
        } catch (IOException closed) {
            // The benchmark has ended.
        }
    }

    /** Stops both clients and prints the number of dropped points. */
    @TearDown
    public void stop() throws IOException {
        client.close();
        dogstatsd.close();
        sink.close();
        System.out.println("# " + client.stats());
    }

    /** A counter with a handle. */
    @Benchmark
    public void counter() {
        counter.increment();
    }

    /** A timer with a handle. */
    @Benchmark
    public void timer() {
        timer.record(12.25);
    }

    /** A store with a handle. */
    @Benchmark
    public void store() {
        store.set(17);
    }

    /** A counter without a handle. */
    @Benchmark
    public void emit() {
        client.emit(Kind.COUNTER, NAME, 1, TAGS);
    }

    /** A counter of the DogStatsD client, which also aggregates. */
    @Benchmark
    public void dogstatsdCounter() {
        dogstatsd.count(NAME, 1, DOGSTATSD_TAGS);
    }

    /** A timer of the DogStatsD client. */
    @Benchmark
    public void dogstatsdTimer() {
        dogstatsd.recordExecutionTime("http.wait", 12, DOGSTATSD_TAGS);
    }

    /** A gauge of the DogStatsD client, which also sends only the last value. */
    @Benchmark
    public void dogstatsdStore() {
        dogstatsd.gauge("http.open", 17, DOGSTATSD_TAGS);
    }
}
