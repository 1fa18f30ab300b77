package dev.millstream.operator.runtime;

import dev.millstream.operator.BatchOperator;
import dev.millstream.operator.Context;
import dev.millstream.operator.Operator;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/** The class of an operator. */
final class ClassRule implements CompiledRule {
    private final Place place;
    private final String className;
    private final Callable<?> constructor;

    ClassRule(OperatorSpec spec, Callable<?> constructor) {
        place = new Place(spec.component(), Collections.unmodifiableMap(spec.options()));
        className = spec.className();
        this.constructor = constructor;
    }

    /** The configuration of the operator. */
    private record Place(String component, Map<String, Object> options) implements Context {}

    @Override
    public Rule instance() throws Throwable {
        Object created = constructor.call();
        if (created instanceof BatchOperator batch) {
            batch.open(place);
            return new BatchRule(batch);
        }
        Operator operator = (Operator) created;
        operator.open(place);
        return new RowRule(operator);
    }

    @Override
    public List<String> fields() {
        return List.of();
    }

    @Override
    public int removedCalls() {
        return 0;
    }

    @Override
    public int dynamicCalls() {
        return 0;
    }

    @Override
    public int line(Throwable thrown) {
        return Thrown.line(thrown, className);
    }
}
