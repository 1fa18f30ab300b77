package dev.millstream.operator;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * An event. Its values are decoded when they are read.
 *
 * <p>A name is that of a field, {@code message} for the text of the event, {@code timestamp} for its time, an attribute of its source, or
 * {@code meta.host}, {@code meta.source}, {@code meta.file}. Attributes and {@code meta} names can only be read.
 *
 * <p>Values are {@link String}, {@link Long} or {@link java.math.BigInteger}, {@link Double}, {@link Boolean}, {@link Instant},
 * {@link Map} and {@link List}; JSON's null and an absent field are null.
 *
 * <p>Every method throws {@link IllegalStateException} after the end of the batch.
 */
public interface Row {
    /** Returns the value of a field; null if there is none. */
    Object get(String name);

    /** Returns whether the event has the field, also if it is JSON's null. */
    boolean has(String name);

    /** Returns the value of a field as text; null if there is none. */
    String text(String name);

    /**
     * Returns the value of a field as an integer.
     *
     * @param otherwise returned if the field is absent or no integer in the range of a long, as a number or as text
     */
    long integer(String name, long otherwise);

    /**
     * Returns the value of a field as a number.
     *
     * @param otherwise returned if the field is absent or no number, as a number or as text
     */
    double number(String name, double otherwise);

    /** Returns the text of the event; never null. */
    String message();

    /** Returns the time of the event: its own, or that at which it was read. */
    Instant timestamp();

    /** Returns the names of its fields, in order, without {@code message}, {@code timestamp} and attributes. */
    List<String> names();

    /**
     * Sets a field.
     *
     * @param value text, a number, a boolean, a {@link java.time.Instant} or another time, a map, a collection or an array of such values,
     *     or null for JSON's null; any other {@link CharSequence}, a character, an enum constant and a UUID become text
     * @throws IllegalArgumentException the value is of another type or not finite, or the field cannot be set
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

    /** Removes a field; does nothing if there is none. */
    void remove(String name);

    /** Drops the event. Events that were emitted for it remain. */
    void drop();

    /**
     * Adds an event after this one, with the same origin, time and attributes, and with the given fields only.
     *
     * @param fields what {@link #set(String, Object)} takes, by name; {@code message} is the text, by default that of this event
     */
    void emit(Map<String, ?> fields);

    /**
     * Returns the part of the message after the occurrence of {@code left} with this index up to the next {@code right}.
     *
     * @param left not empty
     * @param index 0 for the first occurrence; occurrences do not overlap
     * @param right if empty or missing, the part extends to the end
     * @return null if there are not that many occurrences
     */
    String between(String left, int index, String right);
}
