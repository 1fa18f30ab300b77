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
 * <p>A rule is the body of a script, such as {@code row.level = row.level.toUpperCase()}. A rule is compiled statically as far as types are
 * known, and without types if the type checker cannot handle the rule. {@link Allowed} lists the classes and methods that a rule may use.
 *
 * <p>A script that includes the result of an earlier compilation is not recompiled. {@link ScriptCompilers} refers to the compiler. This
 * class must not, because loading the compiler takes most of the time until the first rule of a process runs.
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
     * Creates a rule or a collector.
     *
     * @param <T> the created type
     */
    private interface Maker<T> {
        /**
         * Creates the rule or collector from its class. {@code compiled} is the text from {@link CompiledScripts}, or null if the
         * specification does not request the text.
         */
        T make(Class<?> type, CompiledScript script, String compiled) throws ReflectiveOperationException;
    }

    /**
     * A script to register.
     *
     * @param jars the paths of the script's jars
     * @param loader finds the classes in the script's jars; null if the script has no jars
     */
    private record Request(ScriptKind kind, RuleSource source, OperatorSpec spec, List<String> jars, ClassLoader loader) {
        <T> T load(Maker<T> maker) throws CompileException {
            GroovyRuntime.initialize();
            // Compute the key before the compilation, so that a jar that is replaced in the meantime changes the next key.
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

        /** Returns the result of an earlier compilation, or null if the script must be compiled. */
        private <T> T loadCompiled(long key, Maker<T> maker) {
            CompiledScript script = CompiledScripts.read(source.compiled(), key);
            try {
                return script == null ? null : define(script, spec.keepsCompiled() ? source.compiled() : null, maker);
            } catch (ReflectiveOperationException | LinkageError failure) {
                // Recompiling the script may reveal the cause.
                return null;
            }
        }

        private <T> T define(CompiledScript script, String compiled, Maker<T> maker) throws ReflectiveOperationException {
            return maker.make(new RuleLoader(loader).define(script), script, compiled);
        }
    }
}
