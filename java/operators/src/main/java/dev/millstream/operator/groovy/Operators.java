package dev.millstream.operator.groovy;

import groovy.lang.GString;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.codehaus.groovy.runtime.InvokerHelper;
import org.codehaus.groovy.runtime.ScriptBytecodeAdapter;
import org.codehaus.groovy.runtime.StringGroovyMethods;
import org.codehaus.groovy.runtime.typehandling.NumberMath;

/**
 * Operators for compiled rules if an operand's type is known only at run time. Numbers and text take a fast path. All other types use
 * Groovy's method for the operator.
 */
public final class Operators {
    private Operators() {}

    /** Computes {@code left + right}. */
    public static Object plus(Object left, Object right) {
        if (left instanceof Long first && right instanceof Long second) {
            return first + second;
        }
        if (left instanceof String text) {
            return StringGroovyMethods.plus(text, right);
        }
        if (left instanceof Number first && right instanceof Number second) {
            return NumberMath.add(first, second);
        }
        return other(left, "plus", right);
    }

    /** Computes {@code left - right}. */
    public static Object minus(Object left, Object right) {
        if (left instanceof Long first && right instanceof Long second) {
            return first - second;
        }
        if (left instanceof Number first && right instanceof Number second) {
            return NumberMath.subtract(first, second);
        }
        return other(left, "minus", right);
    }

    /** Computes {@code left * right}. */
    public static Object multiply(Object left, Object right) {
        if (left instanceof Long first && right instanceof Long second) {
            return first * second;
        }
        if (left instanceof Number first && right instanceof Number second) {
            return NumberMath.multiply(first, second);
        }
        return other(left, "multiply", right);
    }

    /** Computes {@code left / right}. */
    public static Object div(Object left, Object right) {
        if (left instanceof Number first && right instanceof Number second) {
            return NumberMath.divide(first, second);
        }
        return other(left, "div", right);
    }

    /** Computes {@code left intdiv right}. */
    public static Object intdiv(Object left, Object right) {
        if (left instanceof Number first && right instanceof Number second) {
            return NumberMath.intdiv(first, second);
        }
        return other(left, "intdiv", right);
    }

    /** Computes {@code left mod right}. */
    public static Object mod(Object left, Object right) {
        if (left instanceof Number first && right instanceof Number second) {
            return NumberMath.mod(first, second);
        }
        return other(left, "mod", right);
    }

    /** Computes {@code left % right}. */
    public static Object remainder(Object left, Object right) {
        if (left instanceof Number first && right instanceof Number second) {
            return NumberMath.remainder(first, second);
        }
        return other(left, "remainder", right);
    }

    /** Computes {@code left ** right}. */
    public static Object power(Object left, Object right) {
        return other(left, "power", right);
    }

    /** Computes {@code left << right}. */
    public static Object leftShift(Object left, Object right) {
        return other(left, "leftShift", right);
    }

    /** Computes {@code left >> right}. */
    public static Object rightShift(Object left, Object right) {
        return other(left, "rightShift", right);
    }

    /** Computes {@code left >>> right}. */
    public static Object rightShiftUnsigned(Object left, Object right) {
        return other(left, "rightShiftUnsigned", right);
    }

    /** Computes {@code left & right}. */
    public static Object and(Object left, Object right) {
        return other(left, "and", right);
    }

    /** Computes {@code left | right}. */
    public static Object or(Object left, Object right) {
        return other(left, "or", right);
    }

    /** Computes {@code left ^ right}. */
    public static Object xor(Object left, Object right) {
        return other(left, "xor", right);
    }

    /** Computes {@code left <=> right}. */
    public static int compareTo(Object left, Object right) {
        return ScriptBytecodeAdapter.compareTo(left, right);
    }

    /** Computes {@code right in left}. */
    public static boolean isCase(Object left, Object right) throws Throwable {
        return ScriptBytecodeAdapter.isCase(right, left);
    }

    /** Computes {@code right !in left}. */
    public static boolean isNotCase(Object left, Object right) throws Throwable {
        return !isCase(left, right);
    }

    /** Computes the value that {@code value++} assigns. */
    public static Object next(Object value) {
        return value instanceof Long number ? (Object) (number + 1) : other(value, "next");
    }

    /** Computes the value that {@code value--} assigns. */
    public static Object previous(Object value) {
        return value instanceof Long number ? (Object) (number - 1) : other(value, "previous");
    }

    /** Computes {@code -value}. */
    public static Object negative(Object value) {
        return InvokerHelper.unaryMinus(value);
    }

    /** Computes {@code +value}. */
    public static Object positive(Object value) {
        return InvokerHelper.unaryPlus(value);
    }

    /** Computes {@code ~value}. */
    public static Object bitwiseNegate(Object value) {
        return InvokerHelper.bitwiseNegate(value);
    }

    /** Computes {@code target[key]}. If the target is not a map, a text key is the name of a property. */
    public static Object getAt(Object target, Object key) {
        if (target instanceof Map<?, ?> map) {
            return map.get(mapKey(key));
        }
        if (target instanceof List<?> list && key instanceof Integer index && index >= 0) {
            return index < list.size() ? list.get(index) : null;
        }
        if (key instanceof CharSequence) {
            return Access.get(target, key);
        }
        return other(target, "getAt", key instanceof Long number ? (Object) Math.toIntExact(number) : key);
    }

    /** Computes {@code target?[key]}. */
    public static Object getAtSafe(Object target, Object key) {
        return target == null ? null : getAt(target, key);
    }

    /** Sets {@code target[key]}. Returns the value. */
    public static Object putAt(Object target, Object key, Object value) {
        if (target instanceof Map<?, ?>) {
            Access.put(target, mapKey(key), value);
        } else if (key instanceof CharSequence) {
            Access.set(target, key, value);
        } else {
            other(target, "putAt", key instanceof Long number ? (Object) Math.toIntExact(number) : key, value);
        }
        return value;
    }

    /** Returns the elements that a loop over the object visits. */
    @SuppressWarnings("unchecked")
    static Iterable<?> elements(Object target) {
        if (target instanceof Collection<?> collection) {
            return collection;
        }
        Iterator<Object> iterator = InvokerHelper.asIterator(target);
        return () -> iterator;
    }

    private static Object mapKey(Object key) {
        return key instanceof GString ? key.toString() : key;
    }

    private static Object other(Object target, String method, Object... arguments) {
        return InvokerHelper.invokeMethod(target, method, arguments);
    }
}
