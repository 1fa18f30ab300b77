package dev.millstream.operator.groovy;

import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.Language;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.codehaus.groovy.GroovyBugError;
import org.codehaus.groovy.control.CompilationFailedException;
import org.codehaus.groovy.control.CompilerConfiguration;

/**
 * Rules in Groovy.
 *
 * <p>A rule is the body of a script: {@code row.level = row.level.toUpperCase()}. It is compiled statically as far as types are known, and
 * without types if the type checker cannot follow it. {@link Allowed} says what it may use.
 */
public final class GroovyLanguage implements Language {
    private static final CompilerConfiguration CONFIGURATION = configuration();
    private static final ClassLoader PARENT = GroovyLanguage.class.getClassLoader();
    private static final CompileLoader LOADER = new CompileLoader(PARENT, CONFIGURATION);

    private List<String> allowedBefore;
    private AllowList allowList;

    /** Creates the language. */
    public GroovyLanguage() {}

    @Override
    public CompiledRule compile(RuleSource source, OperatorSpec spec) throws CompileException {
        RuleCompiler compiler = new RuleCompiler(CONFIGURATION, LOADER, source);
        try {
            return attempt(compiler, source, spec, true);
        } catch (CompilationFailedException errors) {
            if (!compiler.reachedTypes() || !CompileErrors.withoutRefusal(errors)) {
                throw CompileErrors.convert(errors, source.name());
            }
        } catch (GroovyBugError bug) {
            // The compiler of static code has faults that the other has not.
        }
        return withoutTypes(source, spec);
    }

    private CompiledRule withoutTypes(RuleSource source, OperatorSpec spec) throws CompileException {
        try {
            return attempt(new RuleCompiler(CONFIGURATION, LOADER, source), source, spec, false);
        } catch (CompilationFailedException failure) {
            throw CompileErrors.convert(failure, source.name());
        } catch (GroovyBugError bug) {
            throw new CompileException("the compiler failed: " + bug.getMessage(), source.name(), 0, 0);
        }
    }

    private CompiledRule attempt(RuleCompiler compiler, RuleSource source, OperatorSpec spec, boolean typed) throws CompileException {
        Compilation compilation = new Compilation(
                compiler.source(), allowList(spec), new RemovedCalls(orEmpty(spec.removedCalls())),
                spec.fields() == null ? Map.of() : spec.fields(), typed);
        compiler.compile(compilation);
        try {
            Class<?> script = new RuleLoader(PARENT).define(compiler.classes(), compilation.script().getName());
            return new GroovyRule(script, compilation);
        } catch (ReflectiveOperationException | LinkageError failure) {
            throw new CompileException("the rule cannot be loaded: " + failure, source.name(), 0, 0);
        }
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
