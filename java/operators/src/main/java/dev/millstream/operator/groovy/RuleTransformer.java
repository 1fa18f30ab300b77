package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.ClassHelper;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.expr.ArrayExpression;
import org.codehaus.groovy.ast.expr.BinaryExpression;
import org.codehaus.groovy.ast.expr.CastExpression;
import org.codehaus.groovy.ast.expr.ClassExpression;
import org.codehaus.groovy.ast.expr.ConstructorCallExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.PropertyExpression;
import org.codehaus.groovy.ast.expr.TupleExpression;
import org.codehaus.groovy.ast.stmt.ReturnStatement;
import org.codehaus.groovy.syntax.Types;
import org.codehaus.groovy.transform.sc.transformers.StaticCompilationTransformer;
import org.codehaus.groovy.transform.stc.StaticTypeCheckingSupport;
import org.codehaus.groovy.transform.stc.StaticTypesMarker;

/** Groovy's last pass of static compilation, which also replaces the nodes that the type checker has marked; see {@link DynamicNodes}. */
final class RuleTransformer extends StaticCompilationTransformer {
    private final Compilation compilation;

    RuleTransformer(Compilation compilation, RuleTypeChecker checker) {
        super(compilation.source, checker);
        this.compilation = compilation;
    }

    @Override
    public Expression transform(Expression expression) {
        if (expression instanceof BinaryExpression binary) {
            return super.transform(binary(binary));
        }
        if (expression instanceof PropertyExpression property && property.getNodeMetaData(DynamicNodes.PROPERTY) != null) {
            return super.transform(read(property));
        }
        if (expression instanceof ConstructorCallExpression call && call.getNodeMetaData(DynamicNodes.CONSTRUCTOR) != null) {
            return super.transform(construct(call));
        }
        return super.transform(expression);
    }

    @Override
    public void visitReturnStatement(ReturnStatement statement) {
        ClassNode type = statement.getNodeMetaData(DynamicNodes.CAST);
        if (type != null) {
            statement.setExpression(cast(type, statement.getExpression()));
        }
        super.visitReturnStatement(statement);
    }

    private Expression binary(BinaryExpression binary) {
        int operator = binary.getOperation().getType();
        Expression left = binary.getLeftExpression();
        if (operator == Types.EQUAL && left.getNodeMetaData(DynamicNodes.PROPERTY) != null) {
            PropertyExpression property = (PropertyExpression) left;
            return dynamic(Access.class, "set", binary, property.getObjectExpression(), property.getProperty(),
                    binary.getRightExpression());
        }
        if (operator == Types.EQUAL && left instanceof BinaryExpression element && unknownElement(element)) {
            return dynamic(Operators.class, "putAt", binary, element.getLeftExpression(), element.getRightExpression(),
                    binary.getRightExpression());
        }
        if (unknownElement(binary)) {
            Expression element = dynamic(
                    Operators.class, binary.isSafe() ? "getAtSafe" : "getAt", binary, left, binary.getRightExpression());
            ClassNode inferred = getTypeChooser().resolveType(binary, getClassNode());
            return TypingExtension.isUnknown(inferred) ? element : cast(inferred, element);
        }
        String method = binary.getNodeMetaData(DynamicNodes.OPERATOR);
        if (method != null && computes(method)) {
            return dynamic(Operators.class, method, binary, left, binary.getRightExpression());
        }
        ClassNode type = binary.getNodeMetaData(DynamicNodes.CAST);
        if (type != null && operator == Types.EQUAL) {
            binary.setRightExpression(cast(type, binary.getRightExpression()));
        }
        return binary;
    }

    /** Returns whether {@link Operators} computes the operator. Comparisons need no method, because Groovy's own code is equally good. */
    private static boolean computes(String operator) {
        return !operator.equals("compareTo") && !operator.equals("isCase") && !operator.equals("isNotCase") && !operator.equals("getAt");
    }

    /** Returns whether {@code a[b]} depends on run-time types: the object's type, or the type of a key that could be a property name. */
    private boolean unknownElement(BinaryExpression binary) {
        if (binary.getOperation().getType() != Types.LEFT_SQUARE_BRACKET) {
            return false;
        }
        ClassNode object = getTypeChooser().resolveType(binary.getLeftExpression(), getClassNode());
        ClassNode key = getTypeChooser().resolveType(binary.getRightExpression(), getClassNode());
        boolean byName = TypingExtension.isUnknown(key) || ClassHelper.isStringType(key) || ClassHelper.isGStringType(key);
        boolean map = StaticTypeCheckingSupport.implementsInterfaceOrIsSubclassOf(object, ClassHelper.MAP_TYPE);
        return TypingExtension.isUnknown(object) || (byName && !map);
    }

    private Expression read(PropertyExpression property) {
        String method = property.isSpreadSafe() ? "spread" : property.isSafe() ? "getSafe" : "get";
        return dynamic(Access.class, method, property, property.getObjectExpression(), property.getProperty());
    }

    private Expression construct(ConstructorCallExpression call) {
        Expression arguments = new ArrayExpression(ClassHelper.OBJECT_TYPE, ((TupleExpression) call.getArguments()).getExpressions());
        Expression created = dynamic(Access.class, "construct", call, new ClassExpression(call.getType()), arguments);
        return cast(call.getType(), created);
    }

    private Expression dynamic(Class<?> owner, String method, Expression at, Expression... arguments) {
        compilation.dynamicCalls++;
        return Calls.resolved(owner, method, at, arguments);
    }

    private static Expression cast(ClassNode type, Expression value) {
        CastExpression cast = Calls.mark(new CastExpression(type, value), value);
        cast.putNodeMetaData(StaticTypesMarker.INFERRED_TYPE, type);
        return cast;
    }
}
