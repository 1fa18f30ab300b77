package dev.millstream.operator.groovy;

import dev.millstream.collector.Collector;
import dev.millstream.operator.runtime.CollectorLanguage;
import dev.millstream.operator.runtime.CollectorSpec;
import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.CompiledCollector;
import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.Language;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.util.List;

/**
 * Rules and collectors in Groovy.
 *
 * <p>A rule is the body of a script: {@code row.level = row.level.toUpperCase()}. It is compiled statically as far as types are known, and
 * without types if the type checker cannot follow it. {@link Allowed} says what it may use.
 *
 * <p>A script that comes with what an earlier registration compiled is not compiled again. {@link ScriptCompilers} refers to the compiler,
 * this class must not: loading it takes most of the time until the first rule of a process runs.
 */
public final class GroovyLanguage implements Language, CollectorLanguage {
    /** Creates the language. */
    public GroovyLanguage() {}

    @Override
    public CompiledRule compile(RuleSource source, OperatorSpec spec) throws CompileException {
        Request request = new Request(ScriptKind.RULE, source, spec, List.of(), null);
        return request.load((type, script, compiled) -> new GroovyRule(type, script, compiled));
    }

    @Override
    public CompiledCollector compileCollector(RuleSource source, CollectorSpec spec, ClassLoader jars) throws CompileException {
        Request request = new Request(ScriptKind.COLLECTOR, source, spec.code(), spec.jars(), jars);
        return request.load((type, script, compiled) -> new CompiledCollector(type.asSubclass(Collector.class), compiled));
    }

    /**
     * Makes a rule or a collector.
     *
     * @param <T> which of them
     */
    private interface Maker<T> {
        /** Makes it of its class; the text of {@link CompiledScripts} is null if the specification does not ask for it. */
        T make(Class<?> type, CompiledScript script, String compiled) throws ReflectiveOperationException;
    }

    /**
     * A script that is to be registered.
     *
     * @param jars the paths of its jars
     * @param loader finds the classes of its jars; null if it has none
     */
    private record Request(ScriptKind kind, RuleSource source, OperatorSpec spec, List<String> jars, ClassLoader loader) {
        <T> T load(Maker<T> maker) throws CompileException {
            GroovyRuntime.initialize();
            // Before the compilation: a jar that is replaced meanwhile changes the next key.
            long key = ScriptKey.of(kind, source, spec, jars);
            T known = loadCompiled(key, maker);
            if (known != null) {
                return known;
            }
            try {
                CompiledScript script = kind == ScriptKind.RULE
                        ? ScriptCompilers.rule(source, spec)
                        : ScriptCompilers.collector(source, spec, loader);
                return define(script, spec.keepsCompiled() ? CompiledScripts.write(script, key) : null, maker);
            } catch (ReflectiveOperationException | LinkageError failure) {
                CompileErrors.throwLackOfMemory(failure);
                throw new CompileException("the " + kind.title + " cannot be loaded: " + failure, source.name(), 0, 0);
            }
        }

        /** Returns what an earlier registration compiled; null if the script has to be compiled. */
        private <T> T loadCompiled(long key, Maker<T> maker) {
            CompiledScript script = CompiledScripts.read(source.compiled(), key);
            try {
                return script == null ? null : define(script, spec.keepsCompiled() ? source.compiled() : null, maker);
            } catch (ReflectiveOperationException | LinkageError failure) {
                // Compiling it again may say what is wrong.
                return null;
            }
        }

        private <T> T define(CompiledScript script, String compiled, Maker<T> maker) throws ReflectiveOperationException {
            return maker.make(new RuleLoader(loader).define(script), script, compiled);
        }
    }
}
