package dev.millstream.collector;

import java.util.Map;

/**
 * Where a collector puts events. Not thread-safe; belongs to the call.
 *
 * <p>Every method throws {@link CollectorStoppedException} when the source is stopping, when the call has exceeded its timeout, and after
 * the end of the call.
 */
public interface Events {
    /**
     * Adds an event; sent at the latest when {@code collect} returns. Waits while the agent takes no more.
     *
     * @param message its text, at most 1 MiB in UTF-8
     * @throws IllegalArgumentException the message is null or too long; nothing is added
     */
    void add(String message);

    /**
     * Adds an event with fields, see {@link #add(String)}.
     *
     * @param fields null, booleans, integer and floating-point numbers, text, {@link java.time.Instant}, lists and maps of such values, by
     *     names of 1 to 256 bytes. {@code timestamp}, an Instant, sets the time of the event. Numbers that are not finite become null
     * @throws IllegalArgumentException a field has another name or a value of another type, or the fields exceed 1 MiB of JSON or are nested
     *     too deeply; nothing is added
     */
    void add(String message, Map<String, ?> fields);

    /** Sends what was added so far; waits while the agent takes no more. */
    void flush();
}
