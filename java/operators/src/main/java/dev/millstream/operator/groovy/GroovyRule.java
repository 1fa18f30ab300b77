package dev.millstream.operator.groovy;

import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.Rule;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.List;

/** A compiled script. */
final class GroovyRule implements CompiledRule {
    private final Class<?> script;
    private final Constructor<?> constructor;
    private final List<String> fields;
    private final int removedCalls;
    private final int dynamicCalls;

    GroovyRule(Class<?> script, Compilation compilation) throws NoSuchMethodException {
        this.script = script;
        this.constructor = script.getConstructor();
        this.fields = List.copyOf(compilation.fields);
        this.removedCalls = compilation.removedCalls;
        this.dynamicCalls = compilation.dynamicCalls;
    }

    @Override
    public Rule instance() throws Throwable {
        try {
            return (Rule) constructor.newInstance();
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }

    @Override
    public List<String> fields() {
        return fields;
    }

    @Override
    public int removedCalls() {
        return removedCalls;
    }

    @Override
    public int dynamicCalls() {
        return dynamicCalls;
    }

    @Override
    public int line(Throwable thrown) {
        for (StackTraceElement frame : thrown.getStackTrace()) {
            String name = frame.getClassName();
            boolean own = name.equals(script.getName()) || name.startsWith(script.getName() + '$');
            if (own && frame.getLineNumber() > 0) {
                return frame.getLineNumber();
            }
        }
        return 0;
    }
}
