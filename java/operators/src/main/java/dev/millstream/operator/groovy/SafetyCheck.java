package dev.millstream.operator.groovy;

import java.util.Set;
import java.util.function.Function;
import org.apache.groovy.util.BeanUtils;
import org.codehaus.groovy.ast.ASTNode;
import org.codehaus.groovy.ast.ClassCodeVisitorSupport;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.DynamicVariable;
import org.codehaus.groovy.ast.FieldNode;
import org.codehaus.groovy.ast.MethodNode;
import org.codehaus.groovy.ast.Parameter;
import org.codehaus.groovy.ast.PropertyNode;
import org.codehaus.groovy.ast.Variable;
import org.codehaus.groovy.ast.expr.ArrayExpression;
import org.codehaus.groovy.ast.expr.AttributeExpression;
import org.codehaus.groovy.ast.expr.BinaryExpression;
import org.codehaus.groovy.ast.expr.CastExpression;
import org.codehaus.groovy.ast.expr.ClassExpression;
import org.codehaus.groovy.ast.expr.ClosureExpression;
import org.codehaus.groovy.ast.expr.ConstantExpression;
import org.codehaus.groovy.ast.expr.ConstructorCallExpression;
import org.codehaus.groovy.ast.expr.DeclarationExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.MethodCallExpression;
import org.codehaus.groovy.ast.expr.MethodPointerExpression;
import org.codehaus.groovy.ast.expr.PropertyExpression;
import org.codehaus.groovy.ast.expr.StaticMethodCallExpression;
import org.codehaus.groovy.ast.expr.VariableExpression;
import org.codehaus.groovy.ast.stmt.CatchStatement;
import org.codehaus.groovy.ast.stmt.ForStatement;
import org.codehaus.groovy.control.SourceUnit;
import org.codehaus.groovy.transform.stc.StaticTypesMarker;

/**
 * Refuses every class, method and property that is not on the allow-list. If a method's class is unknown, the name decides.
 *
 * <p>Runs after type checking, when call targets are known, or without type checking.
 */
final class SafetyCheck extends ClassCodeVisitorSupport {
    /** Methods that would change how Groovy calls a class's other methods, or that the JVM calls. */
    private static final Set<String> REFUSED_DECLARATIONS =
            Set.of("finalize", "getMetaClass", "getProperty", "invokeMethod", "setMetaClass", "setProperty");

    private final Compilation compilation;
    private final MemberCheck members;
    private final Function<Expression, ClassNode> types;
    private ClassNode current;
    private int closures;

    /**
     * Creates the check.
     *
     * @param types returns the type of an expression, or Object if the type is unknown
     */
    SafetyCheck(Compilation compilation, Function<Expression, ClassNode> types) {
        this.compilation = compilation;
        this.members = new MemberCheck(compilation);
        this.types = types;
    }

    /** Checks all classes of the source. */
    void check() {
        for (ClassNode node : compilation.module().getClasses()) {
            checkType(node.getUnresolvedSuperClass(false), node);
            for (ClassNode implemented : node.getInterfaces()) {
                checkType(implemented, node);
            }
            current = node;
            visitClass(node);
        }
    }

    private void checkType(ClassNode type, ASTNode at) {
        boolean fromCompiler = type == null || type.getName().equals(compilation.kind.base.getName())
                || type.getName().equals("groovy.lang.GroovyObject");
        if (!fromCompiler && !compilation.allowed.type(type)) {
            compilation.refuse(Refusals.type(elementName(type)), at);
        }
    }

    private static String elementName(ClassNode type) {
        ClassNode element = type;
        while (element.isArray()) {
            element = element.getComponentType();
        }
        return element.getName();
    }

    @Override
    protected void visitConstructorOrMethod(MethodNode node, boolean isConstructor) {
        if (node.isSynthetic() || node.getLineNumber() < 1) {
            if (node.isScriptBody() || node.isStaticConstructor()) {
                super.visitConstructorOrMethod(node, isConstructor);
            }
            return;
        }
        checkType(node.getReturnType(), node);
        checkParameters(node.getParameters());
        if (REFUSED_DECLARATIONS.contains(node.getName())) {
            compilation.refuse("a rule cannot declare a method named " + node.getName(), node);
        }
        super.visitConstructorOrMethod(node, isConstructor);
    }

