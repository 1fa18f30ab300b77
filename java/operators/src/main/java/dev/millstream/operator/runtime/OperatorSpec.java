package dev.millstream.operator.runtime;

import java.util.List;
import java.util.Map;

/**
 * What the configuration of a transform says about its operator.
 *
 * @param component the id of the transform
 * @param language {@code groovy}, {@code aviator} or {@code class}
 * @param rules the rules, in the order in which they run; empty for {@code class}
 * @param jar the path of the jar of {@code class}
 * @param className the name of the class in that jar
 * @param options options for a class
 * @param fields declared types of fields by name: {@code text}, {@code int}, {@code float}, {@code bool} or {@code time}
 * @param output the field that takes the value of an expression, or null
 * @param rowTimeoutMs the longest a rule may take for a row; 0 for any time
 * @param allow further classes that scripts may use, or packages such as {@code java.text.*}
 * @param removedCalls names of methods whose calls are removed from scripts where their value is not used
 */
public record OperatorSpec(
        String component,
        String language,
        List<RuleSource> rules,
        String jar,
        String className,
        Map<String, Object> options,
        Map<String, String> fields,
        String output,
        long rowTimeoutMs,
        List<String> allow,
        List<String> removedCalls) {}
