package dev.millstream.collector;

import java.util.Map;

/** What a collector knows about its place. */
public interface CollectorContext {
    /** Returns the id of the source in the agent's configuration. */
    String component();

    /** Returns the option {@code options} of the source; it cannot be changed. */
    Map<String, Object> options();

    /** Returns what the collector keeps while it is registered, over its calls; empty after a restart of the agent. */
    Map<String, Object> state();
}
