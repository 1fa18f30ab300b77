package dev.millstream.operator.runtime;

import com.sun.management.GarbageCollectionNotificationInfo;
import com.sun.management.GcInfo;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.MemoryUsage;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import javax.management.Notification;
import javax.management.NotificationEmitter;
import javax.management.NotificationListener;
import javax.management.openmbean.CompositeData;

/**
 * The garbage collections since the agent's previous poll.
 *
 * <p>The JVM reports each collection on a separate thread, soon after the collection has ended. A Java runtime without the
 * {@code jdk.management} module reports no collections.
 */
final class RecentCollections implements NotificationListener {
    /** Exceeds the number of collections in the second between two polls, unless the heap is full. */
    static final int MAX = 256;

    private final Set<String> heapPools;
    private final Recent collections = new Recent(MAX);

    /**
     * Creates an empty list.
     *
     * @param heapPools the names of the heap's memory pools
     */
    RecentCollections(Set<String> heapPools) {
        this.heapPools = heapPools;
    }

    /**
     * A collection.
     *
     * @param endedNs the end time, on the clock of {@link System#nanoTime}
     * @param tookMs the duration; the JVM reports no finer unit
     * @param before the heap bytes in use before the collection
     * @param after the heap bytes in use after the collection
     */
    record Collection(String collector, String cause, long endedNs, long tookMs, long before, long after) implements Recent.Event {
        @Override
        public Map<String, Object> json(long nowNs) {
            Map<String, Object> json = new LinkedHashMap<>();
            json.put("collector", collector);
            json.put("cause", cause);
            json.put("ended_ms_ago", TimeUnit.NANOSECONDS.toMillis(nowNs - endedNs));
            json.put("took_ms", tookMs);
            json.put("before", before);
            json.put("after", after);
            return json;
        }
    }

    /** Returns the collections of this JVM. There are none until {@link #listen}. */
    static RecentCollections ofThisJvm() {
        return new RecentCollections(ManagementFactory.getMemoryPoolMXBeans().stream()
                .filter(pool -> pool.getType() == MemoryType.HEAP)
                .map(MemoryPoolMXBean::getName)
                .collect(Collectors.toSet()));
    }

    /** Starts recording collections. */
    void listen() {
        for (Object collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            if (collector instanceof NotificationEmitter emitter) {
                emitter.addNotificationListener(this, null, null);
            }
        }
    }

    @Override
    public void handleNotification(Notification notification, Object handback) {
        try {
            if (notification.getType().equals(GarbageCollectionNotificationInfo.GARBAGE_COLLECTION_NOTIFICATION)) {
                // The notification's time is the end of the collection.
                long agoMs = Math.max(System.currentTimeMillis() - notification.getTimeStamp(), 0);
                long endedNs = System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(agoMs);
                add(GarbageCollectionNotificationInfo.from((CompositeData) notification.getUserData()), endedNs);
            }
        } catch (Throwable error) {
            // There is no memory, or the jdk.management module is missing.
            collections.omit();
        }
    }

    private void add(GarbageCollectionNotificationInfo told, long endedNs) {
        GcInfo collection = told.getGcInfo();
        long before = heapBytes(collection.getMemoryUsageBeforeGc());
        long after = heapBytes(collection.getMemoryUsageAfterGc());
        add(new Collection(told.getGcName(), told.getGcCause(), endedNs, collection.getDuration(), before, after));
    }

    void add(Collection collection) {
        collections.add(collection);
    }

    /** Returns the bytes in use in the heap's memory pools. */
    long heapBytes(Map<String, MemoryUsage> pools) {
        return pools.entrySet().stream()
                .filter(pool -> heapPools.contains(pool.getKey()))
                .mapToLong(pool -> pool.getValue().getUsed())
                .sum();
    }

    /** Moves the collections to the members of a JSON object. */
    void moveTo(Map<String, Object> members) {
        collections.moveTo(members, "collections");
    }
}
