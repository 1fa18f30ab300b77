package dev.millstream.operator.groovy;

import java.security.ProtectionDomain;
import org.codehaus.groovy.tools.GroovyClass;

/** Defines the classes of one rule, which are unloaded once the rule is garbage. */
final class RuleLoader extends ClassLoader {
    /** Not a domain of its own: threads that Groovy starts while a rule runs would hold it, and with it the rule. */
    private static final ProtectionDomain DOMAIN = RuleLoader.class.getProtectionDomain();

    static {
        registerAsParallelCapable();
    }

    private final ClassLoader jars;

    /**
     * Creates it.
     *
     * @param jars finds what the parent does not; null if that is all
     */
    RuleLoader(ClassLoader parent, ClassLoader jars) {
        super(parent);
        this.jars = jars;
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        if (jars == null) {
            throw new ClassNotFoundException(name);
        }
        return jars.loadClass(name);
    }

    /** Defines the classes of a script. Returns its own. */
    Class<?> define(ScriptCompiler.Compiled compiled) throws ClassNotFoundException {
        for (GroovyClass each : compiled.classes()) {
            defineClass(each.getName(), each.getBytes(), 0, each.getBytes().length, DOMAIN);
        }
        return loadClass(compiled.compilation().script().getName());
    }
}
