import java.util.Arrays;
import onbeat.Robot;
import onbeat.Table;

/** Walks a robot of another computer, as walk.py does: HOST KEY SECONDS. One jar, no native library. */
public final class Walk {
    private static final String[] JOINTS = {
        "left hip pitch", "left knee", "left ankle pitch", "right hip pitch", "right knee", "right ankle pitch"
    };
    private static final double[] BENDS = {-0.2, 0.4, -0.2};

    private Walk() {}

    public static void main(String[] words) throws InterruptedException {
        Robot r = Robot.connect(words[0], words[1]);
        double seconds = Double.parseDouble(words[2]);
        double[] low = new double[0];
        double[] high = new double[0];
        long first = 0;
        long last = 0;
        long began = System.nanoTime();
        for (int step = 1; ; step++) {
            double now = (System.nanoTime() - began) / 1e9;
            double[] rad = new double[JOINTS.length];
            for (int i = 0; i < rad.length; i++) {
                rad[i] = BENDS[i % 3] * Math.max(Math.sin(Math.PI * now + (i / 3) * Math.PI), 0);
            }
            r.command(JOINTS, rad);
            Table cycles = r.drain(new String[] {"actual_rad"}, 0);
            for (int row = 0; row < cycles.rows(); row++) {
                if (low.length == 0) {
                    low = new double[cycles.columns()];
                    high = new double[cycles.columns()];
                    Arrays.fill(low, 9);
                    Arrays.fill(high, -9);
                    first = cycles.numbers()[0];
                }
                for (int column = 0; column < cycles.columns(); column++) {
                    double value = cycles.values()[column * cycles.rows() + row];
                    low[column] = Math.min(low[column], value);
                    high[column] = Math.max(high[column], value);
                }
                last = cycles.numbers()[row];
            }
            if (seconds > 0 && now > seconds && last > 0) {
                StringBuilder travelled = new StringBuilder();
                for (int i = 0; i < JOINTS.length; i++) {
                    int column = column(r.description(), JOINTS[i]);
                    travelled.append(i > 0 ? ", " : "").append(high[column] - low[column]);
                }
                System.out.println("{\"commands\": " + step + ", \"first\": " + first + ", \"last\": " + last + ", \"received\": "
                        + r.received() + ", \"lost\": " + r.lost() + ", \"travelled_rad\": [" + travelled + "]}");
                System.out.flush();
                seconds = 0;
            }
            Thread.sleep(Math.max((began + step * 10_000_000L - System.nanoTime()) / 1_000_000, 0));
        }
    }

    /** The place of a joint among those of the description. */
    private static int column(String description, String joint) {
        String all = description.substring(description.indexOf("\"joints\""));
        String[] names = all.split("\"name\":\\s*\"");
        for (int i = 1; i < names.length; i++) {
            if (names[i].startsWith(joint + "\"")) return i - 1;
        }
        throw new IllegalArgumentException(joint);
    }
}
