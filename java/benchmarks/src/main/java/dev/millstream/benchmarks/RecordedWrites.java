package dev.millstream.benchmarks;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import jdk.jfr.EventType;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** A recording of this process with at most one enabled event type, in files of bounded size. Checks the recorded events. */
final class RecordedWrites {
    /** Maximum recording size, which exceeds the output of a fork's warm-up and measurement. */
    private static final long BYTES_MAX = 256 << 20;

    /** Maximum number of events whose content is checked. */
    private static final int CHECKED_MAX = 10_000;

    /** Tolerance for times, because recorded times are ticks in units of nanoseconds and may be off by one tick. */
    private static final Duration ROUNDING = Duration.ofNanos(100);

    private final WriteCase writeCase;
    private final Recording recording = new Recording();

    private RecordedWrites(WriteCase writeCase) {
        this.writeCase = writeCase;
    }

    /** Starts the recording of a case. */
    static RecordedWrites start(WriteCase writeCase) throws IOException {
        RecordedWrites started = new RecordedWrites(writeCase);
        Recording recording = started.recording;
        Map<String, String> settings = new HashMap<>();
        for (EventType type : FlightRecorder.getFlightRecorder().getEventTypes()) {
            settings.put(type.getName() + "#enabled", "false");
        }
        writeCase.settings().forEach((name, value) -> settings.put(writeCase.event() + "#" + name, value));
        recording.setSettings(settings);
        recording.setToDisk(true);
        recording.setMaxSize(BYTES_MAX);
        recording.start();
        return started;
    }

    /** Stops the recording and checks its events. Returns the number of events. */
    long stop(long bytes, int port) throws IOException {
        recording.stop();
        Path file = Files.createTempFile("writes", ".jfr");
        try {
            recording.dump(file);
            recording.close();
            return check(file, bytes, port);
        } finally {
            Files.delete(file);
        }
    }

    private long check(Path file, long bytes, int port) throws IOException {
        List<RecordedEvent> events = new ArrayList<>();
        long type = -1;
        try (RecordingFile recorded = new RecordingFile(file)) {
            while (recorded.hasMoreEvents() && events.size() < CHECKED_MAX) {
                RecordedEvent event = recorded.readEvent();
                if (isOurs(event, port)) {
                    type = event.getEventType().getId();
                    events.add(event);
                }
            }
        }
        boolean isMissing = events.isEmpty() && writeCase.recordsAll();
        if (isMissing || !events.isEmpty() && writeCase.recordsNone()) {
            throw failure(events.size() + " events of " + writeCase.event());
        }
        events.forEach(event -> checkData(event, bytes));
        if (writeCase.hasDuration()) {
            checkTimes(events);
        }
        return events.isEmpty() ? 0 : EventCount.of(file, type);
    }

    /**
     * Returns whether an event is a measured write. JMH also reports to its parent process over a socket, which the JDK's event records as
     * well.
     */
    private boolean isOurs(RecordedEvent event, int port) {
        return event.getEventType().getName().equals(writeCase.event()) && event.getInt("port") == port;
    }

    private void checkData(RecordedEvent event, long bytes) {
        boolean isRight = event.getString("host").equals(Loopback.HOST)
                && event.getString("address").equals(Loopback.ADDRESS)
                && event.getLong("bytesWritten") == bytes;
        Duration duration = writeCase.hasDuration() ? event.getDuration() : event.getDuration("writeTime");
        if (!isRight || duration.isZero() || duration.toNanos() < writeCase.thresholdNs()) {
            throw failure("not a write of " + bytes + " bytes to " + Loopback.HOST + ": " + event);
        }
    }

    /** Checks that no event begins before the end of the previous event, because only one thread writes. */
    private void checkTimes(List<RecordedEvent> events) {
        events.sort(Comparator.comparing(RecordedEvent::getStartTime));
        Instant end = Instant.MIN;
        for (RecordedEvent event : events) {
            if (event.getStartTime().plus(ROUNDING).isBefore(end)) {
                throw failure("an event begins before " + end + ": " + event);
            }
            end = event.getEndTime();
        }
    }

    private IllegalStateException failure(String what) {
        return new IllegalStateException(writeCase + ": " + what);
    }
}
