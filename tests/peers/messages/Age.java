import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;
import onbeat.Ring;
import onbeat.Rows;

/** Age of messages when they are read, and the part of it behind the reader's wake-up: CHANNEL COUNT. */
public final class Age {
    private static final long LOOK_EVERY_NS = 100_000;

    public static void main(String[] args) {
        int count = Integer.parseInt(args[1]);
        long[] ages = new long[count];
        long[] behind = new long[count];
        try (Ring ring = Ring.open(args[0])) {
            Rows rows = ring.rows(new String[] {"n", "joints"});
            System.out.println("ready");
            for (int i = 0; i < count; i++) {
                long woke = System.nanoTime();
                while (!ring.hasNew()) {
                    LockSupport.parkNanos(LOOK_EVERY_NS);
                    woke = System.nanoTime();
                }
                rows.advance(0);
                long read = System.nanoTime();
                ages[i] = read - rows.atNs();
                // A message that came while the one before it was read waited for no wake-up.
                behind[i] = read - Math.max(woke, rows.atNs());
            }
            System.out.println("[" + quantiles(ages) + ", " + quantiles(behind) + ", " + ring.lost() + "]");
        }
    }

    private static String quantiles(long[] values) {
        Arrays.sort(values);
        return "[" + values[values.length / 2] + ", " + values[(int) (values.length * 0.99)] + "]";
    }
}
