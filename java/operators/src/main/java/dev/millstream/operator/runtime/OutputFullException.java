package dev.millstream.operator.runtime;

/** Signals that the output of a call exceeds a limit. */
final class OutputFullException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Creates the exception for values that exceed the largest buffer. */
    OutputFullException() {
        this("the output of this call exceeds `expansion`");
    }

    OutputFullException(String message) {
        super(message);
    }
}
