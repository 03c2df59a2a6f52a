package onbeat.hiccup;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.TimeUnit;
import onbeat.hiccup.Meter.Counted;

/**
 * The run file (docs/format.md): an HdrHistogram interval log with onbeat's notes, appended line by line. Its intervals are as long as those
 * of onbeat's own runs, a three-hundredth of the run between a second and five minutes, with the largest value of each second beside them.
 */
final class RunFile {
    private static final long SECOND_NS = 1_000_000_000L;
    private static final int MAXIMA_PER_NOTE = 10;
    private static final List<String> MISSING = Arrays.asList(
            "releases and skipped releases: a relative sleep has no grid",
            "which samples were measured: those that a long hiccup took the place of are counted among them, as jHiccup does",
            "causes of hiccups, page faults and CPU time: Java does not see them");

    /** The file cannot be created or written; the message is a sentence. */
    static final class Failure extends Exception {
        private static final long serialVersionUID = 1;

        Failure(String sentence, Throwable cause) {
            super(sentence, cause);
        }
    }

    /** What stands in the first note. */
    static final class Labels {
        private final List<String> command;
        private final MachineFacts facts;
        private final long sleepNs;

        Labels(List<String> command, MachineFacts facts, long sleepNs) {
            this.command = command;
            this.facts = facts;
            this.sleepNs = sleepNs;
        }
    }

    private final Path path;
    private final OutputStream out;
    private final Counted interval = new Counted();
    private final List<String> maxima = new ArrayList<>();
    private double maximaFromS;
    private double intervalFromS;
    private double writtenToS;
    private long samples;
    private long worstNs;

    private RunFile(Path path, OutputStream out) {
        this.path = path;
        this.out = out;
    }

