package dev.millstream.javaagent;

import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/** Finds the service name if no option sets it. */
final class ServiceName {
    /** Main class of {@code java File.java}. The file is the next word of the command. */
    private static final String SOURCE_LAUNCHER = "com.sun.tools.javac.launcher.";

    private static final String UNKNOWN = "java";

    private ServiceName() {}

    /** Returns the first name in the OpenTelemetry and Datadog variables and properties, or else the name of the main class or jar. */
    static String find(UnaryOperator<String> variable, UnaryOperator<String> property) {
        return Stream.of(variable.apply("OTEL_SERVICE_NAME"), property.apply("otel.service.name"), variable.apply("DD_SERVICE"),
                property.apply("dd.service"))
            .filter(name -> name != null && !name.isBlank())
            .findFirst()
            .orElseGet(() -> ofCommand(property.apply("sun.java.command")));
    }

    /** Returns the simple name of the main class or jar of a command with arguments. */
    private static String ofCommand(String command) {
        String[] words = command == null ? new String[0] : command.strip().split(" +");
        if (words.length == 0 || words[0].isEmpty()) {
            return UNKNOWN;
        }
        boolean isSource = words[0].contains(SOURCE_LAUNCHER) && words.length > 1;
        return simple(isSource ? words[1] : words[0]);
    }

    /** Shortens a.b.Main, module/a.b.Main, /path/name.jar and /path/Main.java. */
    private static String simple(String main) {
        String last = main.substring(main.lastIndexOf('/') + 1);
        for (String ending : new String[] {".jar", ".java"}) {
            if (last.endsWith(ending) && last.length() > ending.length()) {
                return last.substring(0, last.length() - ending.length());
            }
        }
        String name = last.substring(last.lastIndexOf('.') + 1);
        return name.isEmpty() ? UNKNOWN : name;
    }
}
