package dev.millstream.operator;

import java.util.Map;

/** The configuration of an operator. */
public interface Context {
    /** Returns the id of the transform in the agent's configuration. */
    String component();

    /** Returns the {@code options} option of the transform. */
    Map<String, Object> options();
}
