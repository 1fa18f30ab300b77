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

/** Creates the calls that this package adds to a rule. */
final class Calls {
    /** Key of the mark with which a call passes the safety check. */
    private static final String GENERATED = "millstream.generated";

    private Calls() {}

    /** Returns whether this package has added the node. */
    static boolean generated(ASTNode node) {
        return node.getNodeMetaData(GENERATED) != null;
    }

    /** Marks a node as added by this package, with the source position of another node. */
    static <T extends Expression> T mark(T node, ASTNode at) {
        node.setSourcePosition(at);
        node.putNodeMetaData(GENERATED, Boolean.TRUE);
        return node;
    }

    /** Returns the expression for the event. */
    static MethodCallExpression row(ASTNode at) {
        return ofScript(ScriptBase.class, "currentRow", at);
    }

    /** Returns a call of a parameterless method of the script's superclass. */
    static MethodCallExpression ofScript(Class<?> base, String method, ASTNode at) {
        // Do not use THIS_EXPRESSION, because the type checker would leave marks on that shared node for all rules.
        VariableExpression self = new VariableExpression("this");
        MethodCallExpression call = new MethodCallExpression(self, method, new ArgumentListExpression());
        call.setImplicitThis(false);
        call.getMethod().setSourcePosition(at);
        call.setMethodTarget(ClassHelper.make(base).getDeclaredMethod(method, Parameter.EMPTY_ARRAY));
        return mark(call, at);
    }

    /** Returns a call of a method on the event. */
    static MethodCallExpression onRow(ASTNode at, String method, Expression... arguments) {
        return call(row(at), method, at, arguments);
    }

    /** Returns a call of a static method of a class in this package. The type checker resolves the call later. */
    static MethodCallExpression helper(Class<?> owner, String method, ASTNode at, Expression... arguments) {
        return call(mark(new ClassExpression(ClassHelper.make(owner)), at), method, at, arguments);
    }

    /** Like {@link #helper}, for a method that takes and returns only objects. The call is resolved without the type checker. */
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
