package dev.millstream.operator.groovy;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.HashSet;
import java.util.Set;
import java.util.function.Predicate;

/** Method names of allowed classes. Rules check these names at run time, so the names are collected without the compiler. */
final class AllowedNames {
    /** Not set by a static initializer: if a rule has filled the stack, the initializer would fail for the life of the process. */
    private static volatile Set<String> common;

    private AllowedNames() {}

    /** Returns whether a method of a class that every rule may use has this name. */
    static boolean common(String name) {
        Set<String> names = common;
        if (names == null) {
            names = commonNames();
            common = names;
        }
        return names.contains(name);
    }

    /** Returns the name of the outermost class that contains a class. */
    static String outermost(String name) {
        int dollar = name.indexOf('$');
        return dollar < 0 ? name : name.substring(0, dollar);
    }

    /**
     * Adds the names of the methods of a class that rules may call.
     *
     * @param isAllowed returns whether rules may use a class
     */
    static void add(Set<String> all, Class<?> type, Predicate<String> isAllowed) {
        for (Method method : type.getMethods()) {
            if (isCallable(method, isAllowed)) {
                all.add(method.getName());
            }
        }
        for (Class<?> nested : type.getClasses()) {
            if (nested.getDeclaringClass() == type) {
                add(all, nested, isAllowed);
            }
        }
    }

    private static Set<String> commonNames() {
        Set<String> all = new HashSet<>();
        for (Set<String> names : Set.of(Allowed.CLASSES, Allowed.EXTENSIONS)) {
            for (String name : names) {
                addClass(all, name);
            }
        }
        return Set.copyOf(all);
    }

    private static void addClass(Set<String> all, String name) {
        try {
            Class<?> type = Class.forName(name, false, AllowedNames.class.getClassLoader());
            add(all, type, each -> Allowed.CLASSES.contains(outermost(each)));
        } catch (ClassNotFoundException absent) {
            // The class is missing in this Java version, or is in a part of Groovy that is not included.
        }
    }

    private static boolean isCallable(Method method, Predicate<String> isAllowed) {
        String name = method.getName();
        Class<?> declaring = method.getDeclaringClass();
        if (Allowed.DENIED_NAMES.contains(name) || isDenied(declaring, name)) {
            return false;
        }
        Class<?> returned = method.getReturnType();
        while (returned.isArray()) {
            returned = returned.getComponentType();
        }
        return (returned.isPrimitive() || isAllowed.test(returned.getName()))
                && (isAllowed.test(declaring.getName()) || Allowed.EXTENSIONS.contains(declaring.getName())
                    || !Modifier.isPublic(declaring.getModifiers()));
    }

    private static boolean isDenied(Class<?> declaring, String name) {
        if (declaring.getName().equals(Allowed.CLOSURE)) {
            return !Allowed.CLOSURE_METHODS.contains(name);
        }
        if (Allowed.DENIED.contains(declaring.getName() + '#' + name)) {
            return true;
        }
        Class<?> parent = declaring.getSuperclass();
        if (parent != null && isDenied(parent, name)) {
            return true;
        }
        for (Class<?> implemented : declaring.getInterfaces()) {
            if (isDenied(implemented, name)) {
                return true;
            }
        }
        return false;
    }
}
