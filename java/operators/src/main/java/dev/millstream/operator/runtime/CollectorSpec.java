package dev.millstream.operator.runtime;

import java.util.List;

/**
 * The configuration of a source's collector.
 *
 * @param code the collector's code, in the form of an operator
 * @param jars additional jars that the code can use
 * @param intervalMs the time from one call to the next; 0 for a collector that blocks
 * @param timeoutMs the maximum duration of a call; 0 for no limit
 * @param threads the maximum number of threads for all collectors
 */
public record CollectorSpec(OperatorSpec code, List<String> jars, long intervalMs, long timeoutMs, int threads) {
    /** Returns the specification without compiled scripts, which would take memory as long as the collector exists. */
    CollectorSpec withoutCompiled() {
        return new CollectorSpec(code.withoutCompiled(), jars, intervalMs, timeoutMs, threads);
    }

    /** Maximum number of threads in a configuration. */
    static final int THREADS_MAX = 256;

    /** Default number of threads. */
    static final int THREADS_DEFAULT = 16;
}
