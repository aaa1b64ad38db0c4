package moldau.suite;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.server.ReplicaManager;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.MetadataResponse.PartitionMetadata;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogFileUtils;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The logs of a broker, as its directories have them. What it leads, and its settings, it is asked for itself; where a log starts
 * and how far it is committed, the leader. What a follower knows of the latter it has written down a few seconds later; whoever
 * asks where its log starts asks for internals.
 */
final class LogView {
    private final MoldauCluster cluster;
    private final int id;
    private final List<Path> directories;

    LogView(MoldauCluster cluster, int id) {
        this.cluster = cluster;
        this.id = id;
        directories = cluster.logDirs(id);
    }

    LogManager manager() {
        return StandIn.of(LogManager.class, (method, args) -> switch (method) {
            case "getLog" -> args[1].equals(true) ? future() : log((TopicPartition) args[0]);
            case "getLog$default$2" -> false;
            case "liveLogDirs" -> CollectionConverters.asScala(directories.stream().map(Path::toFile).toList());
            default -> throw MissingFeature.internals("logManager()." + method + "()");
        });
    }

    ReplicaManager replicas() {
        return StandIn.of(ReplicaManager.class, (method, args) -> switch (method) {
            case "logManager" -> manager();
            case "getLog", "localLog" -> log((TopicPartition) args[0]);
            case "localLogOrException" -> log((TopicPartition) args[0]).get();
            case "onlinePartition" -> partition((TopicPartition) args[0]);
            case "checkpointHighWatermarks" -> awaitCheckpoints();
            default -> throw MissingFeature.internals("replicaManager()." + method + "()");
        });
    }

    private Option<Partition> partition(TopicPartition partition) throws IOException {
        Optional<PartitionMetadata> known = known(partition).filter(metadata -> metadata.replicaIds.contains(id));
        return Option.apply(known.map(metadata -> StandIn.of(Partition.class, (method, args) -> switch (method) {
            case "isLeader" -> leads(metadata);
            case "getLeaderEpoch" -> metadata.leaderEpoch.orElse(-1);
            case "leaderIdIfLocal" -> leads(metadata) ? Option.apply(id) : Option.empty();
            case "leaderReplicaIdOpt" -> Option.apply(metadata.leaderId.orElse(null));
            case "inSyncReplicaIds" -> CollectionConverters.asScala(metadata.inSyncReplicaIds).toSet();
            case "log" -> log(partition);
            case "leaderLogIfLocal" -> leads(metadata) ? log(partition) : Option.empty();
            default -> throw MissingFeature.internals("a partition's " + method + "()");
        })).orElse(null));
    }

    /** What the broker itself says, if it runs. */
    private Optional<PartitionMetadata> known(TopicPartition partition) throws IOException {
        return cluster.isShutdown(id) ? Optional.empty() : cluster.metadata(id).partition(partition.topic(), partition.partition());
    }

    private boolean leads(PartitionMetadata metadata) {
        return metadata.leaderId.filter(leader -> leader == id).isPresent();
    }

    private static Object future() {
        throw MissingFeature.internals("the log that is to replace another");
    }

    private Option<UnifiedLog> log(TopicPartition partition) {
        Optional<Path> directory = directories.stream().map(parent -> parent.resolve(partition.toString())).filter(Files::isDirectory).findFirst();
        return Option.apply(directory.map(found -> log(partition, found.toFile())).orElse(null));
    }

    private UnifiedLog log(TopicPartition partition, File directory) {
        return StandIn.of(UnifiedLog.class, (method, args) -> switch (method) {
            case "topicPartition" -> partition;
            case "dir" -> directory;
            case "partitionMetadataFile" -> Optional.of(new PartitionMetadataFile(PartitionMetadataFile.newFile(directory), null));
            case "numberOfSegments" -> segments(directory).size();
            case "logSegments" -> segments(directory).stream().map(LogView::segment).toList();
            case "size" -> segments(directory).stream().mapToLong(File::length).sum();
            case "logEndOffset" -> endOffset(directory);
            case "logStartOffset" -> offsetOfLeader(partition, OffsetSpec.earliest(), method);
            case "highWatermark" -> known(partition).filter(this::leads).isPresent()
                ? offsetOfLeader(partition, OffsetSpec.latest(), method)
                : highWatermarks(directory.getParentFile()).getOrDefault(partition, 0L);
            case "config" -> new LogConfig(cluster.describe(new ConfigResource(ConfigResource.Type.TOPIC, partition.topic())));
            default -> throw MissingFeature.internals("a log's " + method + "()");
        });
    }

    /** What a directory says about how far its logs are committed. */
    private static Map<TopicPartition, Long> highWatermarks(File directory) throws IOException {
        return new OffsetCheckpointFile(new File(directory, ReplicaManager.HighWatermarkFilename()), null).read();
    }

    /** Nobody can have checkpoints written from outside, but they are before long. */
    private Object awaitCheckpoints() throws IOException {
        for (Path directory : directories)
            for (File log : directory.toFile().listFiles(File::isDirectory)) {
                TopicPartition partition = UnifiedLog.parseTopicPartitionName(log);
                if (known(partition).filter(this::leads).isPresent())
                    Waiting.until("no checkpoint of " + partition, Waiting.CONDITION_S, () -> highWatermarks(directory.toFile())
                        .getOrDefault(partition, 0L) == offsetOfLeader(partition, OffsetSpec.latest(), "highWatermark"));
            }
        return null;
    }

    private static List<File> segments(File directory) throws IOException {
        try (var files = Files.list(directory.toPath())) {
            return files.map(Path::toFile).filter(file -> file.getName().endsWith(LogFileUtils.LOG_FILE_SUFFIX)).sorted().toList();
        }
    }

    private static LogSegment segment(File file) {
        return StandIn.of(LogSegment.class, (method, args) -> switch (method) {
            case "baseOffset" -> LogFileUtils.offsetFromFileName(file.getName());
            case "size" -> (int) file.length();
            default -> throw MissingFeature.internals("a segment's " + method + "()");
        });
    }

    private static long endOffset(File directory) throws IOException {
        List<File> segments = segments(directory);
        File last = segments.get(segments.size() - 1);
        long end = LogFileUtils.offsetFromFileName(last.getName());
        try (FileRecords records = FileRecords.open(last, false)) {
            for (RecordBatch batch : records.batches())
                end = batch.nextOffset();
        }
        return end;
    }

    private long offsetOfLeader(TopicPartition partition, OffsetSpec spec, String method) throws IOException {
        if (known(partition).filter(this::leads).isEmpty())
            throw MissingFeature.internals("the " + method + "() of a replica that does not lead");
        return MoldauCluster.answer(() -> cluster.admin().listOffsets(Map.of(partition, spec)).partitionResult(partition)).offset();
    }
}
