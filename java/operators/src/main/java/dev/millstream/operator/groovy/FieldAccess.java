package dev.millstream.operator.groovy;

import java.util.Map;
import java.util.Set;
import org.codehaus.groovy.ast.ASTNode;
import org.codehaus.groovy.ast.ClassCodeExpressionTransformer;
import org.codehaus.groovy.ast.DynamicVariable;
import org.codehaus.groovy.ast.expr.ArgumentListExpression;
import org.codehaus.groovy.ast.expr.AttributeExpression;
import org.codehaus.groovy.ast.expr.BinaryExpression;
import org.codehaus.groovy.ast.expr.ClosureExpression;
import org.codehaus.groovy.ast.expr.ConstantExpression;
import org.codehaus.groovy.ast.expr.DeclarationExpression;
import org.codehaus.groovy.ast.expr.ElvisOperatorExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.MethodCallExpression;
import org.codehaus.groovy.ast.expr.PostfixExpression;
import org.codehaus.groovy.ast.expr.PrefixExpression;
import org.codehaus.groovy.ast.expr.PropertyExpression;
import org.codehaus.groovy.ast.expr.TupleExpression;
import org.codehaus.groovy.ast.expr.VariableExpression;
import org.codehaus.groovy.control.SourceUnit;
import org.codehaus.groovy.syntax.Token;
import org.codehaus.groovy.syntax.TokenUtil;
import org.codehaus.groovy.syntax.Types;

/**
 * Replaces {@code row.NAME} and {@code row[NAME]} with calls of {@link dev.millstream.operator.Row} and {@link Fields}, so that the type
 * checker sees the fields' declared types. Compound assignments become simple assignments.
 */
final class FieldAccess extends ClassCodeExpressionTransformer {
    private static final Map<String, String> READERS =
            Map.of("text", "text", "int", "integer", "float", "number", "bool", "bool", "time", "time");
    private static final Set<String> BY_NAME = Set.of("get", "has", "text", "integer", "number", "set", "remove");

    private final Compilation compilation;

