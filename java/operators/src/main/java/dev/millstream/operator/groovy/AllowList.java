package dev.millstream.operator.groovy;

import java.lang.reflect.Modifier;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.codehaus.groovy.ast.ClassHelper;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.MethodNode;
import org.codehaus.groovy.transform.stc.ExtensionMethodNode;

/** Decides which classes and methods an operator's rules may use: the entries of {@link Allowed}, plus the entries in the configuration. */
final class AllowList {
    private final Set<String> classes = new HashSet<>();
    private final Set<String> packages = new HashSet<>();
    private final Set<String> names = new HashSet<>();

    /**
     * Creates the list.
     *
     * @param more class names, or packages such as {@code java.text.*}
     */
    AllowList(List<String> more) {
        for (String entry : more) {
            if (entry.endsWith(".*")) {
                packages.add(entry.substring(0, entry.length() - 2));
            } else {
                classes.add(entry);
            }
        }
    }

    /** Adds the method names of the classes that the configuration allows. A class that does not exist adds no names. */
    AllowList withNamesFrom(ClassLoader loader) {
        for (String name : classes) {
            try {
                AllowedNames.add(names, Class.forName(name, false, loader), this::type);
            } catch (ClassNotFoundException | LinkageError unknown) {
                // The compiler reports the error where a rule uses the class.
            }
        }
        return this;
    }

    /** Returns whether rules may name a class and call its public methods. */
    boolean type(String name) {
        String outermost = AllowedNames.outermost(name);
        if (Allowed.CLASSES.contains(outermost) || classes.contains(outermost) || classes.contains(name)) {
            return true;
        }
        int dot = name.lastIndexOf('.');
        return dot > 0 && packages.contains(name.substring(0, dot));
    }

    /** Like {@link #type(String)}, but also allows the rule's own classes, primitive types and arrays of allowed types. */
    boolean type(ClassNode node) {
        ClassNode type = node;
        while (type.isArray()) {
            type = type.getComponentType();
        }
        ClassNode target = type.redirect();
        return ClassHelper.isPrimitiveType(target) || target.isPrimaryClassNode() || type(target.getName());
    }

    /** Returns whether a call that is resolved at run time may have this name. */
    boolean name(String name) {
        return AllowedNames.common(name) || names.contains(name);
    }

    /**
     * Returns whether rules may call a method.
     *
     * @param receiver the type of the object or class on which the method is called
     */
    boolean method(MethodNode method, ClassNode receiver) {
        String name = method.getName();
        ClassNode declaring = method.getDeclaringClass();
        if (!(method instanceof ExtensionMethodNode) && declaring.redirect().isPrimaryClassNode()) {
            return true;
        }
        if (Allowed.DENIED_NAMES.contains(name)) {
            return false;
        }
        if (method instanceof ExtensionMethodNode) {
            return Allowed.EXTENSIONS.contains(extensionClass(method)) && type(method.getReturnType());
        }
        if (declaring.getName().equals(ScriptBase.class.getName())) {
            return Allowed.SCRIPT_METHODS.contains(name);
        }
        return method.isPublic() && declares(declaring, receiver) && type(method.getReturnType()) && !denied(declaring, name);
    }

    /** Returns the name of the class that declares an extension method, or an empty name for any other method. */
    static String extensionClass(MethodNode method) {
        return method instanceof ExtensionMethodNode extension ? extension.getExtensionMethodNode().getDeclaringClass().getName() : "";
    }

    /**
     * Returns whether the class is allowed, or is the non-public superclass of an allowed class, such as the superclass of StringBuilder.
     */
    private boolean declares(ClassNode declaring, ClassNode receiver) {
        return type(declaring)
                || (!Modifier.isPublic(declaring.getModifiers()) && type(receiver) && receiver.isDerivedFrom(declaring));
    }

    private static boolean denied(ClassNode declaring, String name) {
        if (declaring.getName().equals(Allowed.CLOSURE)) {
            return !Allowed.CLOSURE_METHODS.contains(name);
        }
        if (Allowed.DENIED.contains(declaring.getName() + '#' + name)) {
            return true;
        }
        ClassNode parent = declaring.getSuperClass();
        if (parent != null && denied(parent, name)) {
            return true;
        }
        for (ClassNode implemented : declaring.getInterfaces()) {
            if (denied(implemented, name)) {
                return true;
            }
        }
        return false;
    }
}
