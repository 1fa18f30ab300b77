package dev.millstream.operator.runtime;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/** Operators by id. Ids are never reused, so that a late call cannot reach another operator. */
final class Registry {
    private volatile LoadedOperator[] operators = new LoadedOperator[0];

    /** Adds an operator. Returns its id. */
    synchronized int add(LoadedOperator operator) {
        int id = operators.length;
        LoadedOperator[] longer = Arrays.copyOf(operators, id + 1);
        longer[id] = operator;
        operators = longer;
        return id;
    }

    /** Returns an operator, or null if there is none. */
    LoadedOperator get(int id) {
        LoadedOperator[] current = operators;
        return id >= 0 && id < current.length ? current[id] : null;
    }

    /** Removes and returns an operator; null if there is none. */
    synchronized LoadedOperator remove(int id) {
        LoadedOperator removed = get(id);
        if (removed != null) {
            LoadedOperator[] rest = operators.clone();
            rest[id] = null;
            operators = rest;
        }
        return removed;
    }

    List<LoadedOperator> all() {
        return Stream.of(operators).filter(Objects::nonNull).toList();
    }
}
