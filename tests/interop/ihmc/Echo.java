import java.net.InetAddress;
import java.util.concurrent.atomic.AtomicLong;
import sensor_msgs.msg.dds.JointState;
import us.ihmc.pubsub.DomainFactory.PubSubImplementation;
import us.ihmc.pubsub.common.SampleInfo;
import us.ihmc.ros2.ROS2Node;
import us.ihmc.ros2.ROS2PublisherBasics;
import us.ihmc.ros2.ROS2QosProfile;

/** A node of IHMC's ROS 2, on Fast-DDS, that sends back what it receives: DOMAIN THERE BACK. Ends with its standard input. */
public final class Echo {
    public static void main(String[] args) throws Exception {
        ROS2QosProfile reliable = ROS2QosProfile.KEEP_HISTORY(5000);
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        ROS2Node node = new ROS2Node(PubSubImplementation.FAST_RTPS, "echo", Integer.parseInt(args[0]), loopback);
        ROS2PublisherBasics<JointState> publisher = node.createPublisher(JointState.getPubSubType().get(), args[2], reliable);
        JointState message = new JointState();
        SampleInfo info = new SampleInfo();
        AtomicLong echoed = new AtomicLong();
        node.createSubscription(JointState.getPubSubType().get(), subscriber -> {
            while (subscriber.takeNextData(message, info)) {
                publisher.publish(message);
                echoed.incrementAndGet();
            }
        }, args[1], reliable);
        while (System.in.read() >= 0) {}
        System.out.println("echoed " + echoed.get());
        System.exit(0);
    }
}
