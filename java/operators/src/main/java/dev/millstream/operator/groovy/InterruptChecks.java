package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.ASTNode;
import org.codehaus.groovy.ast.ClassCodeVisitorSupport;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.MethodNode;
import org.codehaus.groovy.ast.expr.ClosureExpression;
import org.codehaus.groovy.ast.stmt.BlockStatement;
import org.codehaus.groovy.ast.stmt.CatchStatement;
import org.codehaus.groovy.ast.stmt.DoWhileStatement;
import org.codehaus.groovy.ast.stmt.ExpressionStatement;
import org.codehaus.groovy.ast.stmt.ForStatement;
import org.codehaus.groovy.ast.stmt.Statement;
import org.codehaus.groovy.ast.stmt.WhileStatement;
import org.codehaus.groovy.control.SourceUnit;

/** Adds an interrupt check to the start of every loop, closure, method and catch block, so that no rule runs forever. */
final class InterruptChecks extends ClassCodeVisitorSupport {
    private final Compilation compilation;

    InterruptChecks(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Adds the checks to all classes of the source. */
    void add() {
        for (ClassNode node : compilation.module().getClasses()) {
            visitClass(node);
        }
    }

    @Override
    public void visitMethod(MethodNode node) {
        super.visitMethod(node);
        boolean body = node.getDeclaringClass() == compilation.script() && node.getName().equals("run");
        if (node.getCode() != null && !body && !node.isSynthetic() && node.getLineNumber() > 0) {
            node.setCode(checked(node.getCode(), node));
        }
    }

    @Override
    public void visitClosureExpression(ClosureExpression closure) {
        super.visitClosureExpression(closure);
        closure.setCode(checked(closure.getCode(), closure));
    }

    @Override
    public void visitForLoop(ForStatement loop) {
        super.visitForLoop(loop);
        loop.setLoopBlock(checked(loop.getLoopBlock(), loop));
    }

    @Override
    public void visitWhileLoop(WhileStatement loop) {
        super.visitWhileLoop(loop);
        loop.setLoopBlock(checked(loop.getLoopBlock(), loop));
    }

    @Override
    public void visitDoWhileLoop(DoWhileStatement loop) {
        super.visitDoWhileLoop(loop);
        loop.setLoopBlock(checked(loop.getLoopBlock(), loop));
    }

    @Override
    public void visitCatchStatement(CatchStatement statement) {
        super.visitCatchStatement(statement);
        statement.setCode(checked(statement.getCode(), statement));
    }

    private static BlockStatement checked(Statement code, ASTNode at) {
        BlockStatement block = code instanceof BlockStatement existing ? existing : blockOf(code);
        block.getStatements().add(0, new ExpressionStatement(Calls.helper(RuleInterrupted.class, "check", at)));
        return block;
    }

    private static BlockStatement blockOf(Statement code) {
        BlockStatement block = new BlockStatement();
        block.addStatement(code);
        block.setSourcePosition(code);
        return block;
    }

    @Override
    protected SourceUnit getSourceUnit() {
        return compilation.source;
    }
}
