package dev.millstream.collector;

import java.util.Map;

/** The configuration and state of a collector. */
public interface CollectorContext {
    /** Returns the id of the source in the agent's configuration. */
    String component();

    /** Returns the {@code options} option of the source as an unmodifiable map. */
    Map<String, Object> options();

    /** Returns a map that persists across calls while the collector is registered. The map is empty after an agent restart. */
    Map<String, Object> state();
}
