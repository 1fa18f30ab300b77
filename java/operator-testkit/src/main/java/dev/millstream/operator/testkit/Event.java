package dev.millstream.operator.testkit;

import java.time.Instant;
import java.util.Map;

/**
 * An event that leaves an operator or a collector.
 *
 * @param fields the values of its fields as {@link dev.millstream.operator.Row#get} returns them, without text and time
 * @param message its text
 * @param timestamp its time; null if a collector has not set it
 */
public record Event(Map<String, Object> fields, String message, Instant timestamp) {}
