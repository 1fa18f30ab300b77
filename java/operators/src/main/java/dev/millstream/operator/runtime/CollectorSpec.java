package dev.millstream.operator.runtime;

import java.util.List;

/**
 * What the configuration of a source says about its collector.
 *
 * @param code its code, as for an operator
 * @param jars further jars that its code sees
 * @param intervalMs the time from one call to the next; 0 for a collector that blocks
 * @param timeoutMs the longest a call may take; 0 for any time
 * @param threads the most threads of all collectors
 */
public record CollectorSpec(OperatorSpec code, List<String> jars, long intervalMs, long timeoutMs, int threads) {
    /** Returns the specification without compiled scripts, which would take memory as long as the collector exists. */
    CollectorSpec withoutCompiled() {
        return new CollectorSpec(code.withoutCompiled(), jars, intervalMs, timeoutMs, threads);
    }

    /** Most threads that a configuration can ask for. */
    static final int THREADS_MAX = 256;

    /** The threads if it does not say. */
    static final int THREADS_DEFAULT = 16;
}
