package dev.millstream.operator.testkit;

import java.time.Instant;
import java.util.Map;

/**
 * An output event of an operator or a collector.
 *
 * @param fields field values as {@link dev.millstream.operator.Row#get} returns them, without text and time
 * @param message the text
 * @param timestamp the time; null if a collector has not set the time
 */
public record Event(Map<String, Object> fields, String message, Instant timestamp) {}
