package dev.millstream.operator.runtime;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A collector call that has ended.
 *
 * @param component the source id
 * @param endedNs the end time, on the clock of {@link System#nanoTime}
 * @param rows the number of events that the agent has accepted
 * @param bytes the bytes of these events' messages and fields
 * @param outcome the way in which the call ended: {@link #DONE}, {@link #FAILED}, {@link #TIMEOUT} or {@link #STOPPED}
 */
record CollectorCall(String component, long endedNs, long tookNs, long rows, long bytes, String outcome) implements Recent.Event {
    static final String DONE = "done";
    static final String FAILED = "failed";
    /** The call exceeded its timeout. */
    static final String TIMEOUT = "timeout";
    /** The call was interrupted because its source is stopping. */
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
