package dev.millstream.javaagent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import org.junit.jupiter.api.Test;

class OptionsTest {
    private final List<String> warnings = new ArrayList<>();

    private Options parse(String text) {
        return Options.parse(text, warnings::add);
    }

    @Test
    void defaults_are_those_of_the_documentation() {
        for (String text : new String[] {null, "", ","}) {
            Options options = parse(text);
            assertEquals(new Address(Path.of("/run/millstream/metric.stream.sock"), null, 0), options.address);
            assertNull(options.service);
            assertEquals(Duration.ofMillis(20), options.threshold);
            assertEquals(Duration.ofMillis(100), options.logThreshold);
            assertEquals(100, options.maxTagValues);
            assertEquals(EnumSet.of(Group.SOCKET, Group.FILE, Group.GC, Group.SAFEPOINT, Group.MONITOR, Group.CPU), options.groups);
        }
        assertEquals(List.of(), warnings);
    }

    @Test
    void every_option_is_read() {
        String durations = "threshold=500us,log_threshold=2s";
        Options options = parse("udp=[::1]:8125,events=gc,exceptions,cpu,service=a b," + durations + ",stack=true,max_tag_values=7");
        assertEquals(new Address(null, "::1", 8125), options.address);
        assertEquals(EnumSet.of(Group.GC, Group.EXCEPTIONS, Group.CPU), options.groups);
        assertEquals("a b", options.service);
        assertEquals(Duration.ofNanos(500_000), options.threshold);
        assertEquals(Duration.ofSeconds(2), options.logThreshold);
        assertTrue(options.hasStack);
        assertEquals(7, options.maxTagValues);
        assertNull(parse("log_threshold=off").logThreshold);
        assertEquals(List.of(), warnings);
    }

    @Test
    void each_invalid_option_is_one_line_and_its_default() {
        List<String> invalid = List.of("udp=host", "udp=:1", "udp=h:0", "udp=h:x", "threshold=20", "threshold=ms", "threshold=-1ms",
            "threshold=99999999999999999999s", "log_threshold=no", "stack=yes", "max_tag_values=0", "max_tag_values=many", "events=gc,none", "events=",
            "socket=", "colour=blue", "word", "=");
        for (String option : invalid) {
            warnings.clear();
            Options options = parse(option + ",service=s");
            assertEquals(1, warnings.size(), () -> option + ": " + warnings);
            assertTrue(warnings.get(0).contains("'" + option + "'"), () -> warnings.get(0));
            assertEquals("s", options.service);
            assertEquals(Address.DEFAULT, options.address);
            assertEquals(Duration.ofMillis(20), options.threshold);
            assertEquals(Group.DEFAULT, options.groups);
        }
    }
}