    static RunFile create(Path path, Labels labels) throws Failure {
        OutputStream out;
        try {
            out = Files.newOutputStream(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        } catch (FileAlreadyExistsException exists) {
            throw new Failure(path + " exists, and a run is not overwritten; name another file with --out", exists);
        } catch (NoSuchFileException noDirectory) {
            throw new Failure("cannot create " + path + ": its directory does not exist", noDirectory);
        } catch (AccessDeniedException denied) {
            throw new Failure("cannot create " + path + ": permission denied; name another file with --out", denied);
        } catch (IOException failed) {
            throw new Failure("cannot create " + path + ": " + reason(failed), failed);
        }
        RunFile file = new RunFile(path, out);
        file.begin(labels);
        return file;
    }

    /** Measures for a time, 0 for no end, or until the meter is stopped; returns what was measured, as a sentence. */
    String run(Meter meter, long forNs) throws Failure {
        Thread loop = new Thread(meter, "onbeat-hiccup");
        loop.setDaemon(true);
        long startNs = System.nanoTime();
        loop.start();
        try {
            count(meter, startNs, forNs);
        } finally {
            meter.stop();
        }
        return String.format(Locale.ROOT, "%,d samples in %.1f s, the largest hiccup %.3f ms: %s", samples, writtenToS, worstNs / 1e6, path);
    }

    private void count(Meter meter, long startNs, long forNs) throws Failure {
        long intervalNs = Math.min(Math.max(forNs / 300 / SECOND_NS, 1), 300) * SECOND_NS;
        if (forNs == 0) intervalNs = 300 * SECOND_NS;
        Counted second = new Counted();
        long passedNs = 0;
        long nextIntervalNs = intervalNs;
        boolean isOver = false;
        while (!isOver) {
            long untilNs = forNs == 0 ? passedNs + SECOND_NS : Math.min(passedNs + SECOND_NS, forNs);
            sleepUntil(meter, startNs + untilNs);
            passedNs = Math.max(System.nanoTime() - startNs, untilNs);
            isOver = meter.isStopped() || forNs != 0 && passedNs >= forNs;
            second = meter.take(second);
            interval.merge(second);
            worstNs = Math.max(worstNs, second.maxNs);
            if (intervalNs > SECOND_NS) maximum(second.maxNs, passedNs / 1e9);
            second.clear();
            if (isOver || passedNs >= nextIntervalNs) {
                interval(passedNs / 1e9);
                while (nextIntervalNs <= passedNs) nextIntervalNs += intervalNs;
            }
        }
        end(passedNs / 1e9, meter.isStopped());
    }

    /** In short sleeps, so that a signal is soon noticed. */
    private static void sleepUntil(Meter meter, long untilNs) {
        for (long leftNs = untilNs - System.nanoTime(); leftNs > 0 && !meter.isStopped(); leftNs = untilNs - System.nanoTime()) {
            try {
                TimeUnit.NANOSECONDS.sleep(Math.min(leftNs, SECOND_NS / 10));
            } catch (InterruptedException nobodyDoes) {
                meter.stop();
            }
        }
    }

    private void begin(Labels labels) throws Failure {
        double startedS = System.currentTimeMillis() / 1e3;
        String name = String.valueOf(path.getFileName());
        String stem = name.endsWith(".onbeat.hlog") ? name.substring(0, name.length() - ".onbeat.hlog".length()) : name;
        StringJoiner command = new StringJoiner(",", "[", "]");
        labels.command.forEach(word -> command.add(text(word)));
        StringJoiner host = new StringJoiner(",", "{", "}");
        for (Map.Entry<String, String> fact : labels.facts.all().entrySet()) host.add(text(fact.getKey()) + ":" + text(fact.getValue()));
        host.add("\"sleep\":" + text(labels.sleepNs / 1e3 + " us"));
        StringJoiner missing = new StringJoiner(",", "[", "]");
        MISSING.forEach(sentence -> missing.add(text(sentence)));
        String started = String.format(Locale.ROOT, "%.3f", startedS);
        line("#[Histogram log format version 1.3]");
        note("run", "{\"schema\":\"onbeat.run/1\",\"version\":\"0.1.0\",\"command\":" + command + ",\"probe\":\"onbeat.jar hiccup\",\"series\":[\"hiccup\"],"
                + "\"started_unix_s\":" + started + ",\"host\":" + host + ",\"cell\":{\"tuning\":" + text(stem) + ",\"load\":\"unknown\"},"
                + "\"timing\":null,\"grants\":[],\"limit\":null}");
        line("#[StartTime: " + started + " (seconds since epoch)]");
        line("#[BaseTime: " + started + " (seconds since epoch)]");
        line("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"");
        note("import", "{\"format\":\"onbeat.jar\",\"file\":" + text(name) + ",\"stream\":\"\",\"period_ns\":null,\"resolution\":{},\"missing\":"
                + missing + ",\"is_closed_by_a_line\":true}");
        note("block", "{\"index\":0,\"t\":0.0,\"load\":\"unknown\",\"warmup\":" + Meter.WARMUP + "}");
    }

    private void maximum(long maxNs, double nowS) throws Failure {
        maxima.add(String.valueOf(maxNs));
        if (maxima.size() == MAXIMA_PER_NOTE) maximaNote(nowS);
    }

    private void maximaNote(double nowS) throws Failure {
        if (maxima.isEmpty()) return;
        note("maxima", "{\"t\":" + seconds(maximaFromS) + ",\"every\":1.0,\"series\":{\"hiccup\":[" + String.join(",", maxima) + "]}}");
        maxima.clear();
        maximaFromS = nowS;
    }

    private void interval(double nowS) throws Failure {
        double lengthS = nowS - intervalFromS;
        String moments = "";
        if (interval.samples > 0) {
            ByteBuffer buffer = ByteBuffer.allocate(interval.histogram.getNeededByteBufferCapacity());
            int length = interval.histogram.encodeIntoCompressedByteBuffer(buffer);
            String encoded = Base64.getEncoder().encodeToString(Arrays.copyOf(buffer.array(), length));
            line("Tag=hiccup," + seconds(intervalFromS) + "," + seconds(lengthS) + ","
                    + String.format(Locale.ROOT, "%.6f", interval.maxNs / 1e6) + "," + encoded);
            moments = String.format(Locale.ROOT, "\"hiccup\":{\"n\":%d,\"min_ns\":%d,\"max_ns\":%d,\"mean_ns\":%.3f,\"m2\":%.3f}",
                    interval.samples, interval.minNs, interval.maxNs, interval.meanNs, interval.m2);
        }
        note("interval", "{\"t\":" + seconds(intervalFromS) + ",\"length\":" + seconds(lengthS) + ",\"block\":0,\"cycles\":" + interval.samples
                + ",\"skipped\":0,\"overruns\":0,\"deadline_misses\":0,\"lost\":0,\"spikes\":0,\"series\":{" + moments + "}}");
        samples += interval.samples;
        interval.clear();
        intervalFromS = nowS;
        writtenToS = nowS;
    }

    private void end(double nowS, boolean isAsked) throws Failure {
        maximaNote(nowS);
        note("end", "{\"t\":" + seconds(nowS) + ",\"reason\":\"" + (isAsked ? "asked" : "complete") + "\",\"slots\":" + samples + ",\"cycles\":"
                + samples + ",\"skipped\":0,\"lost\":0,\"warmup\":" + Meter.WARMUP + ",\"page_faults\":0,\"involuntary_switches\":0,\"cpu_ns\":0}");
        try {
            out.close();
        } catch (IOException failed) {
            throw failure(failed);
        }
    }

    private void note(String kind, String json) throws Failure {
        line("#[onbeat: {\"" + kind + "\":" + json + "}]");
    }

    /** A line is one write: what a killed process leaves are whole lines, and at most a part of the last one. */
    private void line(String text) throws Failure {
        try {
            out.write((text + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException failed) {
            throw failure(failed);
        }
    }

    private Failure failure(IOException failed) {
        return new Failure(String.format(Locale.ROOT, "cannot write %s: %s; the %.1f s before are in it", path, reason(failed), writtenToS), failed);
    }

    private static String reason(IOException failed) {
        String message = failed.getMessage();
        return message == null ? failed.getClass().getSimpleName() : message;
    }

    private static String seconds(double s) {
        return String.format(Locale.ROOT, "%.3f", s);
    }

    /** A JSON string. */
    private static String text(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') json.append('\\').append(c);
            else if (c < ' ' || Character.isSurrogate(c)) json.append(String.format(Locale.ROOT, "\\u%04x", (int) c));
            else json.append(c);
        }
        return json.append('"').toString();
    }
}
