package dev.millstream.operator.groovy;

import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.codehaus.groovy.ast.ASTNode;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.ModuleNode;
import org.codehaus.groovy.control.SourceUnit;

/** Settings and results that the passes over one rule's syntax tree share. */
final class Compilation {
    final SourceUnit source;
    final ScriptKind kind;
    final AllowList allowed;
    final RemovedCalls removed;
    final Map<String, String> declared;
    /** Whether the rule is compiled statically. */
    final boolean typed;
    final Set<String> fields = new LinkedHashSet<>();
    int removedCalls;
    int dynamicCalls;

    Compilation(
            SourceUnit source, ScriptKind kind, AllowList allowed, RemovedCalls removed, Map<String, String> declared, boolean typed) {
        this.source = source;
        this.kind = kind;
        this.allowed = allowed;
        this.removed = removed;
        this.declared = declared;
        this.typed = typed;
    }

    /** Returns the script's class. The other classes of the module are declared by the script. */
    ClassNode script() {
        return source.getAST().getScriptClassDummy();
    }

    ModuleNode module() {
        return source.getAST();
    }

    /** Adds an error that compiling without types would not avoid. */
    void refuse(String message, ASTNode node) {
        source.getErrorCollector().addErrorAndContinue(new Refusal(message, node), source);
    }

    /** Records that the rule uses a field. */
    void uses(String name) {
        if (!name.equals("message") && !name.equals("timestamp") && !name.startsWith("meta.")) {
            fields.add(name);
        }
    }
}
