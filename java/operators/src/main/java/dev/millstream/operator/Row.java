package dev.millstream.operator;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * An event. Values are decoded when they are read.
 *
 * <p>A name is a field name, {@code message} for the event's text, {@code timestamp} for the event's time, an attribute of the source, or
 * {@code meta.host}, {@code meta.source}, {@code meta.file}. Attributes and {@code meta} names are read-only.
 *
 * <p>Values are {@link String}, {@link Long} or {@link java.math.BigInteger}, {@link Double}, {@link Boolean}, {@link Instant}, {@link Map}
 * and {@link List}. JSON's null and an absent field are null.
 *
 * <p>Every method throws {@link IllegalStateException} after the end of the batch.
 */
public interface Row {
    /** Returns the value of a field, or null if the field is absent. */
    Object get(String name);

    /** Returns whether the event has the field, even if the value is JSON's null. */
    boolean has(String name);

    /** Returns the value of a field as text, or null if the field is absent. */
    String text(String name);

    /**
     * Returns the value of a field as an integer.
     *
     * @param otherwise the result if the field is absent, or is neither an integer in the range of a long nor such an integer as text
     */
    long integer(String name, long otherwise);

    /**
     * Returns the value of a field as a number.
     *
     * @param otherwise the result if the field is absent, or is neither a number nor a number as text
     */
    double number(String name, double otherwise);

    /** Returns the event's text; never null. */
    String message();

    /** Returns the event's time, which is the time at which the event was read unless the event has a time. */
    Instant timestamp();

    /** Returns the field names in order, without {@code message}, {@code timestamp} and attributes. */
    List<String> names();

    /**
     * Sets a field.
     *
     * @param value text, a number, a boolean, a {@link java.time.Instant} or another time, a map, a collection or an array of such values,
     *     or null for JSON's null; any other {@link CharSequence}, a character, an enum constant and a UUID become text
     * @throws IllegalArgumentException if the value has another type or is not finite, or if the field cannot be set
     */
    void set(String name, Object value);

    /** Sets a field to an integer. */
    void set(String name, long value);

    /** Sets a field to a number; see {@link #set(String, Object)}. */
    void set(String name, double value);

    /** Sets a field to a boolean. */
    void set(String name, boolean value);

    /** Sets a field to a text of one character. */
    default void set(String name, char value) {
        set(name, String.valueOf(value));
    }

    /** Removes a field. Does nothing if the field is absent. */
    void remove(String name);

    /** Drops the event. Events that were emitted for this event remain. */
    void drop();

    /**
     * Adds an event after this event, with the same origin, time and attributes, and with only the given fields.
     *
     * @param fields values that {@link #set(String, Object)} accepts, by name; {@code message} is the text, by default the text of this
     *     event
     */
    void emit(Map<String, ?> fields);

    /**
     * Returns the part of the message between an occurrence of {@code left} and the next {@code right}.
     *
     * @param left not empty
     * @param index the occurrence of {@code left}, 0 for the first; occurrences do not overlap
     * @param right if empty or missing, the part extends to the end
     * @return the part, or null if {@code left} does not occur that often
     */
    String between(String left, int index, String right);
}
