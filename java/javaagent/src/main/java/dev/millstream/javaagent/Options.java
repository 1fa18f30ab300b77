package dev.millstream.javaagent;

import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import java.util.function.Consumer;

/** Agent options in the form {@code key=value}, separated by commas. The value of {@code events} may itself contain commas. */
final class Options {
    /** The valid keys, for messages. */
    private static final String KEYS = "socket, udp, service, threshold, log_threshold, stack, max_tag_values, events";

    /** Maximum of the {@code max_tag_values} option, because each tag value has handles in the client. */
    private static final int TAG_VALUES_MAX = 10_000;

    Address address = Address.DEFAULT;
    /** Service name, or null if the option is not set. */
    String service;
    /** Minimum duration of recorded socket, file and monitor events. */
    Duration threshold = Duration.ofMillis(20);
    /** Minimum duration of events that become log events, or null for no log events. */
    Duration logThreshold = Duration.ofMillis(100);
    boolean hasStack;
    /** Maximum number of distinct values per tag. */
    int maxTagValues = 100;
    Set<Group> groups = EnumSet.copyOf(Group.DEFAULT);

    private Options() {}

    /** Parses options. For each invalid option, passes a line to {@code warn} and uses the default. */
    static Options parse(String text, Consumer<String> warn) {
        Options options = new Options();
        String[] parts = text == null ? new String[0] : text.split(",");
        for (int at = 0; at < parts.length; at++) {
            StringBuilder option = new StringBuilder(parts[at].strip());
            while (option.indexOf("events=") == 0 && at + 1 < parts.length && parts[at + 1].indexOf('=') < 0) {
                option.append(',').append(parts[++at].strip());
            }
            if (!option.isEmpty()) {
                options.set(option.toString(), warn);
            }
        }
        return options;
    }

    private void set(String option, Consumer<String> warn) {
        int equals = option.indexOf('=');
        String key = equals < 0 ? option : option.substring(0, equals);
        try {
            if (equals < 0 || !set(key, option.substring(equals + 1))) {
                warn.accept("ignoring option '" + option + "'; use KEY=VALUE, where KEY is one of " + KEYS);
            }
        } catch (RuntimeException error) {
            warn.accept("ignoring option '" + option + "'; " + usage(key));
        }
    }

    /** Sets an option. Returns whether the key is known. Throws if the value is invalid. */
    private boolean set(String key, String value) {
        switch (key) {
            case "socket" -> address = Address.socket(value);
            case "udp" -> address = Address.udp(value);
            case "service" -> service = value.isEmpty() ? null : value;
            case "threshold" -> threshold = duration(value);
            case "log_threshold" -> logThreshold = value.equals("off") ? null : duration(value);
            case "stack" -> hasStack = bool(value);
            case "max_tag_values" -> maxTagValues = count(value);
            case "events" -> groups = groups(value);
            default -> {
                return false;
            }
        }
        return true;
    }

    private static String usage(String key) {
        return switch (key) {
            case "udp" -> "use udp=HOST:PORT";
            case "threshold" -> "use a duration, such as threshold=20ms";
            case "log_threshold" -> "use a duration, such as log_threshold=100ms, or log_threshold=off";
            case "stack" -> "use stack=true or stack=false";
            case "max_tag_values" -> "use a number from 1 to " + TAG_VALUES_MAX;
            case "events" -> "use a list of socket, file, gc, safepoint, monitor, exceptions, allocation, cpu";
            default -> "use a path";
        };
    }

    private static Duration duration(String text) {
        String unit = text.replaceFirst("^[0-9]+", "");
        long number = Long.parseLong(text.substring(0, text.length() - unit.length()));
        return switch (unit) {
            case "us" -> Duration.ofNanos(Math.multiplyExact(number, 1000));
            case "ms" -> Duration.ofMillis(number);
            case "s" -> Duration.ofMillis(Math.multiplyExact(number, 1000));
            default -> throw new IllegalArgumentException("unknown unit");
        };
    }

    private static boolean bool(String text) {
        if (!text.equals("true") && !text.equals("false")) {
            throw new IllegalArgumentException("neither true nor false");
        }
        return text.equals("true");
    }

    private static int count(String text) {
        int count = Integer.parseInt(text);
        if (count < 1 || count > TAG_VALUES_MAX) {
            throw new IllegalArgumentException("out of range");
        }
        return count;
    }

    private static Set<Group> groups(String text) {
        Set<Group> groups = EnumSet.noneOf(Group.class);
        for (String name : text.split(",")) {
            groups.add(Group.of(name));
        }
        return groups;
    }
}
