import onbeat.Message;
import onbeat.Ring;
import onbeat.OnbeatException;
import onbeat.Table;

/** Reads all cycles of a robot with the Java client and prints what it saw, as JSON. */
public final class Cycles {
    private Cycles() {}

    public static void main(String[] words) throws InterruptedException {
        Ring ring = null;
        while (ring == null) {
            try {
                ring = Ring.open(words[0]);
            } catch (OnbeatException notYet) {
                Thread.sleep(10);
            }
        }
        ring.rewind();
        System.out.println("open");

        long count = 0;
        long first = 0;
        long last = 0;
        boolean inOrder = true;
        int columns = 0;
        String ended = "";
        try {
            Message message = null;
            while (message == null) message = ring.next(250);
            first = message.number();
            last = first;
            count = 1;
            if (message.get("cycle").length != 1 || message.get("actual_rad").length == 0) inOrder = false;
            while (true) {
                Table table = ring.drain(new String[] {"cycle", "wakeup_latency_ns", "actual_rad"}, 250);
                for (long number : table.numbers()) {
                    inOrder &= number > last;
                    last = number;
                }
                count += table.rows();
                columns = Math.max(columns, table.columns());
                double[] values = table.values();
                // The first column is the number of the cycle, consecutive unless the loop skipped some.
                for (int row = 1; row < table.rows(); row++) inOrder &= values[row] > values[row - 1];
            }
        } catch (OnbeatException why) {
            ended = why.identifier();
        }
        try {
            if (ring.latest() == null) ended = "latest does not know of the end";
        } catch (OnbeatException why) {
            if (!why.identifier().equals(OnbeatException.ENDED)) ended = why.identifier();
        }
        System.out.printf(
                "{\"count\": %d, \"first\": %d, \"last\": %d, \"in_order\": %b, \"lost\": %d, \"columns\": %d, \"ended\": \"%s\"}%n",
                count, first, last, inOrder, ring.lost(), columns, ended);
    }
}
