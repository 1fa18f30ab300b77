package dev.millstream.operator.groovy;

import dev.millstream.operator.groovy.CompiledScript.ClassFile;
import java.security.ProtectionDomain;

/** Defines the classes of one rule. The classes are unloaded once the rule is garbage. */
final class RuleLoader extends ClassLoader {
    /** The shared protection domain. Threads that Groovy starts while a rule runs would retain a separate domain, and thus the rule. */
    private static final ProtectionDomain DOMAIN = RuleLoader.class.getProtectionDomain();

    static {
        registerAsParallelCapable();
    }

    private final ClassLoader jars;

    /**
     * Creates the loader.
     *
     * @param jars finds classes that the agent does not contain; null if there are no such classes
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

    /** Defines the classes of a script. Returns the script's class. */
    Class<?> define(CompiledScript script) throws ClassNotFoundException {
        for (ClassFile each : script.classes()) {
            defineClass(each.name(), each.bytes(), 0, each.bytes().length, DOMAIN);
        }
        return loadClass(script.className());
    }
}
