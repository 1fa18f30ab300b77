package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.ASTNode;
import org.codehaus.groovy.ast.ClassHelper;
import org.codehaus.groovy.ast.MethodNode;
import org.codehaus.groovy.ast.Parameter;
import org.codehaus.groovy.ast.expr.ArgumentListExpression;
import org.codehaus.groovy.ast.expr.ClassExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.MethodCallExpression;
import org.codehaus.groovy.ast.expr.VariableExpression;
import org.codehaus.groovy.transform.stc.StaticTypesMarker;

/** Creates the calls that the compiler adds to a rule. */
final class Calls {
    /** The key of the mark that lets a call pass the safety check. */
    private static final String GENERATED = "millstream.generated";

    private Calls() {}

    /** Returns whether the compiler added this node. */
    static boolean generated(ASTNode node) {
        return node.getNodeMetaData(GENERATED) != null;
    }

    /** Marks a node as added by the compiler, at the place of another. */
    static <T extends Expression> T mark(T node, ASTNode at) {
        node.setSourcePosition(at);
        node.putNodeMetaData(GENERATED, Boolean.TRUE);
        return node;
    }

    /** Returns the expression for the event. */
    static MethodCallExpression row(ASTNode at) {
        return ofScript(ScriptBase.class, "currentRow", at);
    }

    /** Returns a call of a method without parameters of the superclass of the script. */
    static MethodCallExpression ofScript(Class<?> base, String method, ASTNode at) {
        // Not THIS_EXPRESSION: the type checker would leave its marks on that one for all rules.
        VariableExpression self = new VariableExpression("this");
        MethodCallExpression call = new MethodCallExpression(self, method, new ArgumentListExpression());
        call.setImplicitThis(false);
        call.getMethod().setSourcePosition(at);
        call.setMethodTarget(ClassHelper.make(base).getDeclaredMethod(method, Parameter.EMPTY_ARRAY));
        return mark(call, at);
    }

    /** Returns a call of a method of the event. */
    static MethodCallExpression onRow(ASTNode at, String method, Expression... arguments) {
        return call(row(at), method, at, arguments);
    }

    /** Returns a call of a static method of a class of this package, which the type checker is yet to resolve. */
    static MethodCallExpression helper(Class<?> owner, String method, ASTNode at, Expression... arguments) {
        return call(mark(new ClassExpression(ClassHelper.make(owner)), at), method, at, arguments);
    }

    /** Like {@link #helper}, but of a method that takes and returns objects only, and that needs no type checker. */
    static MethodCallExpression resolved(Class<?> owner, String method, ASTNode at, Expression... arguments) {
        MethodCallExpression call = helper(owner, method, at, arguments);
        MethodNode target = ClassHelper.make(owner).getMethod(method, objects(arguments.length));
        call.setMethodTarget(target);
        call.putNodeMetaData(StaticTypesMarker.DIRECT_METHOD_CALL_TARGET, target);
        call.putNodeMetaData(StaticTypesMarker.INFERRED_TYPE, target.getReturnType());
        return call;
    }

    /** Returns parameters of type Object. */
    static Parameter[] objects(int count) {
        Parameter[] parameters = new Parameter[count];
        for (int at = 0; at < count; at++) {
            parameters[at] = new Parameter(ClassHelper.OBJECT_TYPE, "argument" + at);
        }
        return parameters;
    }

    private static MethodCallExpression call(Expression receiver, String method, ASTNode at, Expression... arguments) {
        MethodCallExpression call = new MethodCallExpression(receiver, method, new ArgumentListExpression(arguments));
        call.setImplicitThis(false);
        call.getMethod().setSourcePosition(at);
        return mark(call, at);
    }
}
