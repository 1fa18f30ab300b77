package dev.millstream.operator.groovy;

import dev.millstream.collector.Collector;
import dev.millstream.operator.groovy.ScriptCompiler.Compiled;
import dev.millstream.operator.runtime.CollectorLanguage;
import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.Language;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.codehaus.groovy.control.CompilerConfiguration;

/**
 * Rules and collectors in Groovy.
 *
 * <p>A rule is the body of a script: {@code row.level = row.level.toUpperCase()}. It is compiled statically as far as types are known, and
 * without types if the type checker cannot follow it. {@link Allowed} says what it may use.
 */
public final class GroovyLanguage implements Language, CollectorLanguage {
    static final CompilerConfiguration CONFIGURATION = configuration();
    private static final ClassLoader PARENT = GroovyLanguage.class.getClassLoader();
    private static final CompileLoader LOADER = new CompileLoader(PARENT, CONFIGURATION);

    private List<String> allowedBefore;
    private AllowList allowList;

    /** Creates the language. */
    public GroovyLanguage() {}

    @Override
    public CompiledRule compile(RuleSource source, OperatorSpec spec) throws CompileException {
        Map<String, String> declared = spec.fields() == null ? Map.of() : spec.fields();
        ScriptCompiler compiler = new ScriptCompiler(ScriptKind.RULE, LOADER, allowList(spec), removedCalls(spec), declared);
        Compiled compiled = compiler.compile(source);
        try {
            return new GroovyRule(new RuleLoader(PARENT, null).define(compiled), compiled.compilation());
        } catch (ReflectiveOperationException | LinkageError failure) {
            throw new CompileException("the rule cannot be loaded: " + failure, source.name(), 0, 0);
        }
    }

    @Override
    public Class<? extends Collector> compileCollector(RuleSource source, OperatorSpec spec, ClassLoader jars) throws CompileException {
        RuleLoader loader = new RuleLoader(PARENT, jars);
        CompileLoader classes = jars == null ? LOADER : new CompileLoader(loader, CONFIGURATION);
        AllowList allowed = new AllowList(orEmpty(spec.allow())).withNamesFrom(loader);
        ScriptCompiler compiler = new ScriptCompiler(ScriptKind.COLLECTOR, classes, allowed, removedCalls(spec), Map.of());
        try {
            return loader.define(compiler.compile(source)).asSubclass(Collector.class);
        } catch (ReflectiveOperationException | LinkageError failure) {
            throw new CompileException("the collector cannot be loaded: " + failure, source.name(), 0, 0);
        }
    }

    private static RemovedCalls removedCalls(OperatorSpec spec) {
        return new RemovedCalls(orEmpty(spec.removedCalls()));
    }

    /** Returns the allow-list of the operator; that of the last rule if it is the same. */
    private synchronized AllowList allowList(OperatorSpec spec) {
        List<String> more = orEmpty(spec.allow());
        if (allowList == null || !more.equals(allowedBefore)) {
            allowList = new AllowList(more).withNamesFrom(PARENT);
            allowedBefore = more;
        }
        return allowList;
    }

    private static List<String> orEmpty(List<String> list) {
        return list == null ? List.of() : list;
    }

    private static CompilerConfiguration configuration() {
        CompilerConfiguration configuration = new CompilerConfiguration(CompilerConfiguration.DEFAULT);
        configuration.setDisabledGlobalASTTransformations(Set.of("groovy.grape.GrabAnnotationTransformation"));
        configuration.setTargetBytecode(CompilerConfiguration.JDK17);
        return configuration;
    }
}
