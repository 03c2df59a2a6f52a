package onbeat;

import java.io.File;
import java.io.FileNotFoundException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;
import org.HdrHistogram.HistogramLogWriter;

/**
 * Opens interval logs with HdrHistogram's own reader, and writes one with its own writer.
 *
 * <p>{@code read FILE...} prints one JSON line per file and tag; {@code write FILE} makes a log that is none of
 * onbeat's. Nothing here knows the format: that is the point.
 */
public final class IntervalLogs {
    private IntervalLogs() {}

    /** Runs {@code read FILE...} or {@code write FILE}. */
    public static void main(String[] words) throws FileNotFoundException {
        if (words.length >= 2 && words[0].equals("read")) {
            for (int i = 1; i < words.length; i++) {
                read(words[i]);
            }
        } else if (words.length == 2 && words[0].equals("write")) {
            write(words[1]);
        } else if (words.length == 2 && words[0].equals("hiccups")) {
            hiccups(words[1]);
        } else if (words.length == 3 && words[0].equals("percentiles")) {
            percentiles(words[1], words[2]);
        } else {
            System.err.println("usage: IntervalLogs read FILE... | write FILE | hiccups FILE | percentiles FILE TAG");
            System.exit(2);
        }
    }

    /** Sleeps of a millisecond for four seconds, logged as jHiccup logs them: two digits from 20 us, no tag. */
    private static void hiccups(String name) throws FileNotFoundException {
        HistogramLogWriter writer = new HistogramLogWriter(new File(name));
        writer.outputComment("[Logged with jHiccup's settings]");
        writer.outputLogFormatVersion();
        long start = System.currentTimeMillis();
        writer.outputStartTime(start);
        writer.setBaseTime(start);
        writer.outputBaseTime(start);
        writer.outputLegend();
        long shortest = Long.MAX_VALUE;
        for (int second = 0; second < 4; second++) {
            Histogram interval = new Histogram(20_000, 3_600_000_000_000L, 2);
            interval.setStartTimeStamp(System.currentTimeMillis());
            long end = System.nanoTime() + 1_000_000_000L;
            while (System.nanoTime() < end) {
                long before = System.nanoTime();
                java.util.concurrent.locks.LockSupport.parkNanos(1_000_000);
                long slept = System.nanoTime() - before;
                shortest = Math.min(shortest, slept);
                interval.recordValueWithExpectedInterval(slept - shortest, 1_000_000);
            }
            interval.setEndTimeStamp(System.currentTimeMillis());
            writer.outputIntervalHistogram(interval);
        }
        writer.close();
    }

    /** The percentile text of all lines of a tag together, in milliseconds. */
    private static void percentiles(String name, String tag) throws FileNotFoundException {
        Histogram sum = null;
        HistogramLogReader reader = new HistogramLogReader(new File(name));
        for (EncodableHistogram next = reader.nextIntervalHistogram(); next != null;
                next = reader.nextIntervalHistogram()) {
            if (tag.equals(next.getTag() == null ? "" : next.getTag())) {
                if (sum == null) {
                    sum = ((Histogram) next).copy();
                    sum.setAutoResize(true);
                } else {
                    sum.add((Histogram) next);
                }
            }
        }
        reader.close();
        if (sum != null) {
            sum.outputPercentileDistribution(System.out, 1_000_000.0);
        }
    }

    /** What the lines of one tag add up to. */
    private static final class Tag {
        final Histogram sum = new Histogram(1, 1_000_000_000_000L, 5);
        final List<Long> counts = new ArrayList<>();
        final List<Long> maxima = new ArrayList<>();
        final List<Long> startsMs = new ArrayList<>();
        final List<Long> endsMs = new ArrayList<>();
        long smallest = Long.MAX_VALUE;
        long largest = 0;

        void add(Histogram interval) {
            sum.add(interval);
            counts.add(interval.getTotalCount());
            maxima.add(interval.getMaxValue());
            startsMs.add(interval.getStartTimeStamp());
            endsMs.add(interval.getEndTimeStamp());
            smallest = Math.min(smallest, interval.getMinNonZeroValue());
            largest = Math.max(largest, interval.getMaxValue());
        }
    }

    private static void read(String name) throws FileNotFoundException {
        Map<String, Tag> tags = new TreeMap<>();
        HistogramLogReader reader = new HistogramLogReader(new File(name));
        for (EncodableHistogram next = reader.nextIntervalHistogram(); next != null;
                next = reader.nextIntervalHistogram()) {
            String tag = next.getTag() == null ? "" : next.getTag();
            tags.computeIfAbsent(tag, none -> new Tag()).add((Histogram) next);
        }
        double startTimeSec = reader.getStartTimeSec();
        reader.close();
        for (Map.Entry<String, Tag> entry : tags.entrySet()) {
            Tag tag = entry.getValue();
            System.out.println(String.format(Locale.ROOT,
                    "{\"file\":%s,\"start_time_s\":%.3f,\"tag\":%s,\"lines\":%d,\"total_count\":%d,\"min_ns\":%d,"
                            + "\"max_ns\":%d,\"counts\":%s,\"maxima_ns\":%s,\"starts_ms\":%s,\"ends_ms\":%s}",
                    quoted(name), startTimeSec, quoted(entry.getKey()), tag.counts.size(), tag.sum.getTotalCount(),
                    tag.smallest, tag.largest, tag.counts, tag.maxima, tag.startsMs, tag.endsMs));
        }
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    private static void write(String name) throws FileNotFoundException {
        HistogramLogWriter writer = new HistogramLogWriter(new File(name));
        writer.outputLogFormatVersion();
        writer.outputComment("[Logged with jHiccup]");
        writer.setBaseTime(1_763_712_000_000L);
        writer.outputStartTime(1_763_712_000_000L);
        writer.outputBaseTime(1_763_712_000_000L);
        writer.outputLegend();
        for (int second = 0; second < 3; second++) {
            Histogram interval = new Histogram(1, 1_000_000_000_000L, 3);
            interval.setTag("wakeup_latency");
            interval.setStartTimeStamp(1_763_712_000_000L + 1000L * second);
            interval.setEndTimeStamp(1_763_712_000_000L + 1000L * (second + 1));
            for (long value = 1; value <= 1000; value++) {
                interval.recordValue(20_000 + 10 * value);
            }
            writer.outputIntervalHistogram(interval);
        }
        writer.close();
    }
}
