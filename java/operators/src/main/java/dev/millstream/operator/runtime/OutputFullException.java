package dev.millstream.operator.runtime;

/** The values of a call exceed the largest buffer. */
final class OutputFullException extends RuntimeException {
    private static final long serialVersionUID = 1;

    OutputFullException() {
        super("the output of this call exceeds expansion");
    }
}
