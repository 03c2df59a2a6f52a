package onbeat.hiccup;

import java.util.concurrent.TimeUnit;
import org.HdrHistogram.Histogram;

/**
 * The loop, by jHiccup's rule (G. Tene, HiccupMeter): sleep for the interval, again and again; what an iteration takes beyond the shortest
 * one so far is a hiccup. One longer than the interval is counted once more for each sleep that it took the place of, by
 * {@link Histogram#recordValueWithExpectedInterval}.
 *
 * <p>It sleeps and does not park: a park may return early, and the shortest iteration would then be none.
 */
final class Meter implements Runnable {
    /** Iterations that are not counted: they load classes. As in onbeat's own loops. */
    static final int WARMUP = 10;
    /** The range of a run file's histograms, in nanoseconds. */
    private static final long HIGHEST_NS = 1_000_000_000_000L;
    private static final int DIGITS = 3;

    /** What an interval counted. Written by the loop, which owns it until {@link Meter#take}. */
    static final class Counted {
        final Histogram histogram = new Histogram(1, HIGHEST_NS, DIGITS);
        long samples;
        long minNs = Long.MAX_VALUE;
        long maxNs;
        double meanNs;
        double m2;

        /** Counts a hiccup, and what it took the place of. */
        void count(long hiccupNs, long sleepNs) {
            // A histogram of a run file begins at 1 ns and ends at 1,000 s; the exact figures do not.
            histogram.recordValueWithExpectedInterval(Math.min(Math.max(hiccupNs, 1), HIGHEST_NS), sleepNs);
            add(hiccupNs);
            for (long missing = Math.min(hiccupNs, HIGHEST_NS) - sleepNs; missing >= sleepNs; missing -= sleepNs) add(missing);
        }

        private void add(long ns) {
            samples++;
            minNs = Math.min(minNs, ns);
            maxNs = Math.max(maxNs, ns);
            double away = ns - meanNs;
            meanNs += away / samples;
            m2 += away * (ns - meanNs);
        }

        /** Takes in what another interval counted (Chan, Golub, LeVeque 1979). */
        void merge(Counted other) {
            if (other.samples == 0) return;
            histogram.add(other.histogram);
            double away = other.meanNs - meanNs;
            double share = (double) other.samples / (samples + other.samples);
            m2 += other.m2 + away * away * samples * share;
            meanNs += away * share;
            samples += other.samples;
            minNs = Math.min(minNs, other.minNs);
            maxNs = Math.max(maxNs, other.maxNs);
        }

        void clear() {
            histogram.reset();
            samples = 0;
            minNs = Long.MAX_VALUE;
            maxNs = 0;
            meanNs = 0;
            m2 = 0;
        }
    }

    private final long sleepNs;
    private final Object counting = new Object();
    private Counted counted = new Counted();
    private volatile boolean isStopped;

    Meter(long sleepNs) {
        this.sleepNs = sleepNs;
    }

    void stop() {
        isStopped = true;
    }

    boolean isStopped() {
        return isStopped;
    }

    /** Returns what was counted since the last call; {@code cleared} is counted into from now on. */
    Counted take(Counted cleared) {
        synchronized (counting) {
            Counted taken = counted;
            counted = cleared;
            return taken;
        }
    }

    @Override
    public void run() {
        long shortestNs = Long.MAX_VALUE;
        long before = System.nanoTime();
        for (long iteration = 0; !isStopped; iteration++) {
            try {
                TimeUnit.NANOSECONDS.sleep(sleepNs);
            } catch (InterruptedException nobodyDoes) {
                return;
            }
            long after = System.nanoTime();
            long tookNs = after - before;
            before = after;
            if (iteration < WARMUP) {
                new Counted().count(tookNs, sleepNs);
                continue;
            }
            shortestNs = Math.min(shortestNs, tookNs);
            synchronized (counting) {
                counted.count(tookNs - shortestNs, sleepNs);
            }
        }
    }
}
