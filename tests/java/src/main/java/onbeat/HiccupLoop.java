package onbeat;

import java.io.File;
import java.io.FileNotFoundException;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogWriter;
import org.HdrHistogram.SingleWriterRecorder;

/**
 * Measures hiccups on the Java virtual machine as jHiccup defines them, for comparisons.
 *
 * <p>A thread sleeps again and again for the resolution; what an iteration takes beyond the shortest one so far is a hiccup.
 * Those longer than the resolution are counted as often as they would have delayed a program that asks every resolution.
 * Another thread logs an interval at a time. Two digits from 20 us to an hour, in nanoseconds, are jHiccup's.
 */
public final class HiccupLoop {
    private static final long LOWEST_NS = 20_000;
    private static final long HIGHEST_NS = TimeUnit.HOURS.toNanos(1);
    private static final int DIGITS = 2;
    private static final String USAGE = "usage: HiccupLoop [-r RESOLUTION_MS] [-i INTERVAL_MS] [-t SECONDS] LOG";

    private final SingleWriterRecorder recorder = new SingleWriterRecorder(LOWEST_NS, HIGHEST_NS, DIGITS);
    private final long resolutionNs;
    private volatile boolean asked;

    private HiccupLoop(long resolutionMs) {
        resolutionNs = TimeUnit.MILLISECONDS.toNanos(resolutionMs);
    }

    /** Runs for {@code -t} seconds and leaves a log. */
    public static void main(String[] words) throws FileNotFoundException, InterruptedException {
        long resolutionMs = 1;
        long intervalMs = 5_000;
        long seconds = 10;
        int at = 0;
        try {
            for (; at + 1 < words.length; at += 2) {
                long value = Long.parseLong(words[at + 1]);
                switch (words[at]) {
                    case "-r": resolutionMs = value; break;
                    case "-i": intervalMs = value; break;
                    case "-t": seconds = value; break;
                    default: throw new NumberFormatException();
                }
            }
        } catch (NumberFormatException wrong) {
            at = words.length;
        }
        if (at != words.length - 1 || resolutionMs < 1 || intervalMs < resolutionMs || seconds < 1) {
            System.err.println(USAGE);
            System.exit(2);
        }
        new HiccupLoop(resolutionMs).log(new File(words[at]), intervalMs, seconds);
    }

    private void measureUntilAsked() {
        try {
            measure();
        } catch (InterruptedException nobodyDoes) {
            Thread.currentThread().interrupt();
        }
    }

    /** The loop. Sleeps and does not park: a park may return early, and the shortest iteration would then be none. */
    private void measure() throws InterruptedException {
        long shortestNs = Long.MAX_VALUE;
        long before = System.nanoTime();
        while (!asked) {
            TimeUnit.NANOSECONDS.sleep(resolutionNs);
            long after = System.nanoTime();
            long tookNs = after - before;
            before = after;
            shortestNs = Math.min(shortestNs, tookNs);
            recorder.recordValueWithExpectedInterval(Math.min(tookNs - shortestNs, HIGHEST_NS), resolutionNs);
        }
    }

    private void log(File file, long intervalMs, long seconds) throws FileNotFoundException, InterruptedException {
        HistogramLogWriter writer = new HistogramLogWriter(file);
        writer.outputComment("[Logged with the settings of jHiccup, resolution "
                + TimeUnit.NANOSECONDS.toMillis(resolutionNs) + " ms]");
        writer.outputLogFormatVersion();
        long startMs = System.currentTimeMillis();
        writer.outputStartTime(startMs);
        writer.setBaseTime(startMs);
        writer.outputBaseTime(startMs);
        writer.outputLegend();
        recorder.reset();
        Thread loop = new Thread(this::measureUntilAsked, "hiccups");
        loop.start();
        long start = System.nanoTime();
        long lengthNs = TimeUnit.SECONDS.toNanos(seconds);
        Histogram interval = null;
        for (long passedNs = 0; passedNs < lengthNs; ) {
            // Logged at multiples of the interval, so that a late line does not move the ones after it.
            passedNs = Math.min(passedNs + TimeUnit.MILLISECONDS.toNanos(intervalMs), lengthNs);
            TimeUnit.NANOSECONDS.sleep(start + passedNs - System.nanoTime());
            interval = recorder.getIntervalHistogram(interval);
            writer.outputIntervalHistogram(interval);
        }
        asked = true;
        loop.join();
        writer.close();
    }
}
