package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.ASTNode;
import org.codehaus.groovy.syntax.SyntaxException;

/** An error that this package found, not Groovy: no other way of compilation avoids it. */
final class Refusal extends SyntaxException {
    private static final long serialVersionUID = 1;

    Refusal(String message, ASTNode node) {
        super(message, node);
    }
}
