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
        return "method " + name + " is not allowed in a script or does not exist; no allowed class has a method with this name"
                + hint("the.Class");
    }

    static String property(String name, ScriptKind kind) {
        String hint = kind == ScriptKind.RULE ? "; to access a field with this name, use row['" + name + "']" : "";
        return "property " + name + " is not allowed in a script" + hint;
    }

    static String variable(String name, ScriptKind kind) {
        String advice = kind == ScriptKind.RULE
                ? "use row." + name + " for a field, or declare a variable with def "
                : "declare it with def ";
        return "variable " + name + " is not declared; " + advice + name;
    }

    private static String hint(String name) {
        return " (to allow a class, set `allow: [" + name + "]`)";
    }
}
