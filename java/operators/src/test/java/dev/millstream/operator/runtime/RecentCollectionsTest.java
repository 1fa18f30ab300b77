package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.runtime.RecentCollections.Collection;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.management.Notification;
import org.junit.jupiter.api.Test;

class RecentCollectionsTest {
    private static Map<String, Object> take(RecentCollections recent) {
        Map<String, Object> members = new LinkedHashMap<>();
        recent.moveTo(members);
        return members;
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> collections(Map<String, Object> taken) {
        return (List<Map<String, Object>>) taken.get("recent_collections");
    }

    @Test
    void theLastCollectionsAreKeptUntilTheyAreTakenAndTheOthersCounted() {
        RecentCollections recent = new RecentCollections(Set.of());
        for (int number = 0; number < RecentCollections.MAX + 3; number++) {
            recent.add(new Collection("Copy", "cause", System.nanoTime(), number, 2, 1));
        }
        Map<String, Object> taken = take(recent);
        assertEquals(3L, taken.get("omitted_collections"));
        List<Object> took = collections(taken).stream().map(each -> each.get("took_ms")).toList();
        assertEquals(RecentCollections.MAX, took.size());
        assertEquals(List.of(3L, 4L), took.subList(0, 2));
        assertEquals(Map.of("recent_collections", List.of(), "omitted_collections", 0L), take(recent));
    }

    @Test
    void aCollectionSaysHowLongAgoItEnded() {
        long ended = System.nanoTime();
        Map<String, Object> json = new Collection("Copy", "Allocation Failure", ended, 7, 20, 10).json(ended + 5_999_999);
        assertEquals(
                Map.of("collector", "Copy", "cause", "Allocation Failure", "ended_ms_ago", 5L, "took_ms", 7L, "before", 20L, "after", 10L),
                json);
    }

    @Test
    void theHeapIsTheSumOfItsPools() {
        RecentCollections recent = new RecentCollections(Set.of("Eden Space", "Tenured Gen"));
        Map<String, MemoryUsage> pools = Map.of(
                "Eden Space", new MemoryUsage(0, 5, 50, 50),
                "Tenured Gen", new MemoryUsage(0, 30, 50, 50),
                "Metaspace", new MemoryUsage(0, 1000, 2000, 2000));
        assertEquals(35, recent.heapBytes(pools));
        assertEquals(0, recent.heapBytes(Map.of()));
    }

    private static Recent.Event endsNow() {
        long ended = System.nanoTime();
        return nowNs -> Map.of("ended_ns_ago", nowNs - ended);
    }

    /** The agent would read a negative time for an event in the future. */
    @Test
    void noEventEndsInTheFuture() throws InterruptedException {
        Recent recent = new Recent(100);
        Thread other = new Thread(() -> {
            while (!Thread.interrupted()) {
                recent.add(endsNow());
            }
        });
        other.start();
        try {
            for (int count = 0; count < 10_000; count++) {
                Map<String, Object> members = new LinkedHashMap<>();
                recent.moveTo(members, "events");
                for (Object each : (List<?>) members.get("recent_events")) {
                    assertTrue((long) ((Map<?, ?>) each).get("ended_ns_ago") >= 0, each.toString());
                }
            }
        } finally {
            other.interrupt();
            other.join();
        }
    }

    @Test
    void aNotificationThatCannotBeReadIsCounted() {
        RecentCollections recent = new RecentCollections(Set.of());
        recent.handleNotification(new Notification("com.sun.management.gc.notification", "bean", 1), null);
        recent.handleNotification(new Notification("another", "bean", 1), null);
        assertEquals(Map.of("recent_collections", List.of(), "omitted_collections", 1L), take(recent));
    }

    @Test
    void collectionsOfThisVirtualMachineAreNoted() {
        RecentCollections recent = RecentCollections.ofThisJvm();
        recent.listen();
        long begin = System.nanoTime();
        byte[] used = new byte[1 << 20];
        System.gc();
        Map<String, Object> requested = new LinkedHashMap<>();
        Pool.await(() -> {
            collections(take(recent)).stream().filter(each -> each.get("cause").equals("System.gc()")).forEach(requested::putAll);
            return !requested.isEmpty();
        }, () -> "collection");
        assertTrue((long) requested.get("after") >= used.length, requested.toString());
        assertTrue((long) requested.get("before") <= ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getMax());
        long sinceMs = (System.nanoTime() - begin) / 1_000_000;
        assertTrue((long) requested.get("took_ms") <= sinceMs + 1, requested.toString());
        assertTrue((long) requested.get("ended_ms_ago") <= sinceMs + 1, requested.toString());
    }
}
