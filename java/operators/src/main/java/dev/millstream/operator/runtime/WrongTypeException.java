package dev.millstream.operator.runtime;

/** Signals a value that no field can have, or a field that cannot be set. */
final class WrongTypeException extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    WrongTypeException(String message) {
        super(message);
    }

    /** Returns the text for users, without the name of this class. */
    @Override
    public String toString() {
        return "java.lang.IllegalArgumentException: " + getMessage();
    }
}
