package dev.millstream.operator.groovy;

import java.util.ArrayList;
import java.util.List;
import org.codehaus.groovy.ast.ClassCodeVisitorSupport;
import org.codehaus.groovy.ast.ClassHelper;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.expr.BinaryExpression;
import org.codehaus.groovy.ast.expr.ConstantExpression;
import org.codehaus.groovy.ast.expr.DeclarationExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.ListExpression;
import org.codehaus.groovy.ast.expr.TupleExpression;
import org.codehaus.groovy.ast.expr.VariableExpression;
import org.codehaus.groovy.ast.stmt.BlockStatement;
import org.codehaus.groovy.ast.stmt.ExpressionStatement;
import org.codehaus.groovy.ast.stmt.Statement;
import org.codehaus.groovy.control.SourceUnit;
import org.codehaus.groovy.syntax.Token;
import org.codehaus.groovy.syntax.Types;

/**
 * Replaces {@code def (a, b) = list} with {@code def t = list; def (a, b) = [t[0], t[1]]}, because the type checker accepts only lists
 * whose elements are visible.
 */
final class MultipleAssignments extends ClassCodeVisitorSupport {
    private final Compilation compilation;
    private int count;

    MultipleAssignments(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Replaces the assignments in all classes of the source. */
    void replace() {
        for (ClassNode node : compilation.module().getClasses()) {
            visitClass(node);
        }
    }

    @Override
    public void visitBlockStatement(BlockStatement block) {
        super.visitBlockStatement(block);
        List<Statement> statements = new ArrayList<>();
        for (Statement statement : block.getStatements()) {
            BinaryExpression assignment = assignment(statement);
            if (assignment != null) {
                statements.add(split(assignment));
            }
            statements.add(statement);
        }
        block.getStatements().clear();
        block.getStatements().addAll(statements);
    }

    /** Returns the assignment in a statement if it assigns one object to several variables; otherwise null. */
    private static BinaryExpression assignment(Statement statement) {
        return statement instanceof ExpressionStatement simple && simple.getExpression() instanceof BinaryExpression binary
                && binary.getOperation().getType() == Types.EQUAL && binary.getLeftExpression() instanceof TupleExpression
                && !(binary.getRightExpression() instanceof ListExpression) ? binary : null;
    }

    /** Changes the assignment to use elements of a new variable. Returns the declaration of the variable. */
    private Statement split(BinaryExpression assignment) {
        Expression right = assignment.getRightExpression();
        Token equal = Token.newSymbol(Types.EQUAL, assignment.getLineNumber(), assignment.getColumnNumber());
        VariableExpression variable = new VariableExpression("tuple$" + count++, ClassHelper.dynamicType());
        variable.setAccessedVariable(variable);
        variable.setSourcePosition(right);
        DeclarationExpression declaration = new DeclarationExpression(variable, equal, right);
        declaration.setSourcePosition(assignment);
        ListExpression elements = new ListExpression();
        elements.setSourcePosition(right);
        int size = ((TupleExpression) assignment.getLeftExpression()).getExpressions().size();
        for (int index = 0; index < size; index++) {
            elements.addExpression(element(variable, index));
        }
        assignment.setRightExpression(elements);
        ExpressionStatement statement = new ExpressionStatement(declaration);
        statement.setSourcePosition(assignment);
        return statement;
    }

    private static Expression element(VariableExpression variable, int index) {
        Token bracket = Token.newSymbol(Types.LEFT_SQUARE_BRACKET, variable.getLineNumber(), variable.getColumnNumber());
        BinaryExpression element = new BinaryExpression(Copies.of(variable), bracket, new ConstantExpression(index, true));
        element.setSourcePosition(variable);
        return element;
    }

    @Override
    protected SourceUnit getSourceUnit() {
        return compilation.source;
    }
}
