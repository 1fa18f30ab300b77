package dev.millstream.javaagent;

/** Converts JVM class names to their source code form. */
final class TypeNames {
    private static final String CODES = "BCDFIJSZ";
    private static final String[] PRIMITIVES = {"byte", "char", "double", "float", "int", "long", "short", "boolean"};

    private TypeNames() {}

    /**
     * Returns the source code form of a name. Array names such as [B are converted, and a hidden class's number is cut because it differs
     * in each JVM.
     */
    static String readable(String name) {
        int dimensions = 0;
        while (dimensions < name.length() && name.charAt(dimensions) == '[') {
            dimensions++;
        }
        String element = dimensions == 0 ? name : element(name.substring(dimensions));
        return element.substring(0, end(element)) + "[]".repeat(dimensions);
    }

    /** Returns the position of a hidden class's number, as in {@code Shop$$Lambda+0x00007f43d01b8208/817299424}, or the end. */
    private static int end(String element) {
        int end = element.length();
        for (String mark : new String[] {"/", "+0x", ".0x"}) {
            int at = element.indexOf(mark);
            end = at < 0 ? end : Math.min(end, at);
        }
        return end;
    }

    private static String element(String code) {
        if (code.startsWith("L") && code.endsWith(";")) {
            return code.substring(1, code.length() - 1);
        }
        int primitive = code.length() == 1 ? CODES.indexOf(code.charAt(0)) : -1;
        return primitive < 0 ? code : PRIMITIVES[primitive];
    }
}
