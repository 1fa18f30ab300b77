package dev.millstream.operator.runtime;

import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Operators with rules in Java, for tests. */
final class Operators {
    private Operators() {}

    static OperatorSpec spec(long rowTimeoutMs, int rules) {
        List<RuleSource> sources = java.util.stream.IntStream.range(0, rules)
                .mapToObj(number -> new RuleSource("rule" + number, ""))
                .toList();
        return new OperatorSpec("component", "test", sources, null, null, Map.of(), Map.of(), null, rowTimeoutMs, List.of(), List.of());
    }

    /** Registers rules that all workers share. */
    static int register(Rule... rules) {
        return register(0, rules);
    }

    static int register(long rowTimeoutMs, Rule... rules) {
        List<CompiledRule> compiled = Arrays.stream(rules).map(Operators::compiled).toList();
        return LocalWorker.register(spec(rowTimeoutMs, rules.length), compiled);
    }

    static CompiledRule compiled(Rule rule) {
        return new CompiledRule() {
            @Override
            public Rule instance() {
                return rule;
            }

            @Override
            public List<String> fields() {
                return List.of();
            }

            @Override
            public int removedCalls() {
                return 0;
            }

            @Override
            public int dynamicCalls() {
                return 0;
            }

            @Override
            public int line(Throwable thrown) {
                return 0;
            }
        };
    }
}
