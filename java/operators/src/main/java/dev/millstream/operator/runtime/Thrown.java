package dev.millstream.operator.runtime;

/** Describes exceptions in the failures of rows. */
final class Thrown {
    private static final int MESSAGE_LENGTH_MAX = 2000;

    private Thrown() {}

    /** Returns the reason for an exception, one of REASON. */
    static long reason(Throwable thrown) {
        if (thrown instanceof WrongTypeException) {
            return Layout.REASON_WRONG_TYPE;
        }
        if (thrown instanceof OutputFullException) {
            return Layout.REASON_OUTPUT_FULL;
        }
        if (thrown instanceof OutOfMemoryError) {
            return Layout.REASON_OUT_OF_MEMORY;
        }
        return thrown instanceof StackOverflowError ? Layout.REASON_STACK_OVERFLOW : Layout.REASON_EXCEPTION;
    }

    /** Returns the class and the text of an exception. Never fails, and never returns an empty text. */
    static String text(Throwable thrown) {
        try {
            Throwable told = cause(thrown);
            String text = told instanceof OutputFullException ? told.getMessage() : told.toString();
            return text.length() <= MESSAGE_LENGTH_MAX ? text : text.substring(0, MESSAGE_LENGTH_MAX) + "...";
        } catch (Throwable error) {
            return thrown.getClass().getName();
        }
    }

    /** Returns the cause of an error that only wraps another error, such as a lack of memory for a class; otherwise the error. */
    private static Throwable cause(Throwable thrown) {
        boolean isWrapper = thrown instanceof BootstrapMethodError || thrown instanceof ExceptionInInitializerError;
        return isWrapper && thrown.getCause() != null ? thrown.getCause() : thrown;
    }

    /** Returns the text of an exception, with the line of the rule that threw it. */
    static String text(Throwable thrown, String ruleName, CompiledRule rule) {
        String text = text(thrown);
        try {
            int line = rule.line(thrown);
            return line > 0 ? text + " (" + ruleName + " line " + line + ")" : text;
        } catch (Throwable error) {
            return text;
        }
    }

    /**
     * Returns the line in which an exception was thrown.
     *
     * @param className the class of the rule or collector; includes nested classes
     * @return 0 if no stack frame belongs to the class
     */
    static int line(Throwable thrown, String className) {
        for (StackTraceElement frame : thrown.getStackTrace()) {
            boolean isOwn = frame.getClassName().equals(className) || frame.getClassName().startsWith(className + "$");
            if (isOwn && frame.getLineNumber() > 0) {
                return frame.getLineNumber();
            }
        }
        return 0;
    }
}
