package dev.millstream.operator.groovy;

import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.codehaus.groovy.ast.ASTNode;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.ModuleNode;
import org.codehaus.groovy.control.SourceUnit;

/** What the passes over the syntax tree of one rule share: the declarations that apply, and what they find. */
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

    /** Returns the class of the script; its other classes are those that it declares. */
    ClassNode script() {
        return source.getAST().getScriptClassDummy();
    }

    ModuleNode module() {
        return source.getAST();
    }

    /** Adds an error that no other way of compilation would avoid. */
    void refuse(String message, ASTNode node) {
        source.getErrorCollector().addErrorAndContinue(new Refusal(message, node), source);
    }

    /** Notes that the rule uses a field. */
    void uses(String name) {
        if (!name.equals("message") && !name.equals("timestamp") && !name.startsWith("meta.")) {
            fields.add(name);
        }
    }
}
