package dev.millstream.operator.groovy;

import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.util.List;
import java.util.Map;

/** Compiles Groovy scripts. The first use of this class loads Groovy's compiler, which takes a second. */
final class ScriptCompilers {
    private static final ClassLoader PARENT = ScriptCompilers.class.getClassLoader();
    private static final CompileLoader LOADER = new CompileLoader(PARENT);

    private static List<String> allowedBefore;
    private static AllowList allowList;

    private ScriptCompilers() {}

    /** Compiles a rule. */
    static CompiledScript rule(RuleSource source, OperatorSpec spec) throws CompileException {
        Map<String, String> declared = spec.fields() == null ? Map.of() : spec.fields();
        AllowList allowed = allowList(orEmpty(spec.allow()));
        return new ScriptCompiler(ScriptKind.RULE, LOADER, allowed, removedCalls(spec), declared).compile(source);
    }

    /**
     * Compiles a collector.
     *
     * @param jars finds the classes in the collector's jars; null if the collector has no jars
     */
    static CompiledScript collector(RuleSource source, OperatorSpec spec, ClassLoader jars) throws CompileException {
        ClassLoader loader = new RuleLoader(jars);
        CompileLoader classes = jars == null ? LOADER : new CompileLoader(loader);
        AllowList allowed = new AllowList(orEmpty(spec.allow())).withNamesFrom(loader);
        return new ScriptCompiler(ScriptKind.COLLECTOR, classes, allowed, removedCalls(spec), Map.of()).compile(source);
    }

    private static RemovedCalls removedCalls(OperatorSpec spec) {
        return new RemovedCalls(orEmpty(spec.removedCalls()));
    }

    /** Returns an operator's allow-list, and reuses the previous allow-list if it is the same. */
    private static synchronized AllowList allowList(List<String> more) {
        if (allowList == null || !more.equals(allowedBefore)) {
            allowList = new AllowList(more).withNamesFrom(PARENT);
            allowedBefore = more;
        }
        return allowList;
    }

    private static List<String> orEmpty(List<String> list) {
        return list == null ? List.of() : list;
    }
}
