package dev.millstream.operator.testkit;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * The result of an operator for one event.
 *
 * @param event the event; unchanged if the operator failed
 * @param isDropped whether the operator dropped the event
 * @param failure the reason why the operator failed, or null
 * @param emitted the events that the operator emitted for the event
 */
public record Result(Event event, boolean isDropped, String failure, List<Event> emitted) {
    /** Returns the event's field values. */
    public Map<String, Object> fields() {
        return event.fields();
    }

    /** Returns the event's text. */
    public String message() {
        return event.message();
    }

    /** Returns the event's time. */
    public Instant timestamp() {
        return event.timestamp();
    }
}
