package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.ASTNode;
import org.codehaus.groovy.syntax.SyntaxException;

/** An error from this package rather than from Groovy. Compiling without types does not avoid this error. */
final class Refusal extends SyntaxException {
    private static final long serialVersionUID = 1;

    Refusal(String message, ASTNode node) {
        super(message, node);
    }
}
