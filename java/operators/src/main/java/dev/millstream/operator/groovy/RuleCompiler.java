package dev.millstream.operator.groovy;

import dev.millstream.operator.groovy.CompiledScript.ClassFile;
import dev.millstream.operator.runtime.RuleSource;
import java.util.List;
import org.codehaus.groovy.ast.ClassHelper;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.MethodNode;
import org.codehaus.groovy.classgen.asm.WriterControllerFactory;
import org.codehaus.groovy.classgen.asm.sc.StaticTypesWriterControllerFactoryImpl;
import org.codehaus.groovy.control.CompilationUnit;
import org.codehaus.groovy.control.Phases;
import org.codehaus.groovy.control.SourceUnit;
import org.codehaus.groovy.transform.sc.StaticCompilationMetadataKeys;

/** Compiles one rule, and runs this package's passes between Groovy's phases. */
final class RuleCompiler {
    private static final String PREFIX = "rule_";
    private static final WriterControllerFactory WRITERS = new StaticTypesWriterControllerFactoryImpl();

    private final CompilationUnit unit;
    private final SourceUnit source;

    RuleCompiler(CompileLoader loader, RuleSource rule) {
        unit = new CompilationUnit(CompileLoader.CONFIGURATION, null, loader, loader);
        source = unit.addSource(PREFIX + rule.name().replaceAll("[^A-Za-z0-9_]", "_") + ".groovy", rule.text());
    }

    SourceUnit source() {
        return source;
    }

    /** Compiles the rule. {@link #classes()} then returns the classes. */
    void compile(Compilation compilation) {
        unit.addPhaseOperation((SourceUnit parsed) -> {
            prepare(compilation.script(), compilation.kind);
            new SourceCheck(compilation).check();
            new CallRemover(compilation).remove();
        }, Phases.CONVERSION);
        unit.addPhaseOperation((SourceUnit resolved) -> {
            new MultipleAssignments(compilation).replace();
            replaceVariables(compilation);
            new Ranges(compilation).replace();
            new PatternConstants(compilation).replace();
            new InterruptChecks(compilation).add();
        }, Phases.CANONICALIZATION);
        unit.addPhaseOperation((SourceUnit complete) -> {
            if (compilation.typed) {
                checkTypes(compilation);
            } else {
                new SafetyCheck(compilation, expression -> ClassHelper.OBJECT_TYPE).check();
                new DynamicTransformer(compilation).replace();
            }
        }, Phases.INSTRUCTION_SELECTION);
        unit.compile(Phases.CLASS_GENERATION);
    }

    private static void replaceVariables(Compilation compilation) {
        if (compilation.kind == ScriptKind.RULE) {
            new FieldAccess(compilation).replace();
        } else {
            new Bindings(compilation).replace();
        }
    }

    /** Returns whether the compilation has reached type checking or a later phase. */
    boolean reachedTypes() {
        return unit.getPhase() >= Phases.INSTRUCTION_SELECTION;
    }

    List<ClassFile> classes() {
        return unit.getClasses().stream().map(each -> new ClassFile(each.getName(), each.getBytes())).toList();
    }

    private void checkTypes(Compilation compilation) {
        RuleTypeChecker checker = new RuleTypeChecker(compilation);
        checker.setCompilationUnit(unit);
        RuleTransformer transformer = new RuleTransformer(compilation, checker);
        List<ClassNode> classes = List.copyOf(compilation.module().getClasses());
        for (ClassNode node : classes) {
            if (node.getOuterClass() == null) {
                node.putNodeMetaData(WriterControllerFactory.class, WRITERS);
                node.putNodeMetaData(StaticCompilationMetadataKeys.STATIC_COMPILE_NODE, Boolean.TRUE);
                checker.initialize();
                checker.visitClass(node);
            }
        }
        checker.performSecondPass();
        new SafetyCheck(compilation, checker::typeOf).check();
        for (ClassNode node : classes) {
            if (node.getOuterClass() == null) {
                transformer.visitClass(node);
            }
        }
    }

    /** Sets the script's superclass, and removes the members that Groovy adds for the command line and for bindings. */
    private static void prepare(ClassNode script, ScriptKind kind) {
        script.setSuperClass(ClassHelper.make(kind.base));
        for (MethodNode main : List.copyOf(script.getDeclaredMethods("main"))) {
            if (main.isSynthetic() || main.getLineNumber() < 1) {
                script.removeMethod(main);
            }
        }
        script.getDeclaredConstructors().removeIf(constructor -> constructor.getParameters().length > 0);
    }
}
