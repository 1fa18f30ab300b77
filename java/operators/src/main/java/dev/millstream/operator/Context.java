package dev.millstream.operator;

import java.util.Map;

/** What an operator knows about its place. */
public interface Context {
    /** Returns the id of the transform in the agent's configuration. */
    String component();

    /** Returns the option {@code options} of the transform. */
    Map<String, Object> options();
}
