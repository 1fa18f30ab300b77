package dev.millstream.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedFrame;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs the source file as a user does, in the same JVM version as the test. */
class SlowRemoteTest {
    private static final Path SOURCE = Path.of("src/main/java/dev/millstream/examples/SlowRemote.java");
    private static final int REQUESTS = 6;

    /** Less than the remote's delay, because part of the delay passes while the client sends the header. */
    private static final Duration SLOW = Duration.ofMillis(250);

    /** Generous timeout for busy hosts. */
    private static final long TIMEOUT_S = 90;

    private static Process start(String... arguments) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        builder.command().addAll(List.of(arguments));
        return builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    /** Reads the line with the address. The JVM prints other lines when a recording starts. */
    private static URL address(Process service) throws IOException {
        String line = service.inputReader().readLine();
        while (line != null && !line.startsWith("pid " + service.pid() + ", http")) {
            line = service.inputReader().readLine();
        }
        return URI.create(line.substring(line.indexOf("http"))).toURL();
    }

    private static boolean isSlowWrite(RecordedEvent event) {
        return event.getEventType().getName().equals("jdk.SocketWrite") && event.getString("address").equals("127.0.0.3")
            && event.getDuration().compareTo(SLOW) >= 0;
    }

    private static boolean isOwn(RecordedFrame frame) {
        boolean isType = frame.getMethod().getType().getName().equals(SlowRemote.class.getName());
        return isType && frame.getMethod().getName().equals("sendDocument");
    }

    @Test
    void the_slow_write_is_recorded(@TempDir Path dir) throws Exception {
        Path file = dir.resolve("slow.jfr");
        Process service = start("-XX:StartFlightRecording:filename=" + file, SOURCE.toString());
        try {
            URL address = address(service);
            for (int request = 0; request < REQUESTS; request++) {
                String response = new String(address.openStream().readAllBytes(), StandardCharsets.UTF_8);
                assertTrue(response.matches("127\\.0\\.0\\.2 \\d+ ms, 127\\.0\\.0\\.3 \\d+ ms\n"), response);
            }
            service.destroy();
            assertTrue(service.waitFor(TIMEOUT_S, TimeUnit.SECONDS), "the service does not exit on SIGTERM");
        } finally {
            service.destroyForcibly();
        }
        List<RecordedEvent> slow = RecordingFile.readAllEvents(file).stream().filter(SlowRemoteTest::isSlowWrite).toList();
        assertTrue(!slow.isEmpty(), "no slow write");
        assertTrue(slow.stream().allMatch(event -> event.getStackTrace().getFrames().stream().anyMatch(SlowRemoteTest::isOwn)), "stack");
    }

    @Test
    void it_ends_after_the_seconds_of_its_argument() throws Exception {
        Process service = start(SOURCE.toString(), "1");
        try {
            assertTrue(service.waitFor(TIMEOUT_S, TimeUnit.SECONDS), "the service does not exit");
            assertEquals(0, service.exitValue());
        } finally {
            service.destroyForcibly();
        }
    }
}
