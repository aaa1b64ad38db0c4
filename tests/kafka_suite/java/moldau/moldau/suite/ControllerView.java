package moldau.suite;

import java.util.Collection;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.Collectors;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.ControllerServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;

/** As much of Kafka's own controller object as the cluster can be asked for; the rest is a matter of KRaft. */
public final class ControllerView {
    private ControllerView() {
    }

    public static ControllerServer of(MoldauCluster cluster) {
        return StandIn.of(ControllerServer.class, (method, args) -> switch (method) {
            case "clusterId" -> cluster.clusterId();
            case "controller" -> StandIn.of(Controller.class, (called, arguments) -> topics(cluster, called, arguments));
            case "raftManager" -> StandIn.of(KafkaRaftManager.class, (called, arguments) -> metadataLog(cluster, called));
            case "socketServer" -> StandIn.of(SocketServer.class, (called, arguments) -> port(cluster, called));
            default -> throw MissingFeature.kraft("controllerServer()." + method + "()");
        });
    }

    /** Whatever a test asks a controller it may ask a broker: one of them is the controller, and all know which. */
    private static Object port(MoldauCluster cluster, String method) {
        if (method.equals("boundPort"))
            return cluster.clientPort();
        throw MissingFeature.kraft("controllerServer().socketServer()." + method + "()");
    }

    /** Tests look for the end of this log in order to wait until the brokers have read as far: that wait is done here. */
    private static Object metadataLog(MoldauCluster cluster, String method) {
        if (!method.equals("raftLog"))
            throw MissingFeature.kraft("raftManager()." + method + "()");
        return StandIn.of(RaftLog.class, (called, arguments) -> {
            if (!called.equals("endOffset"))
                throw MissingFeature.kraft("raftLog()." + called + "()");
            cluster.awaitConsistentMetadata();
            return new LogOffsetMetadata(0);
        });
    }

    private static Object topics(MoldauCluster cluster, String method, Object[] args) {
        Map<String, Uuid> ids = cluster.topicIds();
        return CompletableFuture.completedFuture(switch (method) {
            case "findAllTopicIds" -> ids;
            case "findTopicIds" -> ((Collection<?>) args[1]).stream().collect(Collectors.toMap(Function.identity(),
                name -> ids.containsKey(name) ? ResultOrError.of(ids.get(name)) : new ResultOrError<Uuid>(Errors.UNKNOWN_TOPIC_OR_PARTITION, null)));
            default -> throw MissingFeature.kraft("controller()." + method + "()");
        });
    }
}