    FieldAccess(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Replaces the accesses in the script's class. */
    void replace() {
        visitClass(compilation.script());
    }

    @Override
    public Expression transform(Expression expression) {
        if (expression instanceof ClosureExpression closure) {
            return Closures.transformed(closure, this);
        }
        if (isRow(expression)) {
            return Calls.row(expression);
        }
        Expression name = fieldName(expression);
        if (name != null) {
            return read(name, expression);
        }
        if (expression instanceof BinaryExpression binary && !(expression instanceof DeclarationExpression)) {
            return binary(binary);
        }
        if (expression instanceof PrefixExpression prefix) {
            return prefix(prefix);
        }
        if (expression instanceof PostfixExpression postfix) {
            return postfix(postfix);
        }
        if (expression instanceof MethodCallExpression call) {
            noteField(call);
            if (isSet(call)) {
                TupleExpression arguments = (TupleExpression) call.getArguments();
                return write(arguments.getExpression(0), arguments.getExpression(1), call);
            }
        }
        return super.transform(expression);
    }

    private static boolean isRow(Expression expression) {
        return expression instanceof VariableExpression variable && variable.getName().equals("row")
                && variable.getAccessedVariable() instanceof DynamicVariable;
    }

    /** Returns the name in an access to an event field, which may be computed; null if the expression is something else. */
    private static Expression fieldName(Expression expression) {
        if (expression instanceof PropertyExpression property && !(expression instanceof AttributeExpression)
                && isRow(property.getObjectExpression()) && !property.isSpreadSafe()) {
            return property.getProperty();
        }
        if (expression instanceof BinaryExpression binary && binary.getOperation().getType() == Types.LEFT_SQUARE_BRACKET
                && isRow(binary.getLeftExpression())) {
            return binary.getRightExpression();
        }
        return null;
    }

    private Expression read(Expression name, ASTNode at) {
        if (!(name instanceof ConstantExpression constant)) {
            return Calls.helper(Fields.class, "get", at, Calls.row(at), transform(name));
        }
        String text = constant.getText();
        compilation.uses(text);
        if (text.equals("message") || text.equals("timestamp")) {
            return Calls.onRow(at, text);
        }
        String reader = READERS.get(compilation.declared.getOrDefault(text, ""));
        if (reader != null) {
            return Calls.helper(Fields.class, reader, at, Calls.row(at), new ConstantExpression(text));
        }
        return Calls.onRow(at, "get", new ConstantExpression(text));
    }

    private Expression write(Expression name, Expression value, ASTNode at) {
        Expression field = name;
        if (name instanceof ConstantExpression constant) {
            compilation.uses(constant.getText());
            field = new ConstantExpression(constant.getText());
        } else {
            field = transform(name);
        }
        // A value that may be null has no primitive type, although the type checker assigns the method's primitive type to it.
        boolean hasType = compilation.typed && !SafeNavigation.isIn(value);
        return Calls.helper(Fields.class, hasType ? "set" : "assign", at, Calls.row(at), field, transform(value));
    }

    private Expression binary(BinaryExpression binary) {
        int operator = binary.getOperation().getType();
        Expression left = binary.getLeftExpression();
        if (operator == Types.EQUAL) {
            Expression name = fieldName(left);
            return name == null ? super.transform(binary) : write(name, binary.getRightExpression(), binary);
        }
        if (!Types.ofType(operator, Types.ASSIGNMENT_OPERATOR)) {
            return super.transform(binary);
        }
        Expression before = Copies.of(left);
        if (before == null) {
            return super.transform(binary);
        }
        Expression value = combined(before, binary);
        value.setSourcePosition(binary);
        return transform(assignment(left, value, binary));
    }

    private static Expression combined(Expression before, BinaryExpression binary) {
        Token operation = binary.getOperation();
        if (operation.getType() == Types.ELVIS_EQUAL) {
            return new ElvisOperatorExpression(before, binary.getRightExpression());
        }
        int operator = TokenUtil.removeAssignment(operation.getType());
        Token token = Token.newSymbol(operator, operation.getStartLine(), operation.getStartColumn());
        return new BinaryExpression(before, token, binary.getRightExpression());
    }

    private static BinaryExpression assignment(Expression left, Expression value, ASTNode at) {
        Token equal = Token.newSymbol(Types.EQUAL, at.getLineNumber(), at.getColumnNumber());
        BinaryExpression assignment = new BinaryExpression(left, equal, value);
        assignment.setSourcePosition(at);
        return assignment;
    }

    private Expression prefix(PrefixExpression prefix) {
        Expression step = step(prefix.getExpression(), prefix.getOperation().getType() == Types.PLUS_PLUS, prefix);
        return step == null ? super.transform(prefix) : step;
    }

    private Expression postfix(PostfixExpression postfix) {
        Expression step = step(postfix.getExpression(), postfix.getOperation().getType() == Types.PLUS_PLUS, postfix);
        if (step == null) {
            return super.transform(postfix);
        }
        Expression before = transform(Copies.of(postfix.getExpression()));
        return Calls.helper(Fields.class, "first", postfix, before, step);
    }

    /**
     * Returns {@code target = target.next()}, or {@code target + 1} for a declared number; null for a plain variable, or if evaluating the
     * target twice could have an effect.
     */
    private Expression step(Expression target, boolean up, ASTNode at) {
        Expression before = target instanceof VariableExpression ? null : Copies.of(target);
        if (before == null) {
            return null;
        }
        Expression after;
        if (isDeclaredNumber(target)) {
            Token token = Token.newSymbol(up ? Types.PLUS : Types.MINUS, at.getLineNumber(), at.getColumnNumber());
            after = new BinaryExpression(before, token, new ConstantExpression(1, true));
        } else {
            MethodCallExpression call = new MethodCallExpression(before, up ? "next" : "previous", new ArgumentListExpression());
            call.setImplicitThis(false);
            after = call;
        }
        after.setSourcePosition(at);
        return transform(assignment(target, after, at));
    }

    private boolean isDeclaredNumber(Expression target) {
        if (!(fieldName(target) instanceof ConstantExpression name)) {
            return false;
        }
        String type = compilation.declared.getOrDefault(name.getText(), "");
        return type.equals("int") || type.equals("float");
    }

    /** Returns whether the call is {@code row.set(name, value)}, which accepts every type of value. */
    private static boolean isSet(MethodCallExpression call) {
        return isRow(call.getObjectExpression()) && "set".equals(call.getMethodAsString())
                && call.getArguments() instanceof TupleExpression arguments && arguments.getExpressions().size() == 2;
    }

    private void noteField(MethodCallExpression call) {
        if (isRow(call.getObjectExpression()) && BY_NAME.contains(String.valueOf(call.getMethodAsString()))
                && call.getArguments() instanceof ArgumentListExpression arguments && !arguments.getExpressions().isEmpty()
                && arguments.getExpression(0) instanceof ConstantExpression name) {
            compilation.uses(name.getText());
        }
    }

    @Override
    protected SourceUnit getSourceUnit() {
        return compilation.source;
    }
}
