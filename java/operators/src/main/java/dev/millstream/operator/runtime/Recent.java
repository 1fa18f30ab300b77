package dev.millstream.operator.runtime;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;

/** Events since the agent asked last, which are for its recorder. Used by any thread. */
final class Recent {
    private final int max;
    private final Queue<Event> events = new ArrayDeque<>();
    private long omitted;

    /**
     * Creates it without events.
     *
     * @param max the most events that it keeps
     */
    Recent(int max) {
        this.max = max;
    }

    /** Something that has ended. */
    interface Event {
        /**
         * Returns the members of its JSON object.
         *
         * @param nowNs the current time, as {@link System#nanoTime} says it
         */
        Map<String, Object> json(long nowNs);
    }

    /** Adds an event, which takes the place of the oldest one if there are too many. */
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
     * Moves all events into the members of a JSON object.
     *
     * @param name what they are called there, such as {@code calls}
     */
    void moveTo(Map<String, Object> members, String name) {
        List<Event> taken = take();
        // Later than the end of each of them.
        long nowNs = System.nanoTime();
        members.put("recent_" + name, taken.stream().map(event -> event.json(nowNs)).toList());
        members.put("omitted_" + name, takeOmitted());
    }
}
