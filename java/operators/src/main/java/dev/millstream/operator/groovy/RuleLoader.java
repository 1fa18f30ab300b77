package dev.millstream.operator.groovy;

import java.security.ProtectionDomain;
import java.util.List;
import org.codehaus.groovy.tools.GroovyClass;

/** Defines the classes of one rule, which are unloaded once the rule is garbage. */
final class RuleLoader extends ClassLoader {
    /** Not a domain of its own: threads that Groovy starts while a rule runs would hold it, and with it the rule. */
    private static final ProtectionDomain DOMAIN = RuleLoader.class.getProtectionDomain();

    static {
        registerAsParallelCapable();
    }

    RuleLoader(ClassLoader parent) {
        super(parent);
    }

    /** Defines the classes. Returns the one of the script. */
    Class<?> define(List<GroovyClass> classes, String script) throws ClassNotFoundException {
        for (GroovyClass compiled : classes) {
            defineClass(compiled.getName(), compiled.getBytes(), 0, compiled.getBytes().length, DOMAIN);
        }
        return loadClass(script);
    }
}
