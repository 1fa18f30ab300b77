package dev.millstream.operator.groovy;

import dev.millstream.operator.Row;
import java.lang.reflect.Array;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.codehaus.groovy.runtime.InvokerHelper;
import org.apache.groovy.util.BeanUtils;

/** Property access for compiled rules if the object's type is known only at run time. Most of these objects are maps. */
public final class Access {
    private Access() {}

    /** Reads {@code target.name}. */
    public static Object get(Object target, Object name) {
        String property = name.toString();
        if (target instanceof Map<?, ?> map) {
            return map.get(property);
        }
        if (target instanceof Row row) {
            return row.get(property);
        }
        if (target == null) {
            throw new NullPointerException("Cannot get property '" + property + "' on null object");
        }
        if (target instanceof Collection<?> || target instanceof Object[]) {
            return property.equals("length") && target instanceof Object[] values ? (Object) values.length : spread(target, property);
        }
        if (target.getClass().isArray() && property.equals("length")) {
            return Array.getLength(target);
        }
        Receivers.check(target, property);
        String suffix = BeanUtils.capitalize(property);
        if (!owned(target) && !AllowedNames.common("get" + suffix) && !AllowedNames.common("is" + suffix)) {
            throw new IllegalArgumentException("property " + property + " of " + target.getClass().getName() + " is not allowed in a script");
        }
        return InvokerHelper.getProperty(target, property);
    }

    /** Reads {@code target?.name}. */
    public static Object getSafe(Object target, Object name) {
        return target == null ? null : get(target, name);
    }

    /** Reads {@code target*.name}. */
    public static Object spread(Object target, Object name) {
        if (target == null) {
            return null;
        }
        List<Object> all = new ArrayList<>();
        for (Object element : Operators.elements(target)) {
            all.add(element == null ? null : get(element, name));
        }
        return all;
    }

    /** Sets {@code target.name}. Returns the value. */
    public static Object set(Object target, Object name, Object value) {
        String property = name.toString();
        if (target instanceof Map<?, ?>) {
            put(target, property, value);
        } else if (target instanceof Row row) {
            row.set(property, value);
        } else if (target == null) {
            throw new NullPointerException("Cannot set property '" + property + "' on null object");
        } else {
            Receivers.check(target, property);
            if (!owned(target) && !AllowedNames.common("set" + BeanUtils.capitalize(property))) {
                throw new IllegalArgumentException(
                        "property " + property + " of " + target.getClass().getName() + " is not allowed in a script");
            }
            InvokerHelper.setProperty(target, property, value);
        }
        return value;
    }

    /** Calls a constructor whose argument types are known only at run time. */
    public static Object construct(Object type, Object arguments) {
        return InvokerHelper.invokeConstructorOf((Class<?>) type, arguments);
    }

    @SuppressWarnings("unchecked")
    static void put(Object map, Object key, Object value) {
        ((Map<Object, Object>) map).put(key, value);
    }

    /** Returns whether a rule declares the object's class. */
    private static boolean owned(Object target) {
        return target.getClass().getClassLoader() instanceof RuleLoader;
    }
}