    private void checkParameters(Parameter[] parameters) {
        if (parameters != null) {
            for (Parameter parameter : parameters) {
                checkType(parameter.getType(), parameter);
                if (parameter.hasInitialExpression()) {
                    parameter.getInitialExpression().visit(this);
                }
            }
        }
    }

    @Override
    public void visitField(FieldNode node) {
        if (!node.isSynthetic() && node.getLineNumber() > 0) {
            checkType(node.getType(), node);
        }
        super.visitField(node);
    }

    @Override
    public void visitDeclarationExpression(DeclarationExpression declaration) {
        if (!declaration.isMultipleAssignmentDeclaration()) {
            checkType(declaration.getVariableExpression().getOriginType(), declaration);
        }
        super.visitDeclarationExpression(declaration);
    }

    @Override
    public void visitForLoop(ForStatement loop) {
        if (loop.getValueVariable() != null) {
            checkType(loop.getValueVariable().getType(), loop);
        }
        super.visitForLoop(loop);
    }

    @Override
    public void visitCatchStatement(CatchStatement statement) {
        checkType(statement.getExceptionType(), statement);
        super.visitCatchStatement(statement);
    }

    @Override
    public void visitClosureExpression(ClosureExpression closure) {
        checkParameters(closure.getParameters());
        closures++;
        super.visitClosureExpression(closure);
        closures--;
    }

    @Override
    public void visitClassExpression(ClassExpression expression) {
        if (!Calls.generated(expression)) {
            checkType(expression.getType(), expression);
        }
    }

    @Override
    public void visitCastExpression(CastExpression expression) {
        checkType(expression.getType(), expression);
        super.visitCastExpression(expression);
    }

    @Override
    public void visitArrayExpression(ArrayExpression expression) {
        checkType(expression.getElementType(), expression);
        super.visitArrayExpression(expression);
    }

    @Override
    public void visitConstructorCallExpression(ConstructorCallExpression call) {
        if (!call.isSpecialCall()) {
            checkType(call.getType(), call);
        }
        super.visitConstructorCallExpression(call);
    }

    @Override
    public void visitVariableExpression(VariableExpression variable) {
        if (variable.isThisExpression() || variable.isSuperExpression() || Calls.generated(variable)) {
            return;
        }
        String name = variable.getName();
        Variable accessed = variable.getAccessedVariable();
        boolean delegated = variable.getNodeMetaData(StaticTypesMarker.IMPLICIT_RECEIVER) != null
                && members.dynamicName("get" + BeanUtils.capitalize(name));
        boolean unknown = accessed instanceof DynamicVariable && !delegated && compilation.script().getDeclaredField(name) == null;
        if (unknown || ofSuperclass(accessed)) {
            compilation.refuse(Refusals.variable(name, compilation.kind), variable);
        }
    }

    /** Returns whether the variable belongs to a class outside the source, such as the binding of a script. */
    private static boolean ofSuperclass(Variable accessed) {
        if (accessed instanceof FieldNode field) {
            return !field.getDeclaringClass().redirect().isPrimaryClassNode();
        }
        return accessed instanceof PropertyNode property && !property.getDeclaringClass().redirect().isPrimaryClassNode();
    }

    @Override
    public void visitAttributeExpression(AttributeExpression expression) {
        compilation.refuse("direct access to an attribute (.@) is not allowed in a script", expression);
    }

    @Override
    public void visitPropertyExpression(PropertyExpression property) {
        property.getObjectExpression().visit(this);
        if (!Calls.generated(property)) {
            checkProperty(property);
        }
        if (!(property.getProperty() instanceof ConstantExpression)) {
            property.getProperty().visit(this);
        }
    }

