package dev.millstream.collector;

import java.util.Map;

/**
 * Receives the events of a collector call. Not thread-safe; valid only during the call.
 *
 * <p>Every method throws {@link CollectorStoppedException} when the source is stopping, when the call has exceeded its timeout, and after
 * the call has ended.
 */
public interface Events {
    /**
     * Adds an event, which is sent when {@code collect} returns or earlier. Blocks while the agent is not accepting events.
     *
     * @param message the event's text, at most 1 MiB in UTF-8
     * @throws IllegalArgumentException if the message is null or too long; nothing is added
     */
    void add(String message);

    /**
     * Adds an event with fields; see {@link #add(String)}.
     *
     * @param fields values by name. A value is null, a boolean, an integer or floating-point number, a text, a {@link java.time.Instant},
     *     or a list or map of such values. A name is 1 to 256 bytes. {@code timestamp}, an Instant, sets the event's time. Numbers that are
     *     not finite become null
     * @throws IllegalArgumentException if a field has a different name or a value of another type, or if the fields exceed 1 MiB of JSON or
     *     are nested too deeply; nothing is added
     */
    void add(String message, Map<String, ?> fields);

    /** Sends the events that were added so far. Blocks while the agent is not accepting events. */
    void flush();
}
