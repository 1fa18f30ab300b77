package dev.millstream.javaagent;

import dev.millstream.client.FakeAgent;
import java.util.List;
import java.util.stream.Stream;

/** Reads the data that a fake agent has received. */
final class Received {
    private final FakeAgent agent;

    Received(FakeAgent agent) {
        this.agent = agent;
    }

    /** Waits until events are recorded. All event types start together. */
    void awaitStart() throws InterruptedException {
        Child.await("the first metrics", () -> !points("jvm.cpu.user").isEmpty());
    }

    /** Returns the points of a metric, or the log events with a name, whose tags contain a text. */
    List<List<String>> points(String name, String tag) {
        return agent.points.stream().filter(point -> point.get(2).equals(name))
            .filter(point -> point.get(4).contains(tag)).toList();
    }

    List<List<String>> points(String name) {
        return points(name, "");
    }

    long sum(String name, String tag) {
        return points(name, tag).stream().mapToLong(point -> Long.parseLong(point.get(3))).sum();
    }

    Stream<Double> values(String name, String tag) {
        return points(name, tag).stream().map(point -> Double.parseDouble(point.get(3)));
    }

    List<List<String>> logs() {
        return agent.points.stream().filter(Received::isLog).toList();
    }

    private static boolean isLog(List<String> point) {
        return point.get(0).equals("log");
    }

    /** Returns a field of a log event, or an empty string. */
    static String field(List<String> log, String key) {
        for (int at = 6; at < log.size(); at += 2) {
            if (log.get(at).equals(key)) {
                return log.get(at + 1);
            }
        }
        return "";
    }
}
