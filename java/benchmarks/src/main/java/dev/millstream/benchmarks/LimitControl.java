package dev.millstream.benchmarks;

import java.util.Set;
import jdk.jfr.SettingControl;

/** The {@code limit} setting of {@link MirroredWriteEvent}: the minimum duration of a recorded write, in nanoseconds. */
public final class LimitControl extends SettingControl {
    static final String NAME = "limit";

    private static volatile long ns;

    /** Creates the control; JFR calls this. */
    public LimitControl() {}

    static long ns() {
        return ns;
    }

    @Override
    public String combine(Set<String> values) {
        return Long.toString(values.stream().mapToLong(Long::parseLong).min().orElse(0));
    }

    @Override
    public void setValue(String value) {
        ns = Long.parseLong(value);
    }

    @Override
    public String getValue() {
        return Long.toString(ns);
    }
}
