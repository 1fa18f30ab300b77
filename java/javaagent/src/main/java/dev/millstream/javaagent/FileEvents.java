package dev.millstream.javaagent;

import dev.millstream.client.Counter;
import dev.millstream.client.Timer;
import java.util.ArrayList;
import java.util.List;
import jdk.jfr.consumer.RecordedEvent;

/** Metrics and log events for file reads, writes and syncs. */
final class FileEvents {
    private static final int DIRECTORIES = 2;

    private final Bounded<String, Series> series;
    private final SlowEvents slow;

    FileEvents(Metrics metrics, SlowEvents slow) {
        this.slow = slow;
        series = metrics.byTag("file.directory", tags -> new Series(metrics, tags));
    }

    /** Handles for a directory. */
    private static final class Series {
        final Tags tags;
        final Timer readDuration;
        final Timer writeDuration;
        final Timer forceDuration;
        final Counter readBytes;
        final Counter writeBytes;

        Series(Metrics metrics, Tags tags) {
            this.tags = tags;
            readDuration = metrics.timer("jvm.file.read.duration_ms", tags);
            writeDuration = metrics.timer("jvm.file.write.duration_ms", tags);
            forceDuration = metrics.timer("jvm.file.force.duration_ms", tags);
            readBytes = metrics.counter("jvm.file.read.bytes", tags);
            writeBytes = metrics.counter("jvm.file.write.bytes", tags);
        }
    }

    void read(RecordedEvent event) {
        Series of = series.get(directory(event.getString("path")));
        long bytes = Math.max(0, event.getLong("bytesRead"));
        of.readDuration.record(milliseconds(event));
        of.readBytes.add(bytes);
        log(event, "read from", of.tags, bytes);
    }

    void write(RecordedEvent event) {
        Series of = series.get(directory(event.getString("path")));
        long bytes = Math.max(0, event.getLong("bytesWritten"));
        of.writeDuration.record(milliseconds(event));
        of.writeBytes.add(bytes);
        log(event, "write to", of.tags, bytes);
    }

    void force(RecordedEvent event) {
        Series of = series.get(directory(event.getString("path")));
        of.forceDuration.record(milliseconds(event));
        log(event, "force of", of.tags, -1);
    }

    private static double milliseconds(RecordedEvent event) {
        return event.getDuration().toNanos() / 1e6;
    }

    /** Returns the first two directories of a path. */
    static String directory(String path) {
        if (path == null || path.isEmpty()) {
            return "unknown";
        }
        String[] names = path.split("/+");
        boolean isAbsolute = path.startsWith("/");
        List<String> directories = new ArrayList<>();
        // The last name is the file. The first name of an absolute path is empty.
        for (int at = isAbsolute ? 1 : 0; at < names.length - 1 && directories.size() < DIRECTORIES; at++) {
            directories.add(names[at]);
        }
        return directories.isEmpty() ? isAbsolute ? "/" : "." : (isAbsolute ? "/" : "") + String.join("/", directories);
    }

    /** Logs an event. A negative number of bytes means that the number is unknown. */
    private void log(RecordedEvent event, String action, Tags tags, long bytes) {
        if (!slow.isSlow(event)) {
            return;
        }
        String path = event.getString("path") == null ? "unknown" : event.getString("path");
        String message = "file " + action + " " + path + " took " + SlowEvents.milliseconds(event.getDuration()) + " ms";
        if (bytes < 0) {
            slow.log(event, message, tags, "file.path", path);
        } else {
            slow.log(event, message + ", " + bytes + " bytes", tags, "bytes", Long.toString(bytes), "file.path", path);
        }
    }
}
