package dev.millstream.operator.runtime;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How much memory the heap keeps beyond what is in use.
 *
 * <p>The free part that a collection leaves can be changed while the virtual machine runs. With a small one, a full collection returns
 * memory to the system; the collectors Serial, G1 and Shenandoah follow it, ZGC returns memory by itself, and Parallel keeps it.
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
     * Collects, and returns memory to the system.
     *
     * @return JSON with the bytes of the heap after that
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

    /** Lets the heap keep what its options say again: it is collected less often. */
    void relax() {
        set(MAX_FREE, maxFree);
        set(MIN_FREE, minFree);
    }

    /** Returns the value of an option; null if this virtual machine has none of that name. */
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
            // The collector does not take the value: the heap keeps its size.
            return;
        }
    }
}
