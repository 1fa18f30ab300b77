package dev.millstream.operator.runtime;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A call of a collector that has ended.
 *
 * @param component the id of its source
 * @param endedNs when it ended, as {@link System#nanoTime} says it
 * @param rows the number of events that the agent took
 * @param bytes the bytes of their messages and fields
 * @param outcome how it ended: {@link #DONE}, {@link #FAILED}, {@link #TIMEOUT} or {@link #STOPPED}
 */
record CollectorCall(String component, long endedNs, long tookNs, long rows, long bytes, String outcome) implements Recent.Event {
    static final String DONE = "done";
    static final String FAILED = "failed";
    /** It exceeded its timeout. */
    static final String TIMEOUT = "timeout";
    /** It was interrupted because its source is stopping. */
    static final String STOPPED = "stopped";

    @Override
    public Map<String, Object> json(long nowNs) {
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("component", component);
        json.put("ended_us_ago", TimeUnit.NANOSECONDS.toMicros(nowNs - endedNs));
        json.put("took_us", TimeUnit.NANOSECONDS.toMicros(tookNs));
        json.put("rows", rows);
        json.put("bytes", bytes);
        json.put("outcome", outcome);
        return json;
    }
}
