package dev.millstream.operator.testkit;

import dev.millstream.operator.runtime.LocalAnswer;
import dev.millstream.operator.runtime.LocalRequest;
import dev.millstream.operator.runtime.LocalValue;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Converts events to a request, and the response to events. */
final class Results {
    private static final String MESSAGE = "message";
    private static final String TIMESTAMP = "timestamp";

    private final List<? extends Map<String, ?>> events;
    private final LocalAnswer answer;

    Results(List<? extends Map<String, ?>> events, LocalAnswer answer) {
        this.events = events;
        this.answer = answer;
    }

    /** Returns a request for the events. An event without a time gets the time 0. */
    static LocalRequest request(List<? extends Map<String, ?>> events, Map<String, String> attributes) {
        LocalRequest request = new LocalRequest(events.size());
        long[] times = new long[events.size()];
        for (int row = 0; row < times.length; row++) {
            Map<String, ?> event = events.get(row);
            times[row] = ChronoUnit.NANOS.between(Instant.EPOCH, time(event));
            for (Map.Entry<String, ?> field : event.entrySet()) {
                if (!field.getKey().equals(TIMESTAMP)) {
                    request.set(row, field.getKey(), field.getValue());
                }
            }
        }
        return request.times(times).segment(0, times.length, attributes);
    }

    private static Instant time(Map<String, ?> event) {
        return event.get(TIMESTAMP) instanceof Instant time ? time : Instant.EPOCH;
    }

    List<Result> all() {
        List<Result> results = new ArrayList<>();
        for (int row = 0; row < events.size(); row++) {
            results.add(new Result(event(row), answer.dropped().contains(row), failure(row), emitted(row)));
        }
        return results;
    }

    private String failure(int row) {
        return answer.failed().stream()
                .filter(failed -> failed.row() == row)
                .map(LocalAnswer.Failed::message)
                .findFirst()
                .orElse(null);
    }

    private Event event(int row) {
        Map<String, Object> fields = new LinkedHashMap<>();
        events.get(row).forEach((name, value) -> fields.put(name, LocalValue.of(value).value()));
        fields.putIfAbsent(MESSAGE, "");
        fields.put(TIMESTAMP, time(events.get(row)));
        return changed(fields, row);
    }

    private List<Event> emitted(int row) {
        List<Event> emitted = new ArrayList<>();
        for (int at = 0; at < answer.emitted().size(); at++) {
            if (answer.emitted().get(at) == row) {
                Map<String, Object> fields = new LinkedHashMap<>();
                Event parent = event(row);
                fields.put(MESSAGE, parent.message());
                fields.put(TIMESTAMP, parent.timestamp());
                emitted.add(changed(fields, events.size() + at));
            }
        }
        return emitted;
    }

    /** Returns the event with the values that the operator has set. */
    private Event changed(Map<String, Object> fields, int row) {
        answer.changed().forEach((name, values) -> {
            LocalValue value = values[row];
            if (value != null && value.isAbsent()) {
                fields.remove(name);
            } else if (value != null) {
                fields.put(name, value.value());
            }
        });
        String message = String.valueOf(fields.remove(MESSAGE));
        Instant timestamp = (Instant) fields.remove(TIMESTAMP);
        return new Event(fields, message, timestamp);
    }
}
