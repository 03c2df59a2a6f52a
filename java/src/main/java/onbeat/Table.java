package onbeat;

/** Fields of consecutive records as a matrix: a row for each record, a column for each number of the fields. */
public final class Table {
    private final int rows;
    private final int columns;
    private final double[] values;
    private final double[] at;
    private final long[] numbers;
    private final long lost;

    Table(int rows, int columns, double[] values, double[] at, long[] numbers, long lost) {
        this.rows = rows;
        this.columns = columns;
        this.values = values;
        this.at = at;
        this.numbers = numbers;
        this.lost = lost;
    }

    /** Returns the number of records. */
    public int rows() {
        return rows;
    }

    /** Returns the number of columns: the fields' numbers in the order in which they were asked for. */
    public int columns() {
        return columns;
    }

    /** Returns the matrix column by column, for {@code reshape(table.values(), table.rows(), table.columns())}. */
    public double[] values() {
        return values;
    }

    /** Returns the times of the records by CLOCK_MONOTONIC, in s. */
    public double[] at() {
        return at;
    }

    /** Returns the numbers of the records, from 1. */
    public long[] numbers() {
        return numbers;
    }

    /** Returns the number of records lost before the first one. */
    public long lost() {
        return lost;
    }
}
