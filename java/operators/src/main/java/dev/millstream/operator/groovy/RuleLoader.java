package dev.millstream.operator.groovy;

import dev.millstream.operator.groovy.CompiledScript.ClassFile;
import java.security.ProtectionDomain;

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
     * @param jars finds what the agent does not have; null if that is all
     */
    RuleLoader(ClassLoader jars) {
        super(RuleLoader.class.getClassLoader());
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
    Class<?> define(CompiledScript script) throws ClassNotFoundException {
        for (ClassFile each : script.classes()) {
            defineClass(each.name(), each.bytes(), 0, each.bytes().length, DOMAIN);
        }
        return loadClass(script.className());
    }
}
