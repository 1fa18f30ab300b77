package dev.millstream.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.function.IntConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Calls that record allocate nothing, with an agent that takes what comes and with none. */
class AllocationTest {
    private static final int CALLS = 1_000_000;

    /** What the measurement itself and the compiler's own doings may take: not a byte per hundred calls. */
    private static final long BYTES_MAX = CALLS / 100;

    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private static void check(String what, IntConsumer call) {
        long least = Long.MAX_VALUE;
        // The first rounds warm up; the least of several is free of what happens once.
        for (int round = 0; round < 4; round++) {
            long before = THREADS.getThreadAllocatedBytes(Thread.currentThread().getId());
            for (int turn = 0; turn < CALLS; turn++) {
                call.accept(turn);
            }
            least = Math.min(least, THREADS.getThreadAllocatedBytes(Thread.currentThread().getId()) - before);
        }
        long found = least;
        assertTrue(found <= BYTES_MAX, () -> what + ": " + found + " bytes in " + CALLS + " calls");
    }

    private static void checkAll(MetricClient client) {
        Counter counter = client.counter("counter", "route", "/a");
        Store store = client.store("store", "route", "/a");
        Timer timer = client.timer("timer", "route", "/a");
        Histogram histogram = client.histogram("histogram", "route", "/a");
        TimedStore timed = client.timedStore("timed", "route", "/a");
        check("counter", counter::add);
        check("store", turn -> store.set(turn / 8.0));
        check("timer", turn -> timer.record(turn / 1000.0));
        check("timer since", turn -> timer.recordSince(turn));
        check("histogram", turn -> histogram.record(Math.sqrt(turn)));
        check("timed store", turn -> timed.set(turn, 1_700_000_000L + turn));
        check("emit", turn -> client.emit(Kind.COUNTER, "emitted", turn, "route=/a|city=Zürich"));
    }

    @Test
    void recording_allocates_nothing(@TempDir Path dir) throws IOException {
        Path path = dir.resolve("agent.sock");
        try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.AND_FORGETS); MetricClient client = MetricClient.builder().unix(path).build()) {
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
