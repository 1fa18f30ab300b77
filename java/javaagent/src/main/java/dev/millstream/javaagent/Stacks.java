package dev.millstream.javaagent;

import jdk.jfr.consumer.RecordedFrame;
import jdk.jfr.consumer.RecordedMethod;
import jdk.jfr.consumer.RecordedStackTrace;

/** Formats stacks in Java's format. */
final class Stacks {
    private static final int FRAMES_MAX = 32;

    private Stacks() {}

    static String text(RecordedStackTrace stack) {
        StringBuilder text = new StringBuilder();
        stack.getFrames().stream().limit(FRAMES_MAX).forEach(frame -> append(text, frame));
        return text.toString();
    }

    private static void append(StringBuilder text, RecordedFrame frame) {
        RecordedMethod method = frame.getMethod();
        String name = method == null || method.getType() == null ? "unknown" : TypeNames.readable(method.getType().getName());
        text.append(text.isEmpty() ? "" : "\n").append("at ").append(name).append('.');
        text.append(method == null ? "unknown" : method.getName()).append('(').append(file(name));
        if (frame.getLineNumber() > 0) {
            text.append(':').append(frame.getLineNumber());
        }
        text.append(')');
    }

    /** Returns the file name of a class. Events contain no file names, but a top-level class is usually in the file with the same name. */
    static String file(String type) {
        String simple = type.substring(type.lastIndexOf('.') + 1);
        int end = simple.indexOf('$', 1);
        return (end < 0 ? simple : simple.substring(0, end)) + ".java";
    }
}
