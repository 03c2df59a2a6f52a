import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * A loop by a scheduled executor of one thread: java ForeignLoop.java PERIOD_US CYCLES [STAMPS].
 *
 * <p>Writes a line for each cycle into STAMPS: the release that was asked for and the start, in ns of CLOCK_MONOTONIC, which is
 * what nanoTime reads on Linux.
 */
public final class ForeignLoop {
    private ForeignLoop() {
    }

    public static void main(String[] words) throws InterruptedException, IOException {
        long periodNs = Long.parseLong(words[0]) * 1000;
        int cycles = Integer.parseInt(words[1]);
        long[] starts = new long[cycles];
        int[] done = {0};
        CountDownLatch end = new CountDownLatch(1);
        var pool = Executors.newSingleThreadScheduledExecutor();
        long first = System.nanoTime() + periodNs;
        pool.scheduleAtFixedRate(() -> {
            if (done[0] < cycles) {
                starts[done[0]++] = System.nanoTime();
            }
            if (done[0] == cycles) {
                end.countDown();
            }
        }, periodNs, periodNs, TimeUnit.NANOSECONDS);
        end.await();
        pool.shutdownNow();
        if (words.length > 2) {
            var text = new StringBuilder();
            for (int k = 0; k < cycles; k++) {
                text.append(first + k * periodNs).append(' ').append(starts[k]).append('\n');
            }
            Files.writeString(Path.of(words[2]), text);
        }
    }
}
