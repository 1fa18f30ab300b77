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
 * The garbage collections since the agent asked last.
 *
 * <p>The virtual machine tells of each one on a separate thread, soon after it has ended. A Java without the module
 * {@code jdk.management} tells of none.
 */
final class RecentCollections implements NotificationListener {
    /** More than a virtual machine makes in the second between two questions, unless its heap is full. */
    static final int MAX = 256;

    private final Set<String> heapPools;
    private final Recent collections = new Recent(MAX);

    /**
     * Creates it without collections.
     *
     * @param heapPools the names of the memory pools that are parts of the heap
     */
    RecentCollections(Set<String> heapPools) {
        this.heapPools = heapPools;
    }

    /**
     * A collection.
     *
     * @param endedNs when it ended, as {@link System#nanoTime} says it
     * @param tookMs how long it took; the virtual machine says no more than that
     * @param before the bytes of the heap that were used before it
     * @param after the bytes of the heap that were used after it
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

    /** Returns the collections of this virtual machine: none until {@link #listen}. */
    static RecentCollections ofThisJvm() {
        return new RecentCollections(ManagementFactory.getMemoryPoolMXBeans().stream()
                .filter(pool -> pool.getType() == MemoryType.HEAP)
                .map(MemoryPoolMXBean::getName)
                .collect(Collectors.toSet()));
    }

    /** Begins to note collections. */
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
                // The time of the notification is that of the end of the collection.
                long agoMs = Math.max(System.currentTimeMillis() - notification.getTimeStamp(), 0);
                long endedNs = System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(agoMs);
                add(GarbageCollectionNotificationInfo.from((CompositeData) notification.getUserData()), endedNs);
            }
        } catch (Throwable error) {
            // There is no memory, or no module jdk.management.
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

    /** Returns the used bytes of the memory pools that are parts of the heap. */
    long heapBytes(Map<String, MemoryUsage> pools) {
        return pools.entrySet().stream()
                .filter(pool -> heapPools.contains(pool.getKey()))
                .mapToLong(pool -> pool.getValue().getUsed())
                .sum();
    }

    /** Moves the collections into the members of a JSON object. */
    void moveTo(Map<String, Object> members) {
        collections.moveTo(members, "collections");
    }
}
