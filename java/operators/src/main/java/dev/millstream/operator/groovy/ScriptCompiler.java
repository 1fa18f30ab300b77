package dev.millstream.operator.groovy;

import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.RuleSource;
import java.util.List;
import java.util.Map;
import org.codehaus.groovy.GroovyBugError;
import org.codehaus.groovy.control.CompilationFailedException;

/**
 * Compiles a script statically, or without types if the type checker cannot handle the script.
 *
 * @param kind the kind of script
 * @param loader finds the classes that the script names
 * @param allowed the classes and methods that the script may use
 * @param removed the calls that are removed from the script
 * @param declared types of fields by name
 */
record ScriptCompiler(ScriptKind kind, CompileLoader loader, AllowList allowed, RemovedCalls removed, Map<String, String> declared) {
    CompiledScript compile(RuleSource source) throws CompileException {
        RuleCompiler compiler = compiler(source);
        try {
            return attempt(compiler, true);
        } catch (CompilationFailedException errors) {
            if (!compiler.reachedTypes() || !CompileErrors.withoutRefusal(errors)) {
                throw converted(errors, source);
            }
        } catch (GroovyBugError bug) {
            // The static compiler has bugs that the dynamic compiler does not have.
        }
        return withoutTypes(source);
    }

    private RuleCompiler compiler(RuleSource source) {
        return new RuleCompiler(loader, source);
    }

    private CompiledScript withoutTypes(RuleSource source) throws CompileException {
        try {
            return attempt(compiler(source), false);
        } catch (CompilationFailedException failure) {
            throw converted(failure, source);
        } catch (GroovyBugError bug) {
            throw new CompileException("the compiler failed: " + bug.getMessage(), source.name(), 0, 0);
        }
    }

    private CompileException converted(CompilationFailedException errors, RuleSource source) {
        CompileException error = CompileErrors.convert(errors, source.name());
        if (kind == ScriptKind.RULE || !error.getMessage().startsWith("unable to resolve class ")) {
            return error;
        }
        String text = error.getMessage() + "; add its jar to `jars`, and the class to `allow`";
        return new CompileException(text, error.rule(), error.line(), error.column());
    }

    private CompiledScript attempt(RuleCompiler compiler, boolean typed) {
        Compilation compilation = new Compilation(compiler.source(), kind, allowed, removed, declared, typed);
        compiler.compile(compilation);
        return new CompiledScript(
                compilation.script().getName(), compiler.classes(), List.copyOf(compilation.fields), compilation.removedCalls,
                compilation.dynamicCalls);
    }
}
