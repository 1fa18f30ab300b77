package dev.millstream.client;

/** Severity of a log event. */
public enum LogLevel {
    /** Normal operation. */
    INFO("info"),
    /** Unexpected, but handled. */
    WARN("warn"),
    /** A failure. */
    ERROR("error");

    /** Name of the level in the protocol. */
    final String text;

    LogLevel(String text) {
        this.text = text;
    }
}
