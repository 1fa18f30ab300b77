package dev.millstream.operator.testkit;

import java.time.Instant;
import java.util.Map;

/**
 * An event that leaves an operator.
 *
 * @param fields the values of its fields as {@link dev.millstream.operator.Row#get} returns them, without text and time
 * @param message its text
 * @param timestamp its time
 */
public record Event(Map<String, Object> fields, String message, Instant timestamp) {}
