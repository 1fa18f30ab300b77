package dev.millstream.operator.groovy;

import dev.millstream.operator.Row;
import java.lang.reflect.Modifier;
import java.util.List;
import org.codehaus.groovy.ast.ClassHelper;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.MethodNode;
import org.codehaus.groovy.ast.expr.ArgumentListExpression;
import org.codehaus.groovy.ast.expr.ClassExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.MethodCall;
import org.codehaus.groovy.ast.expr.MethodCallExpression;
import org.codehaus.groovy.ast.expr.PropertyExpression;
import org.codehaus.groovy.ast.expr.VariableExpression;
import org.codehaus.groovy.ast.stmt.ReturnStatement;
import org.codehaus.groovy.transform.stc.AbstractTypeCheckingExtension;
import org.codehaus.groovy.transform.stc.StaticTypeCheckingSupport;
import org.codehaus.groovy.transform.stc.StaticTypeCheckingVisitor;

/**
 * Defers expressions that the type checker cannot resolve to run time if a type is unknown, and refuses expressions that can never work.
 */
final class TypingExtension extends AbstractTypeCheckingExtension {
    private static final String ROW = Row.class.getName();

    private final Compilation compilation;

    TypingExtension(StaticTypeCheckingVisitor checker, Compilation compilation) {
        super(checker);
        this.compilation = compilation;
    }

    @Override
    public boolean handleUnresolvedVariableExpression(VariableExpression variable) {
        makeDynamic(variable);
        return true;
    }

    @Override
    public boolean handleUnresolvedProperty(PropertyExpression property) {
        ClassNode receiver = getType(property.getObjectExpression());
        if (property.getObjectExpression() instanceof ClassExpression || property.getPropertyAsString() == null) {
            return false;
        }
        if (isKnown(receiver) && !receiver.getName().equals(ROW) && !property.isSpreadSafe()) {
            compilation.refuse("no property " + property.getPropertyAsString() + " in " + receiver.toString(false), property);
        }
        property.putNodeMetaData(DynamicNodes.PROPERTY, Boolean.TRUE);
        storeType(property, ClassHelper.OBJECT_TYPE);
        return true;
    }

    @Override
    public List<MethodNode> handleMissingMethod(
            ClassNode receiver, String name, ArgumentListExpression arguments, ClassNode[] types, MethodCall call) {
        if (!(call instanceof MethodCallExpression expression)) {
            return List.of();
        }
        boolean exists = exists(receiver, name);
        if (!exists && expression.isImplicitThis()) {
            compilation.refuse("no function " + name, expression);
            return List.of();
        }
        if (!exists && isKnown(receiver) && !(expression.getObjectExpression() instanceof ClassExpression)) {
            compilation.refuse("no method " + name + " in " + receiver.toString(false), expression);
            return List.of();
        }
        return List.of(makeDynamic(call));
    }

    @Override
    public boolean handleIncompatibleAssignment(ClassNode left, ClassNode right, Expression assignment) {
        if (!isUnknown(right) && !ClassHelper.isNumberType(left)) {
            return false;
        }
        assignment.putNodeMetaData(DynamicNodes.CAST, left);
        return true;
    }

    @Override
    public boolean handleIncompatibleReturnType(ReturnStatement statement, ClassNode inferred) {
        MethodNode method = context.getEnclosingMethod();
        if (!isUnknown(inferred) || method == null || context.getEnclosingClosure() != null) {
            return false;
        }
        statement.putNodeMetaData(DynamicNodes.CAST, method.getReturnType());
        return true;
    }

    /** Returns whether a value of this type can be of any other type at run time. */
    static boolean isUnknown(ClassNode type) {
        return ClassHelper.isObjectType(type);
    }

    /** Returns whether a value of this type has only the methods of this type. */
    private static boolean isKnown(ClassNode type) {
        return ClassHelper.isPrimitiveType(type) || Modifier.isFinal(type.getModifiers()) || type.getName().equals(ROW);
    }

    private boolean exists(ClassNode receiver, String name) {
        ClassNode type = ClassHelper.getWrapper(receiver);
        return !type.getMethods(name).isEmpty()
                || !StaticTypeCheckingSupport.findDGMMethodsForClassNode(compilation.source.getClassLoader(), type, name).isEmpty();
    }
}
