package dev.millstream.operator.groovy;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.codehaus.groovy.ast.ClassCodeVisitorSupport;
import org.codehaus.groovy.ast.ClassHelper;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.ConstructorNode;
import org.codehaus.groovy.ast.MethodNode;
import org.codehaus.groovy.ast.Parameter;
import org.codehaus.groovy.ast.expr.BinaryExpression;
import org.codehaus.groovy.ast.expr.ConstructorCallExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.PropertyExpression;
import org.codehaus.groovy.ast.stmt.EmptyStatement;
import org.codehaus.groovy.transform.sc.StaticCompilationVisitor;
import org.codehaus.groovy.transform.stc.ExtensionMethodNode;
import org.objectweb.asm.Opcodes;

/**
 * Groovy's static compilation, extended to operands of unknown types. {@link Operators} computes the operators, and methods and
 * constructors are chosen at run time, as in dynamic Groovy.
 */
final class RuleTypeChecker extends StaticCompilationVisitor {
    private static final Set<String> OF_EVERY_OBJECT = Set.of("toString", "hashCode", "equals", "iterator");
    /** Operators whose meaning depends on the right operand's type. */
    private static final Set<String> BY_RIGHT_OPERAND =
            Set.of("plus", "minus", "multiply", "div", "intdiv", "mod", "remainder", "power", "and", "or", "xor");
    /** Names of the {@link Operators} methods, which match the names of Groovy's methods. */
    private static final Set<String> OPERATOR_NAMES = Stream.of(Operators.class.getDeclaredMethods())
            .filter(method -> Modifier.isPublic(method.getModifiers()))
            .map(Method::getName)
            .collect(Collectors.toUnmodifiableSet());
    private static final ClassNode OPERATORS = ClassHelper.make(Operators.class);

    RuleTypeChecker(Compilation compilation) {
        super(compilation.source, compilation.script());
        addTypeCheckingExtension(new TypingExtension(this, compilation));
    }

    @Override
    protected List<MethodNode> findMethod(ClassNode receiver, String name, ClassNode... arguments) {
        if (TypingExtension.isUnknown(receiver)) {
            MethodNode operator = operator(name, arguments.length + 1);
            if (operator != null) {
                return List.of(operator);
            }
            return OF_EVERY_OBJECT.contains(name) ? super.findMethod(receiver, name, arguments) : List.of();
        }
        List<MethodNode> found = super.findMethod(receiver, name, arguments);
        return found.stream().anyMatch(RuleTypeChecker::readsProperty) ? operators(name, arguments.length + 1) : found;
    }

    /** Returns whether the method reads or sets any property of an object by name. */
    private static boolean readsProperty(MethodNode method) {
        if (!(method instanceof ExtensionMethodNode extension) || !(method.getName().equals("getAt") || method.getName().equals("putAt"))) {
            return false;
        }
        Parameter[] parameters = extension.getExtensionMethodNode().getParameters();
        return ClassHelper.isStringType(parameters[1].getType()) && !parameters[0].getType().equals(ClassHelper.MAP_TYPE);
    }

    private static List<MethodNode> operators(String name, int operands) {
        MethodNode operator = operator(name, operands);
        return operator == null ? List.of() : List.of(operator);
    }

    @Override
    protected boolean existsProperty(PropertyExpression property, boolean readMode, ClassCodeVisitorSupport visitor) {
        // Groovy would find the properties that its extensions add to any object, such as properties and metaClass.
        boolean exists = super.existsProperty(property, readMode, visitor);
        return exists && !TypingExtension.isUnknown(getType(property.getObjectExpression()));
    }

    /** Returns the inferred type of an expression. */
    ClassNode typeOf(Expression expression) {
        return getType(expression);
    }

    @Override
    protected MethodNode findMethodOrFail(Expression expression, ClassNode receiver, String name, ClassNode... arguments) {
        if (expression instanceof ConstructorCallExpression call && !call.isSpecialCall() && call.getLineNumber() > 0
                && anyUnknown(arguments) && findMethod(receiver, name, arguments).isEmpty()) {
            expression.putNodeMetaData(DynamicNodes.CONSTRUCTOR, Boolean.TRUE);
            return anyConstructor(receiver, arguments.length);
        }
        if (expression instanceof BinaryExpression) {
            MethodNode operator = operatorFor(receiver, name, arguments);
            if (operator != null) {
                expression.putNodeMetaData(DynamicNodes.OPERATOR, name);
                return operator;
            }
        }
        return super.findMethodOrFail(expression, receiver, name, arguments);
    }

    private MethodNode operatorFor(ClassNode receiver, String name, ClassNode[] arguments) {
        boolean byRight = arguments.length == 1 && TypingExtension.isUnknown(arguments[0]) && BY_RIGHT_OPERAND.contains(name)
                && !ClassHelper.isStringType(receiver) && !receiver.isDerivedFrom(ClassHelper.GSTRING_TYPE);
        if (byRight || TypingExtension.isUnknown(receiver) || findMethod(receiver, name, arguments).isEmpty()) {
            return operator(name, arguments.length + 1);
        }
        return null;
    }

    private static boolean anyUnknown(ClassNode[] types) {
        for (ClassNode type : types) {
            if (TypingExtension.isUnknown(type)) {
                return true;
            }
        }
        return false;
    }

    private static MethodNode operator(String name, int operands) {
        if (!OPERATOR_NAMES.contains(name)) {
            return null;
        }
        MethodNode method = OPERATORS.getMethod(name, Calls.objects(operands));
        if (method == null) {
            return null;
        }
        ExtensionMethodNode extension = new ExtensionMethodNode(
                method, name, Opcodes.ACC_PUBLIC, method.getReturnType(), Calls.objects(operands - 1), ClassNode.EMPTY_ARRAY, null);
        extension.setDeclaringClass(ClassHelper.OBJECT_TYPE);
        return extension;
    }

    private static MethodNode anyConstructor(ClassNode type, int arguments) {
        ConstructorNode constructor = new ConstructorNode(
                Opcodes.ACC_PUBLIC, Calls.objects(arguments), ClassNode.EMPTY_ARRAY, EmptyStatement.INSTANCE);
        constructor.setDeclaringClass(type);
        return constructor;
    }
}
