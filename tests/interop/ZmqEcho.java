import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import onbeat.Message;
import onbeat.ZmqPublisher;
import onbeat.ZmqSubscription;

/** Sends back what it receives, until its standard input ends: FROM TO NAME TYPE FILE. Prints received, lost and invalid messages. */
public final class ZmqEcho {
    private ZmqEcho() {}

    public static void main(String[] words) throws Exception {
        String definition = new String(Files.readAllBytes(Paths.get(words[4])), StandardCharsets.UTF_8);
        try (ZmqSubscription there = ZmqSubscription.open(words[0], words[2] + "/there", words[3], definition);
                ZmqPublisher back = ZmqPublisher.open(words[1])) {
            while (System.in.available() == 0) {
                Message message = there.next(20);
                if (message == null) continue;
                // Every field is decoded too.
                for (String field : message.fields()) {
                    if (message.isText(field)) message.getText(field);
                    else message.get(field);
                }
                back.publish(words[2] + "/back", message.bytes());
            }
            System.out.printf("[%d, %d, %d]%n", there.received(), there.lost(), there.invalid());
        }
    }
}
