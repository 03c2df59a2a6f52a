import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import onbeat.Message;
import onbeat.Ring;
import onbeat.Rows;

/** Prints how many bytes this thread allocates while it reads some messages, and while it reads four times as many. */
public final class Allocations {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private static double sum;

    private static long byRows(Rows rows, int messages) {
        long own = Thread.currentThread().getId();
        long before = THREADS.getThreadAllocatedBytes(own);
        for (int i = 0; i < messages; i++) {
            if (!rows.advance(0)) throw new AssertionError("message " + i + " is missing");
            sum += rows.value(0) + rows.number();
        }
        return THREADS.getThreadAllocatedBytes(own) - before;
    }

    private static long byMessages(Ring ring, int messages) {
        long own = Thread.currentThread().getId();
        long before = THREADS.getThreadAllocatedBytes(own);
        for (int i = 0; i < messages; i++) {
            Message message = ring.next(0);
            sum += message.get("n")[0] + message.number();
        }
        return THREADS.getThreadAllocatedBytes(own) - before;
    }

    /** CHANNEL, the number of messages of the shorter reading, and `rows` or `messages`. */
    public static void main(String[] args) {
        int messages = Integer.parseInt(args[1]);
        try (Ring ring = Ring.open(args[0])) {
            ring.rewind();
            Rows rows = ring.rows(new String[] {"n", "joints"});
            boolean byRows = args[2].equals("rows");
            long[] bytes = new long[3];
            // The first reading loads classes and finds the layout.
            for (int i = 0; i < 3; i++) {
                int count = i < 2 ? messages : 4 * messages;
                bytes[i] = byRows ? byRows(rows, count) : byMessages(ring, count);
            }
            System.out.println(bytes[1] + " " + bytes[2] + " " + ring.lost() + " " + sum);
        }
    }
}
