package dev.millstream.operator.groovy;

import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.util.List;
import java.util.Map;

/** Compiles rules for tests. */
final class Rules {
    static final Map<String, String> FIELDS = Map.of(
            "level", "text", "service", "text", "host", "text", "status", "int", "ratio", "float", "ok", "bool", "at", "time");

    private Rules() {}

    static OperatorSpec spec(List<String> allow, String... removed) {
        return new OperatorSpec("test", "groovy", List.of(), null, null, Map.of(), FIELDS, null, 0, allow, List.of(removed));
    }

    static CompiledRule compile(String script) throws CompileException {
        return compile(script, spec(List.of()));
    }

    static CompiledRule compile(String script, OperatorSpec spec) throws CompileException {
        return new GroovyLanguage().compile(new RuleSource("script", script), spec);
    }

    /** Runs a script for a row. */
    static void run(String script, MapRow row) throws Throwable {
        compile(script).instance().process(row);
    }
}
