package dev.millstream.operator.groovy;

import dev.millstream.operator.Row;
import groovy.lang.GroovyClassLoader;
import groovy.lang.MetaClass;
import java.lang.reflect.AnnotatedElement;
import java.util.Collection;
import java.util.Map;
import java.util.Set;

/**
 * A second check after the name check at compile time. It refuses objects whose properties must never be resolved at run time, regardless
 * of the name. A rule can hold such an object only if a class that the configuration allows has returned the object.
 */
final class Receivers {
    private static final Set<String> REFUSED_PACKAGES = Set.of(
            "java.io", "java.lang.invoke", "java.lang.reflect", "java.net", "java.nio.file", "java.util.concurrent",
            "org.codehaus.groovy.reflection");

    private static final ClassValue<Boolean> ALLOWED = new ClassValue<>() {
        @Override
        protected Boolean computeValue(Class<?> type) {
            return !refused(type);
        }
    };

    private Receivers() {}

    /** Throws if the object's properties must not be resolved at run time. */
    static void check(Object target, String property) {
        if (property.equals("class") || property.equals("metaClass") || !ALLOWED.get(target.getClass())) {
            throw new IllegalArgumentException(
                    "property " + property + " of " + target.getClass().getName() + " is not allowed in a script");
        }
    }

    private static boolean refused(Class<?> type) {
        if (Map.class.isAssignableFrom(type) || Collection.class.isAssignableFrom(type) || Row.class.isAssignableFrom(type)) {
            return false;
        }
        return AnnotatedElement.class.isAssignableFrom(type) || ClassLoader.class.isAssignableFrom(type)
                || GroovyClassLoader.class.isAssignableFrom(type) || MetaClass.class.isAssignableFrom(type)
                || ScriptBase.class.isAssignableFrom(type) || Thread.class.isAssignableFrom(type) || Process.class.isAssignableFrom(type)
                || Runtime.class == type || REFUSED_PACKAGES.contains(type.getPackageName());
    }
}
