package dev.millstream.operator.groovy;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.codehaus.groovy.ast.ASTNode;
import org.codehaus.groovy.ast.ClassCodeExpressionTransformer;
import org.codehaus.groovy.ast.ClassHelper;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.FieldNode;
import org.codehaus.groovy.ast.expr.ArgumentListExpression;
import org.codehaus.groovy.ast.expr.BinaryExpression;
import org.codehaus.groovy.ast.expr.BitwiseNegationExpression;
import org.codehaus.groovy.ast.expr.ClassExpression;
import org.codehaus.groovy.ast.expr.ClosureExpression;
import org.codehaus.groovy.ast.expr.ConstantExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.MethodCallExpression;
import org.codehaus.groovy.ast.expr.PropertyExpression;
import org.codehaus.groovy.control.SourceUnit;
import org.codehaus.groovy.syntax.Types;
import org.objectweb.asm.Opcodes;

/**
 * Compiles constant regular expressions once, into static fields of the rule's class.
 *
 * <p>Groovy's methods for regular expressions accept a {@link Pattern} in place of a string. {@link Patterns} replaces {@code split}.
 */
final class PatternConstants extends ClassCodeExpressionTransformer {
    private static final Set<String> FIRST_ARGUMENT = Set.of("matches", "replaceAll", "replaceFirst", "find", "findAll", "eachMatch");
    /** Special characters in regular expressions. Without them, String.split needs no pattern. */
    private static final Pattern SPECIAL = Pattern.compile("[.$|()\\[{^?*+\\\\]");

    private final Compilation compilation;
    private final Map<String, FieldNode> constants = new HashMap<>();

    PatternConstants(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Replaces the expressions in all classes of the source. */
    void replace() {
        for (ClassNode node : List.copyOf(compilation.module().getClasses())) {
            visitClass(node);
        }
    }

    @Override
    public Expression transform(Expression expression) {
        if (expression instanceof ClosureExpression closure) {
            return Closures.transformed(closure, this);
        }
        if (expression instanceof BitwiseNegationExpression negation && literal(negation.getExpression())) {
            return constant(negation.getExpression(), negation);
        }
        Expression transformed = super.transform(expression);
        if (transformed instanceof BinaryExpression binary) {
            replaceOperand(binary);
        } else if (transformed instanceof MethodCallExpression call) {
            return replaceArgument(call);
        }
        return transformed;
    }

    private void replaceOperand(BinaryExpression binary) {
        int operator = binary.getOperation().getType();
        boolean regex = operator == Types.FIND_REGEX || operator == Types.MATCH_REGEX;
        if (regex && literal(binary.getRightExpression())) {
            binary.setRightExpression(constant(binary.getRightExpression(), binary.getRightExpression()));
        }
    }

    private Expression replaceArgument(MethodCallExpression call) {
        String name = call.getMethodAsString();
        if (name == null || !(call.getArguments() instanceof ArgumentListExpression arguments) || arguments.getExpressions().isEmpty()) {
            return call;
        }
        Expression first = arguments.getExpression(0);
        if (!literal(first) || call.isImplicitThis()) {
            return call;
        }
        int count = arguments.getExpressions().size();
        if (name.equals("split") && count <= 2) {
            return split(call, arguments);
        }
        if (name.equals("compile") && count == 1 && isPatternClass(call.getObjectExpression())) {
            return constant(first, call);
        }
        if (FIRST_ARGUMENT.contains(name) && count == argumentsOf(name)) {
            arguments.getExpressions().set(0, constant(first, first));
        }
        return call;
    }

    private static int argumentsOf(String name) {
        return name.equals("matches") || name.startsWith("find") ? 1 : 2;
    }

    private Expression split(MethodCallExpression call, ArgumentListExpression arguments) {
        String text = arguments.getExpression(0).getText();
        if (call.isSafe() || call.isSpreadSafe() || (text.length() == 1 && !SPECIAL.matcher(text).find())) {
            return call;
        }
        Expression pattern = constant(arguments.getExpression(0), arguments.getExpression(0));
        Expression limit = arguments.getExpressions().size() == 2 ? arguments.getExpression(1) : new ConstantExpression(0, true);
        return Calls.helper(Patterns.class, "split", call, call.getObjectExpression(), pattern, limit);
    }

    private static boolean literal(Expression expression) {
        return expression instanceof ConstantExpression constant && constant.getValue() instanceof String;
    }

    private static boolean isPatternClass(Expression expression) {
        return expression instanceof ClassExpression && expression.getType().getName().equals("java.util.regex.Pattern");
    }

    private Expression constant(Expression literal, ASTNode at) {
        String text = literal.getText();
        try {
            Pattern.compile(text);
        } catch (PatternSyntaxException invalid) {
            compilation.refuse("invalid regular expression: " + invalid.getDescription() + " near index " + invalid.getIndex()
                    + ": " + text, literal);
        }
        FieldNode field = constants.computeIfAbsent(text, this::field);
        Expression owner = Calls.mark(new ClassExpression(compilation.script()), at);
        return Calls.mark(new PropertyExpression(owner, field.getName()), at);
    }

    private FieldNode field(String text) {
        ClassNode type = ClassHelper.make(Pattern.class);
        Expression value = Calls.helper(Pattern.class, "compile", compilation.script(), new ConstantExpression(text));
        int modifiers = Opcodes.ACC_PUBLIC | Opcodes.ACC_STATIC | Opcodes.ACC_FINAL;
        return compilation.script().addField("PATTERN_" + constants.size(), modifiers, type, value);
    }

    @Override
    protected SourceUnit getSourceUnit() {
        return compilation.source;
    }
}
