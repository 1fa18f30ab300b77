package dev.millstream.operator.groovy;

import java.util.List;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.CodeVisitorSupport;
import org.codehaus.groovy.ast.MethodNode;
import org.codehaus.groovy.ast.expr.ConstantExpression;
import org.codehaus.groovy.ast.expr.MethodCallExpression;
import org.codehaus.groovy.ast.stmt.BlockStatement;
import org.codehaus.groovy.ast.stmt.CaseStatement;
import org.codehaus.groovy.ast.stmt.DoWhileStatement;
import org.codehaus.groovy.ast.stmt.ExpressionStatement;
import org.codehaus.groovy.ast.stmt.ForStatement;
import org.codehaus.groovy.ast.stmt.IfStatement;
import org.codehaus.groovy.ast.stmt.Statement;
import org.codehaus.groovy.ast.stmt.WhileStatement;

/**
 * Removes statements that only print, log or walk the stack.
 *
 * <p>The whole statement is removed, including its arguments, so {@code println(row.count++)} does not increment the field. A call whose
 * value is used stays.
 */
final class CallRemover extends CodeVisitorSupport {
    private final Compilation compilation;

    CallRemover(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Removes the statements from all classes of the source. */
    void remove() {
        if (compilation.removed.isEmpty()) {
            return;
        }
        for (ClassNode node : compilation.module().getClasses()) {
            for (MethodNode method : node.getMethods()) {
                if (method.getCode() != null) {
                    method.getCode().visit(this);
                }
            }
        }
    }

    @Override
    public void visitBlockStatement(BlockStatement block) {
        List<Statement> statements = block.getStatements();
        statements.replaceAll(this::kept);
        super.visitBlockStatement(block);
    }

    @Override
    public void visitIfElse(IfStatement statement) {
        statement.setIfBlock(kept(statement.getIfBlock()));
        statement.setElseBlock(kept(statement.getElseBlock()));
        super.visitIfElse(statement);
    }

    @Override
    public void visitForLoop(ForStatement loop) {
        loop.setLoopBlock(kept(loop.getLoopBlock()));
        super.visitForLoop(loop);
    }

    @Override
    public void visitWhileLoop(WhileStatement loop) {
        loop.setLoopBlock(kept(loop.getLoopBlock()));
        super.visitWhileLoop(loop);
    }

    @Override
    public void visitDoWhileLoop(DoWhileStatement loop) {
        loop.setLoopBlock(kept(loop.getLoopBlock()));
        super.visitDoWhileLoop(loop);
    }

    @Override
    public void visitCaseStatement(CaseStatement statement) {
        statement.setCode(kept(statement.getCode()));
        super.visitCaseStatement(statement);
    }

    private Statement kept(Statement statement) {
        if (!(statement instanceof ExpressionStatement simple) || !(simple.getExpression() instanceof MethodCallExpression call)
                || !removable(call)) {
            return statement;
        }
        compilation.removedCalls++;
        ExpressionStatement nothing = new ExpressionStatement(new ConstantExpression(null));
        nothing.setSourcePosition(statement);
        return nothing;
    }

    private boolean removable(MethodCallExpression call) {
        String name = call.getMethodAsString();
        if (name == null) {
            return false;
        }
        if (call.isImplicitThis()) {
            return compilation.script().getDeclaredMethods(name).isEmpty() && compilation.removed.contains("this", name);
        }
        return compilation.removed.contains(call.getObjectExpression().getText(), name);
    }
}
