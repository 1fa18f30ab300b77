package dev.millstream.operator.runtime;

/** What a call makes exceeds a limit. */
final class OutputFullException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Says that the values exceed the largest buffer. */
    OutputFullException() {
        this("the output of this call exceeds expansion");
    }

    OutputFullException(String message) {
        super(message);
    }
}
