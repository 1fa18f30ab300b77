package dev.millstream.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.function.IntConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests that recording allocates nothing, with and without an agent. */
class AllocationTest {
    private static final int CALLS = 1_000_000;

    /** Tolerance for the measurement and the JIT compiler: less than one byte per hundred calls. */
    private static final long BYTES_MAX = CALLS / 100;

    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private static void check(String what, IntConsumer call) {
        long least = Long.MAX_VALUE;
        // The first rounds are a warm-up. The minimum excludes one-time allocations.
        for (int round = 0; round < 4; round++) {
            long before = THREADS.getThreadAllocatedBytes(Thread.currentThread().getId());
            for (int i = 0; i < CALLS; i++) {
                call.accept(i);
            }
            least = Math.min(least, THREADS.getThreadAllocatedBytes(Thread.currentThread().getId()) - before);
        }
        long allocated = least;
        assertTrue(allocated <= BYTES_MAX, () -> what + ": " + allocated + " bytes in " + CALLS + " calls");
    }

    private static void checkAll(MetricClient client) {
        Counter counter = client.counter("counter", "route", "/a");
        Store store = client.store("store", "route", "/a");
        Timer timer = client.timer("timer", "route", "/a");
        Histogram histogram = client.histogram("histogram", "route", "/a");
        TimedStore timed = client.timedStore("timed", "route", "/a");
        check("counter", counter::add);
        check("store", i -> store.set(i / 8.0));
        check("timer", i -> timer.record(i / 1000.0));
        check("timer since", i -> timer.recordSince(i));
        check("histogram", i -> histogram.record(Math.sqrt(i)));
        check("timed store", i -> timed.set(i, 1_700_000_000L + i));
        check("emit", i -> client.emit(Kind.COUNTER, "emitted", i, "route=/a|city=Zürich"));
    }

    @Test
    void recording_allocates_nothing(@TempDir Path dir) throws IOException {
        Path path = dir.resolve("agent.sock");
        try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.DISCARD); MetricClient client = MetricClient.builder().unix(path).build()) {
            checkAll(client);
            assertTrue(client.stats().sent() > 0);
        }
    }

    @Test
    void dropping_allocates_nothing(@TempDir Path dir) {
        try (MetricClient client = MetricClient.builder().unix(dir.resolve("agent.sock")).build()) {
            checkAll(client);
            assertTrue(client.stats().droppedFull() > 0);
        }
    }
}
