import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors behind JSON: a list of groups in, a list of assignments out. Members come as the bytes
 * of their subscriptions, which also shows that Kafka reads what we write.
 */
public final class AssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode group : JSON.readTree(System.in)) {
            answers.add(assign(group));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    private static ObjectNode assign(JsonNode group) throws Exception {
        String name = "org.apache.kafka.clients.consumer." + group.get("assignor").asText();
        ConsumerPartitionAssignor assignor =
            (ConsumerPartitionAssignor) Class.forName(name).getDeclaredConstructor().newInstance();
        Map<String, Subscription> members = new HashMap<>();
        group.get("members").fields().forEachRemaining(entry -> {
            byte[] bytes = Base64.getDecoder().decode(entry.getValue().get("subscription").asText());
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(bytes));
            JsonNode instance = entry.getValue().get("instance");
            subscription.setGroupInstanceId(Optional.ofNullable(instance.isNull() ? null : instance.asText()));
            members.put(entry.getKey(), subscription);
        });
        Map<String, Assignment> plan =
            assignor.assign(cluster(group.get("layout")), new GroupSubscription(members)).groupAssignment();
        ObjectNode answer = JSON.createObjectNode();
        new TreeMap<>(plan).forEach((member, assignment) -> {
            ArrayNode mine = answer.putArray(member);
            for (TopicPartition partition : assignment.partitions()) {
                mine.addArray().add(partition.topic()).add(partition.partition());
            }
        });
        return answer;
    }

    private static Cluster cluster(JsonNode layout) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        layout.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    replicas.add(nodes.computeIfAbsent(
                        rack.asText(), name -> new Node(nodes.size(), "host", 9092, name)));
                }
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, null, array, array));
            }
        });
        Set<Node> all = new HashSet<>(nodes.values());
        return new Cluster("oracle", all, partitions, Set.of(), Set.of());
    }
}