    private void checkProperty(PropertyExpression property) {
        String name = property.getPropertyAsString();
        Expression object = property.getObjectExpression();
        if (name == null) {
            compilation.refuse("a property name must be constant; for a map entry, use map[name]", property);
            return;
        }
        ClassNode type = types.apply(object);
        boolean allowed;
        if (object instanceof ClassExpression) {
            allowed = members.staticProperty(object.getType(), name);
        } else if (object instanceof VariableExpression variable && (variable.isThisExpression() || variable.isSuperExpression())) {
            allowed = members.property(current, name);
        } else if (TypingExtension.isUnknown(type) || property.getNodeMetaData(DynamicNodes.PROPERTY) != null) {
            allowed = !name.equals("class") && !name.equals("metaClass");
        } else {
            allowed = members.property(type, name);
        }
        if (!allowed) {
            compilation.refuse(Refusals.property(name, compilation.kind), property);
        }
    }

    @Override
    public void visitMethodPointerExpression(MethodPointerExpression pointer) {
        String name = pointer.getMethodName() instanceof ConstantExpression constant ? constant.getText() : null;
        Expression object = pointer.getExpression();
        boolean allowed;
        if (name == null) {
            allowed = false;
        } else if (object instanceof ClassExpression) {
            allowed = name.equals("new") || members.methodOf(object.getType(), name);
        } else if (object instanceof VariableExpression variable && (variable.isThisExpression() || variable.isSuperExpression())) {
            allowed = members.function(current, name);
        } else {
            allowed = members.dynamicName(name);
        }
        if (!allowed) {
            compilation.refuse(Refusals.unknownMethod(String.valueOf(name)), pointer);
        }
        super.visitMethodPointerExpression(pointer);
    }

    @Override
    public void visitBinaryExpression(BinaryExpression binary) {
        MethodNode target = binary.getNodeMetaData(StaticTypesMarker.DIRECT_METHOD_CALL_TARGET);
        if (target != null && !members.target(target, types.apply(binary.getLeftExpression()))) {
            compilation.refuse(refusal(target.getDeclaringClass(), target.getName()), binary);
        }
        super.visitBinaryExpression(binary);
    }

    @Override
    public void visitStaticMethodCallExpression(StaticMethodCallExpression call) {
        checkType(call.getOwnerType(), call);
        if (!members.methodOf(call.getOwnerType(), call.getMethod())) {
            compilation.refuse(refusal(call.getOwnerType(), call.getMethod()), call);
        }
        super.visitStaticMethodCallExpression(call);
    }

    @Override
    public void visitMethodCallExpression(MethodCallExpression call) {
        call.getObjectExpression().visit(this);
        if (!Calls.generated(call)) {
            checkCall(call);
        }
        call.getArguments().visit(this);
    }

    private void checkCall(MethodCallExpression call) {
        String name = call.getMethodAsString();
        if (name == null) {
            compilation.refuse("a method name must be constant in a rule", call);
            return;
        }
        boolean resolved = call.getMethodTarget() != null && call.getNodeMetaData(StaticTypesMarker.DYNAMIC_RESOLUTION) == null;
        if (!resolved || MemberCheck.operator(call.getMethodTarget())) {
            compilation.dynamicCalls++;
        }
        if (resolved) {
            MethodNode target = call.getMethodTarget();
            if (!members.target(target, types.apply(call.getObjectExpression()))) {
                compilation.refuse(refusal(target.getDeclaringClass(), name), call);
            }
        } else {
            checkUnresolved(call, name);
        }
    }

    private String refusal(ClassNode type, String method) {
        return Refusals.method(type.getName(), method, !compilation.allowed.type(type));
    }

    private void checkUnresolved(MethodCallExpression call, String name) {
        Expression object = call.getObjectExpression();
        if (object instanceof ClassExpression) {
            if (!members.methodOf(object.getType(), name)) {
                compilation.refuse(refusal(object.getType(), name), call);
            }
        } else if (call.isImplicitThis() || (object instanceof VariableExpression variable && variable.isThisExpression())) {
            // Without types, a function in a closure may be a method of the closure's delegate.
            boolean ofDelegate = !compilation.typed && closures > 0 && members.dynamicName(name);
            if (!ofDelegate && !members.function(current, name)) {
                compilation.refuse("no function " + name, call);
            }
        } else if (!members.dynamicName(name)) {
            compilation.refuse(Refusals.unknownMethod(name), call);
        }
    }

    @Override
    protected SourceUnit getSourceUnit() {
        return compilation.source;
    }
}
