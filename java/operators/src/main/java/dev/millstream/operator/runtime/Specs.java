package dev.millstream.operator.runtime;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Converts an {@link OperatorSpec} or a {@link CollectorSpec} from and to JSON. */
final class Specs {
    private Specs() {}

    /** Parses an operator's JSON. Absent members are empty. */
    static OperatorSpec parse(byte[] json) {
        return operator(map(Json.parse(json, json.length)));
    }

    private static OperatorSpec operator(Map<?, ?> spec) {
        return new OperatorSpec(
                text(spec.get("component"), ""),
                text(spec.get("language"), ""),
                list(spec.get("rules")).stream().map(Specs::rule).toList(),
                text(spec.get("jar"), null),
                text(spec.get("class_name"), null),
                options(spec.get("options")),
                fields(spec.get("fields")),
                text(spec.get("output"), null),
                number(spec.get("row_timeout_ms"), 0),
                texts(spec.get("allow")),
                texts(spec.get("removed_calls")),
                spec.get("keep_compiled") == Boolean.TRUE);
    }

    /** Parses a collector's JSON. Absent members are empty. */
    static CollectorSpec parseCollector(byte[] json) {
        Map<?, ?> spec = map(Json.parse(json, json.length));
        long threads = number(spec.get("threads"), CollectorSpec.THREADS_DEFAULT);
        return new CollectorSpec(
                operator(spec),
                texts(spec.get("jars")),
                number(spec.get("interval_ms"), 0),
                number(spec.get("timeout_ms"), 0),
                (int) Math.min(Math.max(threads, 1), CollectorSpec.THREADS_MAX));
    }

    /** Returns the JSON of a specification in UTF-8. */
    static byte[] json(OperatorSpec spec) {
        return Json.bytes(members(spec));
    }

    /** Returns the JSON of a specification in UTF-8. */
    static byte[] json(CollectorSpec spec) {
        Map<String, Object> json = members(spec.code());
        json.put("jars", spec.jars());
        json.put("interval_ms", spec.intervalMs());
        json.put("timeout_ms", spec.timeoutMs());
        json.put("threads", spec.threads());
        return Json.bytes(json);
    }

    private static Map<String, Object> members(OperatorSpec spec) {
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("component", spec.component());
        json.put("language", spec.language());
        json.put("rules", spec.rules().stream().map(Specs::members).toList());
        json.put("jar", spec.jar());
        json.put("class_name", spec.className());
        json.put("options", spec.options());
        json.put("fields", spec.fields());
        json.put("output", spec.output());
        json.put("row_timeout_ms", spec.rowTimeoutMs());
        json.put("allow", spec.allow());
        json.put("removed_calls", spec.removedCalls());
        json.put("keep_compiled", spec.keepsCompiled());
        return json;
    }

    private static Map<String, Object> members(RuleSource rule) {
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("name", rule.name());
        json.put("text", rule.text());
        json.put("compiled", rule.compiled());
        return json;
    }

    private static RuleSource rule(Object rule) {
        Map<?, ?> members = map(rule);
        return new RuleSource(text(members.get("name"), "script"), text(members.get("text"), ""), text(members.get("compiled"), null));
    }

    private static String text(Object value, String otherwise) {
        return value == null ? otherwise : value.toString();
    }

    private static long number(Object value, long otherwise) {
        return value instanceof Long number ? number : otherwise;
    }

    private static Map<?, ?> map(Object value) {
        return value instanceof Map<?, ?> members ? members : Map.of();
    }

    private static List<?> list(Object value) {
        return value instanceof List<?> values ? values : List.of();
    }

    private static List<String> texts(Object value) {
        return list(value).stream().map(String::valueOf).toList();
    }

    private static Map<String, Object> options(Object value) {
        Map<String, Object> options = new LinkedHashMap<>();
        map(value).forEach((name, option) -> options.put(String.valueOf(name), option));
        return options;
    }

    private static Map<String, String> fields(Object value) {
        Map<String, String> fields = new LinkedHashMap<>();
        map(value).forEach((name, type) -> fields.put(String.valueOf(name), String.valueOf(type)));
        return fields;
    }
}
