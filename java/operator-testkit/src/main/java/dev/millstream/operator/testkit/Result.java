package dev.millstream.operator.testkit;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * What an operator made of an event.
 *
 * @param event the event; as it was if the operator failed
 * @param isDropped whether it was dropped
 * @param failure why the operator failed, or null
 * @param emitted the events that were emitted for it
 */
public record Result(Event event, boolean isDropped, String failure, List<Event> emitted) {
    /** Returns the values of the fields of the event. */
    public Map<String, Object> fields() {
        return event.fields();
    }

    /** Returns the text of the event. */
    public String message() {
        return event.message();
    }

    /** Returns the time of the event. */
    public Instant timestamp() {
        return event.timestamp();
    }
}
