package dev.millstream.operator.runtime;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;

/** Events since the agent's previous poll, for the agent's recorder. Any thread may use this class. */
final class Recent {
    private final int max;
    private final Queue<Event> events = new ArrayDeque<>();
    private long omitted;

    /**
     * Creates an empty list.
     *
     * @param max the maximum number of kept events
     */
    Recent(int max) {
        this.max = max;
    }

    /** An activity that has ended. */
    interface Event {
        /**
         * Returns the members of the event's JSON object.
         *
         * @param nowNs the current time, on the clock of {@link System#nanoTime}
         */
        Map<String, Object> json(long nowNs);
    }

    /** Adds an event, and removes the oldest event if there are too many. */
    synchronized void add(Event event) {
        if (events.size() == max) {
            events.remove();
            omitted++;
        }
        events.add(event);
    }

    /** Counts an event that cannot be added. */
    synchronized void omit() {
        omitted++;
    }

    private synchronized List<Event> take() {
        List<Event> taken = new ArrayList<>(events);
        events.clear();
        return taken;
    }

    private synchronized long takeOmitted() {
        long taken = omitted;
        omitted = 0;
        return taken;
    }

    /**
     * Moves all events to the members of a JSON object.
     *
     * @param name the name of the events in the members, such as {@code calls}
     */
    void moveTo(Map<String, Object> members, String name) {
        List<Event> taken = take();
        // This time is later than the end of every event.
        long nowNs = System.nanoTime();
        members.put("recent_" + name, taken.stream().map(event -> event.json(nowNs)).toList());
        members.put("omitted_" + name, takeOmitted());
    }
}
