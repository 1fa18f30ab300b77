package dev.millstream.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.LongAccumulator;

/**
 * A program that the agent's tests control: EndToEnd ADDRESS. The program reads commands from standard input and responds to each command
 * with a line.
 *
 * <ul>
 *   <li>{@code record N}: for each i below N, increments the {@code java.sum} counter, records i in the {@code java.time} timer and sets
 *       the {@code java.level} store to i, in two threads. Responds with the maximum time of an iteration in ns.
 *   <li>{@code flush}: responds whether the flush succeeded.
 *   <li>{@code stats}: responds with the counters as {@code name=value} in brackets.
 * </ul>
 */
public final class EndToEnd {
    private static final int THREADS = 2;

    private final MetricClient client;
    private final Counter sum;
    private final Timer time;
    private final Store level;

    private EndToEnd(MetricClient client) {
        this.client = client;
        sum = client.counter("java.sum", "route", "/a", "code", "200");
        time = client.timer("java.time", "equation", "a=b");
        level = client.store("java.level", "city", "Zürich");
    }

    /**
     * Runs the program.
     *
     * @param args the address, in the format of the source's {@code listen} option
     * @throws Exception if a command fails
     */
    public static void main(String[] args) throws Exception {
        MetricClient.Builder builder = MetricClient.builder().bufferBytes(65_536);
        URI address = URI.create(args[0]);
        builder = address.getScheme().equals("udp") ? builder.udp(address.getHost(), address.getPort()) : builder.unix(Path.of(address.getPath()));
        try (MetricClient client = builder.build()) {
            new EndToEnd(client).serve();
        }
    }

    private void serve() throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(execute(line.split(" ")));
        }
    }

    private Object execute(String[] command) throws Exception {
        return switch (command[0]) {
            case "record" -> record(Integer.parseInt(command[1]));
            case "flush" -> client.flush(Duration.ofSeconds(60));
            case "stats" -> client.stats();
            default -> throw new IOException("unknown command: " + command[0]);
        };
    }

    private long record(int count) throws Exception {
        LongAccumulator longest = new LongAccumulator(Math::max, 0);
        CountDownLatch finished = new CountDownLatch(THREADS);
        for (int thread = 0; thread < THREADS; thread++) {
            int first = thread;
            start(() -> {
                for (int i = first; i < count; i += THREADS) {
                    longest.accumulate(recordOne(i));
                }
                finished.countDown();
            });
        }
        finished.await();
        level.set(count);
        return longest.get();
    }

    /** Starts a virtual thread if the JVM supports virtual threads (Java 21 or later), or else a platform thread. */
    private static void start(Runnable task) throws ReflectiveOperationException {
        if (Runtime.version().feature() >= 21) {
            Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
        } else {
            new Thread(task).start();
        }
    }

    private long recordOne(int i) {
        long start = System.nanoTime();
        sum.increment();
        time.record(i);
        level.set(i);
        return System.nanoTime() - start;
    }
}
