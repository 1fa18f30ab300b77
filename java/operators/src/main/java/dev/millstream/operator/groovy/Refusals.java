package dev.millstream.operator.groovy;

/** Messages about code that a rule may not use. */
final class Refusals {
    private Refusals() {}

    static String type(String name) {
        return "class " + name + " is not allowed in a script" + hint(name);
    }

    static String method(String owner, String name, boolean classMissing) {
        return "method " + owner + '.' + name + " is not allowed in a script" + (classMissing ? hint(owner) : "");
    }

    static String unknownMethod(String name) {
        return "method " + name + " is not allowed in a script, or does not exist: no allowed class has a method of this name"
                + hint("the.Class");
    }

    static String property(String name, ScriptKind kind) {
        String hint = kind == ScriptKind.RULE ? "; a field of this name is row['" + name + "']" : "";
        return "property " + name + " is not allowed in a script" + hint;
    }

    static String variable(String name, ScriptKind kind) {
        String field = kind == ScriptKind.RULE ? "a field is row." + name + ", a variable of the rule is def " : "write def ";
        return "variable " + name + " is not declared: " + field + name;
    }

    private static String hint(String name) {
        return " (a class is allowed by the option allow: [" + name + "])";
    }
}
