package dev.millstream.operator.runtime;

import dev.millstream.operator.Batch;
import dev.millstream.operator.Row;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Objects;

/** The selected rows of a call. */
final class BatchView implements Batch {
    private final BatchRow row;

    BatchView(BatchRow row) {
        this.row = row;
    }

    @Override
    public int size() {
        return row.call().selectedRows();
    }

    @Override
    public Row row(int index) {
        Call call = row.call();
        Objects.checkIndex(index, call.selectedRows());
        row.move(call.row(index), index, index);
        return row;
    }

    @Override
    public Iterator<Row> iterator() {
        return new Iterator<>() {
            private int next;

            @Override
            public boolean hasNext() {
                return next < size();
            }

            @Override
            public Row next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return row(next++);
            }
        };
    }
}
