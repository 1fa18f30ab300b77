package dev.millstream.operator.runtime;

import java.util.List;
import java.util.Map;

/**
 * The configuration of a transform's operator.
 *
 * @param component the id of the transform
 * @param language {@code groovy}, {@code aviator} or {@code class}
 * @param rules the rules, in the order in which they run; empty for {@code class}
 * @param jar the path of the jar for {@code class}
 * @param className the name of the class in the jar
 * @param options options for a class
 * @param fields declared types of fields by name: {@code text}, {@code int}, {@code float}, {@code bool} or {@code time}
 * @param output the field that receives the value of an expression, or null
 * @param rowTimeoutMs the maximum time of a rule for a row; 0 for no limit
 * @param allow additional classes that scripts may use, or packages such as {@code java.text.*}
 * @param removedCalls names of methods whose calls are removed from scripts if the result is not used
 * @param keepsCompiled whether the response to the registration contains the compiled scripts
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
        List<String> removedCalls,
        boolean keepsCompiled) {
    /** Creates a specification whose compiled scripts are not kept. */
    public OperatorSpec(
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
            List<String> removedCalls) {
        this(component, language, rules, jar, className, options, fields, output, rowTimeoutMs, allow, removedCalls, false);
    }

    /** Returns the specification without compiled scripts, which would take memory as long as the operator exists. */
    OperatorSpec withoutCompiled() {
        List<RuleSource> sources = rules.stream().map(rule -> new RuleSource(rule.name(), rule.text())).toList();
        return new OperatorSpec(
                component, language, sources, jar, className, options, fields, output, rowTimeoutMs, allow, removedCalls, keepsCompiled);
    }
}
