package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.millstream.operator.Row;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ValuesTest {
    private final LocalWorker worker = new LocalWorker();

    @AfterEach
    void end() {
        worker.close();
    }

    private LocalAnswer run(LocalRequest request, Rule... rules) {
        int operator = Operators.register(rules);
        try {
            return worker.apply(operator, request);
        } finally {
            Bridge.remove(operator);
        }
    }

    @Test
    void aRuleReadsAndSets() {
        try (LocalRequest request = new LocalRequest(2)) {
            request.set(0, "message", "first line").set(1, "message", "second line").set(1, "n", 42L).own("n");
            List<Object> seen = new ArrayList<>();
            LocalAnswer answer = run(request, row -> {
                seen.add(row.message() + row.get("n"));
                row.set("level", "info");
                row.set("n", row.integer("n", 1) + 1);
            });
            assertEquals(List.of("first linenull", "second line42"), seen);
            assertEquals(2L, answer.changed().get("n")[0].value());
            assertEquals(43L, answer.changed().get("n")[1].value());
            assertEquals("info", answer.changed().get("level")[1].value());
        }
    }
}
