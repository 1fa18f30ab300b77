package dev.millstream.operator.groovy;

import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.Rule;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.List;

/** A compiled script. */
final class GroovyRule implements CompiledRule {
    private final Class<?> type;
    private final Constructor<?> constructor;
    private final List<String> fields;
    private final int removedCalls;
    private final int dynamicCalls;
    private String compiled;

    /**
     * Creates the rule.
     *
     * @param compiled the text from {@link CompiledScripts}; null if the specification does not request it
     */
    GroovyRule(Class<?> type, CompiledScript script, String compiled) throws NoSuchMethodException {
        this.type = type;
        this.constructor = type.getConstructor();
        this.fields = script.fields();
        this.removedCalls = script.removedCalls();
        this.dynamicCalls = script.dynamicCalls();
        this.compiled = compiled;
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
    public String takeCompiled() {
        String taken = compiled;
        compiled = null;
        return taken;
    }

    @Override
    public int line(Throwable thrown) {
        for (StackTraceElement frame : thrown.getStackTrace()) {
            String name = frame.getClassName();
            boolean own = name.equals(type.getName()) || name.startsWith(type.getName() + '$');
            if (own && frame.getLineNumber() > 0) {
                return frame.getLineNumber();
            }
        }
        return 0;
    }
}
