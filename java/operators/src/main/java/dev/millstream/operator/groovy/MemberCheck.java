package dev.millstream.operator.groovy;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.codehaus.groovy.ast.ClassHelper;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.FieldNode;
import org.codehaus.groovy.ast.MethodNode;
import org.codehaus.groovy.ast.tools.GeneralUtils;
import org.apache.groovy.util.BeanUtils;
import org.codehaus.groovy.transform.stc.StaticTypeCheckingSupport;

/** Decides whether the methods and properties that a rule names are allowed, as far as their types are known. */
final class MemberCheck {
    /** Properties that every object has and that lead to the object's class. */
    private static final Set<String> DENIED_PROPERTIES = Set.of("class", "metaClass");
    /** Names of operators. If called by name, they would read any property. */
    private static final Set<String> OPERATOR_NAMES = Set.of("getAt", "putAt");

    private final Compilation compilation;

    MemberCheck(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Returns whether a call with this name may be resolved at run time. */
    boolean dynamicName(String name) {
        if (OPERATOR_NAMES.contains(name)) {
            return false;
        }
        return compilation.allowed.name(name) || declaredInRule(name);
    }

    /** Returns whether a class in the rule has a method with this name. */
    private boolean declaredInRule(String name) {
        for (ClassNode node : compilation.module().getClasses()) {
            if (!node.getDeclaredMethods(name).isEmpty() && !Allowed.DENIED_NAMES.contains(name)) {
                return true;
            }
        }
        return false;
    }

    /**
     * Returns whether the rule may call a function with this name: a function in the rule, a function that every rule has, or a closure in
     * a variable of the rule.
     */
    boolean function(ClassNode owner, String name) {
        ClassNode script = compilation.script();
        return script.getDeclaredField(name) != null || methodOf(script, name)
                || (owner != script && owner.redirect().isPrimaryClassNode() && methodOf(owner, name));
    }

    /** Returns whether a class has an allowed method with this name, either declared or added by an extension. */
    boolean methodOf(ClassNode type, String name) {
        for (MethodNode method : methods(type, name)) {
            if (compilation.allowed.method(method, type)) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether a rule may call a resolved method. */
    boolean target(MethodNode method, ClassNode receiver) {
        return operator(method) || compilation.allowed.method(method, receiver);
    }

    /** Returns whether the method is a method of {@link Operators}, which resolves the operation at run time. */
    static boolean operator(MethodNode method) {
        return AllowList.extensionClass(method).equals(Operators.class.getName());
    }

    /** Returns whether {@code Type.name} is a constant, an allowed static property, or a static field of a class in the rule. */
    boolean staticProperty(ClassNode type, String name) {
        if (DENIED_PROPERTIES.contains(name)) {
            return false;
        }
        FieldNode field = type.getField(name);
        if (field != null && field.isStatic() && (field.isPublic() || type.redirect().isPrimaryClassNode())) {
            return true;
        }
        List<MethodNode> accessors = accessors(type, name);
        accessors.removeIf(method -> !method.isStatic());
        return !accessors.isEmpty() && allAllowed(accessors, type);
    }

    /** Returns whether {@code object.name} may be read and set if the object's type is known. */
    boolean property(ClassNode type, String name) {
        if (DENIED_PROPERTIES.contains(name)) {
            return false;
        }
        if (StaticTypeCheckingSupport.implementsInterfaceOrIsSubclassOf(type, ClassHelper.MAP_TYPE)
                || (type.isArray() && name.equals("length"))) {
            return true;
        }
        if (type.redirect().isPrimaryClassNode() && (type.getDeclaredField(name) != null || type.getProperty(name) != null)) {
            return true;
        }
        List<MethodNode> accessors = accessors(type, name);
        if (accessors.isEmpty()) {
            return elementProperty(type, name);
        }
        return allAllowed(accessors, type);
    }

    /** Returns whether the property is an allowed property of a collection's elements. */
    private boolean elementProperty(ClassNode type, String name) {
        boolean collection = type.isArray()
                || StaticTypeCheckingSupport.implementsInterfaceOrIsSubclassOf(type, ClassHelper.ITERABLE_TYPE);
        if (!collection) {
            return false;
        }
        String suffix = BeanUtils.capitalize(name);
        return dynamicName("get" + suffix) || dynamicName("is" + suffix) || declaresProperty(name);
    }

    private boolean declaresProperty(String name) {
        for (ClassNode node : compilation.module().getClasses()) {
            if (node.getProperty(name) != null || node.getDeclaredField(name) != null) {
                return true;
            }
        }
        return false;
    }

    private boolean allAllowed(List<MethodNode> methods, ClassNode type) {
        for (MethodNode method : methods) {
            if (!compilation.allowed.method(method, type)) {
                return false;
            }
        }
        return true;
    }

    private List<MethodNode> accessors(ClassNode type, String name) {
        List<MethodNode> found = new ArrayList<>();
        for (String prefix : List.of("get", "is", "set")) {
            int parameters = prefix.equals("set") ? 1 : 0;
            for (MethodNode method : methods(type, prefix + BeanUtils.capitalize(name))) {
                if (method.getParameters().length == parameters) {
                    found.add(method);
                }
            }
        }
        return found;
    }

    private List<MethodNode> methods(ClassNode type, String name) {
        ClassNode boxed = ClassHelper.getWrapper(type);
        List<MethodNode> all = new ArrayList<>(boxed.getMethods(name));
        for (ClassNode implemented : GeneralUtils.getInterfacesAndSuperInterfaces(boxed)) {
            all.addAll(implemented.getDeclaredMethods(name));
        }
        all.addAll(StaticTypeCheckingSupport.findDGMMethodsForClassNode(compilation.source.getClassLoader(), boxed, name));
        return all;
    }
}
