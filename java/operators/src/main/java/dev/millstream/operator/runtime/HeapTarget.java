package dev.millstream.operator.runtime;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Controls how much memory the heap keeps beyond the memory in use.
 *
 * <p>The free ratio of the heap after a collection can change while the JVM runs. With a small ratio, a full collection returns memory to
 * the system. The Serial, G1 and Shenandoah collectors follow the ratio, ZGC returns memory by itself, and Parallel keeps the memory.
 */
final class HeapTarget {
    private static final String MIN_FREE = "MinHeapFreeRatio";
    private static final String MAX_FREE = "MaxHeapFreeRatio";
    private static final String MIN_FREE_TIGHT = "5";
    private static final String MAX_FREE_TIGHT = "10";

    private final HotSpotDiagnosticMXBean options = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
    private final String minFree = value(MIN_FREE);
    private final String maxFree = value(MAX_FREE);

    /**
     * Collects garbage, and returns memory to the system.
     *
     * @return JSON with the heap size in bytes after the collection
     */
    byte[] tighten() {
        set(MIN_FREE, MIN_FREE_TIGHT);
        set(MAX_FREE, MAX_FREE_TIGHT);
        System.gc();
        MemoryUsage heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage();
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("heap_used", heap.getUsed());
        answer.put("heap_committed", heap.getCommitted());
        return Json.bytes(answer);
    }

    /** Restores the free ratio in the JVM options, so that the heap is collected less often. */
    void relax() {
        set(MAX_FREE, maxFree);
        set(MIN_FREE, minFree);
    }

    /** Returns the value of an option, or null if this JVM has no option with this name. */
    private String value(String name) {
        try {
            return options == null ? null : options.getVMOption(name).getValue();
        } catch (IllegalArgumentException error) {
            return null;
        }
    }

    private void set(String name, String value) {
        if (options == null || value == null || value(name) == null) {
            return;
        }
        try {
            options.setVMOption(name, value);
        } catch (IllegalArgumentException error) {
            // The collector does not accept the value, so the heap keeps its size.
            return;
        }
    }
}
