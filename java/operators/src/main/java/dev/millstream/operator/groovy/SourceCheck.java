package dev.millstream.operator.groovy;

import java.util.Set;
import org.codehaus.groovy.ast.AnnotatedNode;
import org.codehaus.groovy.ast.AnnotationNode;
import org.codehaus.groovy.ast.ClassCodeVisitorSupport;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.ImportNode;
import org.codehaus.groovy.ast.ModuleNode;
import org.codehaus.groovy.ast.Parameter;
import org.codehaus.groovy.ast.expr.ClosureExpression;
import org.codehaus.groovy.ast.stmt.SynchronizedStatement;
import org.codehaus.groovy.control.SourceUnit;

/**
 * Refuses source code that could run code in the compiler: annotations that transform a class, and imports that would hide such annotations
 * under another name. Runs before names are resolved.
 */
final class SourceCheck extends ClassCodeVisitorSupport {
    private static final Set<String> ANNOTATIONS = Set.of(
            "Field", "groovy.transform.Field", "Override", "java.lang.Override", "Deprecated", "java.lang.Deprecated",
            "SuppressWarnings", "java.lang.SuppressWarnings",
            // Added by the compiler itself.
            "groovy.transform.Generated");

    private final Compilation compilation;

    SourceCheck(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Checks the whole source. */
    void check() {
        ModuleNode module = compilation.module();
        if (module.getPackage() != null) {
            compilation.refuse("a rule cannot declare a package", module.getPackage());
        }
        if (!module.getClasses().contains(compilation.script())) {
            compilation.refuse("a rule needs at least one statement outside its classes", module.getClasses().get(0));
        }
        module.getImports().forEach(this::checkImport);
        module.getStaticImports().values().forEach(this::checkImport);
        module.getStaticStarImports().values().forEach(this::checkImport);
        module.getStarImports().forEach(this::checkAnnotations);
        for (ClassNode node : module.getClasses()) {
            visitClass(node);
        }
    }

    private void checkImport(ImportNode node) {
        checkAnnotations(node);
        if (!compilation.allowed.type(node.getClassName())) {
            compilation.refuse(Refusals.type(node.getClassName()), node);
        }
    }

    private void checkAnnotations(AnnotatedNode node) {
        for (AnnotationNode annotation : node.getAnnotations()) {
            String name = annotation.getClassNode().getName();
            if (!ANNOTATIONS.contains(name)) {
                compilation.refuse("annotation " + name + " is not allowed in a script", annotation.getLineNumber() > 0 ? annotation : node);
            }
        }
    }

    @Override
    public void visitAnnotations(AnnotatedNode node) {
        checkAnnotations(node);
    }

    @Override
    public void visitClosureExpression(ClosureExpression closure) {
        if (closure.getParameters() != null) {
            for (Parameter parameter : closure.getParameters()) {
                checkAnnotations(parameter);
            }
        }
        super.visitClosureExpression(closure);
    }

    @Override
    public void visitSynchronizedStatement(SynchronizedStatement statement) {
        compilation.refuse(
                "synchronized is not allowed in a script and is not needed because each worker has separate variables", statement);
    }

    @Override
    protected SourceUnit getSourceUnit() {
        return compilation.source;
    }
}
