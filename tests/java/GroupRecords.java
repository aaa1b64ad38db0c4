import java.nio.charset.StandardCharsets;
import java.io.PrintStream;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Prints records of __consumer_offsets as Kafka's own classes write them: a name, the key and the
 * value in hex, "-" for a tombstone. tests/unit/wire/stored/data/kafka_4_3_1_group_records.txt is its output:
 *
 *   java -cp '.cache/kafka-4.3.1/*' tests/java/GroupRecords.java
 */
public class GroupRecords {
    private static final long TIME = 1700000000000L;
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.US_ASCII);

    public static void main(String[] args) {
        offsets();
        classicGroups();
        consumerGroups();
        consumerMembers();
        print("share_group_metadata", new ShareGroupMetadataKey().setGroupId("group"),
            new ShareGroupMetadataValue().setEpoch(3), 0);
    }

    private static void offsets() {
        OffsetCommitKey key = new OffsetCommitKey().setGroup("group").setTopic("t\u00f6pic").setPartition(7);
        print("offset_commit", key, new OffsetCommitValue().setOffset(1234567890123L)
            .setMetadata("a note \u2603").setCommitTimestamp(TIME).setLeaderEpoch(5).setTopicId(id(1)), 4);
        print("offset_commit_bare", key, new OffsetCommitValue().setOffset(0).setMetadata("")
            .setCommitTimestamp(TIME), 4);
        print("offset_commit_expires", key, new OffsetCommitValue().setOffset(42).setMetadata("m")
            .setCommitTimestamp(TIME).setExpireTimestamp(TIME + 60000), 1);
        tombstone("offset_tombstone", key);
        for (int version = 0; version <= 4; version++) {
            OffsetCommitValue value = new OffsetCommitValue().setOffset(99).setMetadata("md").setCommitTimestamp(1000);
            if (version == 1) value.setExpireTimestamp(2000);
            if (version >= 3) value.setLeaderEpoch(3);
            if (version >= 4) value.setTopicId(id(2));
            print("offset_commit_v" + version, key, value, version);
        }
        print("legacy_offset_commit",
            new LegacyOffsetCommitKey().setGroup("group").setTopic("t").setPartition(1),
            new LegacyOffsetCommitValue().setOffset(5).setMetadata("x").setCommitTimestamp(9), 0);
    }

    private static void classicGroups() {
        GroupMetadataKey key = new GroupMetadataKey().setGroup("group");
        for (int version = 0; version <= 4; version++) {
            GroupMetadataValue.MemberMetadata first = new GroupMetadataValue.MemberMetadata()
                .setMemberId("member-1").setClientId("client").setClientHost("/127.0.0.1")
                .setSessionTimeout(45000).setSubscription(new byte[] {1, 2, 3}).setAssignment(new byte[] {4, 5});
            GroupMetadataValue.MemberMetadata second = new GroupMetadataValue.MemberMetadata()
                .setMemberId("member-2").setClientId("c").setClientHost("/h")
                .setSessionTimeout(1).setSubscription(new byte[0]).setAssignment(new byte[0]);
            if (version >= 1) {
                first.setRebalanceTimeout(300000);
                second.setRebalanceTimeout(2);
            }
            if (version >= 3) first.setGroupInstanceId("instance");
            GroupMetadataValue value = new GroupMetadataValue().setProtocolType("consumer").setGeneration(11)
                .setProtocol("range").setLeader("member-1").setMembers(List.of(first, second));
            if (version >= 2) value.setCurrentStateTimestamp(TIME);
            print("group_metadata_v" + version, key, value, version);
        }
        print("group_metadata_empty", key, new GroupMetadataValue().setProtocolType("").setGeneration(0)
            .setProtocol(null).setLeader(null).setCurrentStateTimestamp(5).setMembers(List.of()), 3);
        tombstone("group_metadata_tombstone", key);
    }

    private static void consumerGroups() {
        ConsumerGroupMetadataKey group = new ConsumerGroupMetadataKey().setGroupId("group");
        print("consumer_group_metadata", group,
            new ConsumerGroupMetadataValue().setEpoch(12).setMetadataHash(0x1122334455667788L), 0);
        print("consumer_group_metadata_no_hash", group, new ConsumerGroupMetadataValue().setEpoch(12), 0);
        tombstone("consumer_group_metadata_tombstone", group);

        ConsumerGroupPartitionMetadataKey partitions = new ConsumerGroupPartitionMetadataKey().setGroupId("group");
        print("consumer_group_partition_metadata", partitions, new ConsumerGroupPartitionMetadataValue()
            .setTopics(List.of(new ConsumerGroupPartitionMetadataValue.TopicMetadata()
                .setTopicId(id(1)).setTopicName("t").setNumPartitions(2)
                .setPartitionMetadata(List.of(new ConsumerGroupPartitionMetadataValue.PartitionMetadata()
                    .setPartition(1).setRacks(List.of("a", "b")))))), 0);
        tombstone("consumer_group_partition_metadata_tombstone", partitions);
    }

    private static void consumerMembers() {
        ConsumerGroupMemberMetadataKey member =
            new ConsumerGroupMemberMetadataKey().setGroupId("group").setMemberId("member");
        // Members under the consumer protocol have no classic metadata, which has to be said.
        print("consumer_group_member_metadata", member, new ConsumerGroupMemberMetadataValue()
            .setInstanceId("inst").setRackId("rack").setClientId("client").setClientHost("/127.0.0.1")
            .setSubscribedTopicNames(List.of("a", "b")).setSubscribedTopicRegex("a.*")
            .setRebalanceTimeoutMs(300000).setServerAssignor("uniform").setClassicMemberMetadata(null), 0);
        print("consumer_group_member_metadata_bare", member, new ConsumerGroupMemberMetadataValue()
            .setInstanceId(null).setRackId(null).setSubscribedTopicRegex(null).setServerAssignor(null)
            .setClassicMemberMetadata(null), 0);
        print("consumer_group_member_metadata_classic", member, new ConsumerGroupMemberMetadataValue()
            .setInstanceId(null).setRackId(null).setClientId("c").setClientHost("/h")
            .setSubscribedTopicNames(List.of("a")).setSubscribedTopicRegex(null)
            .setRebalanceTimeoutMs(5).setServerAssignor(null)
            .setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()
                .setSessionTimeoutMs(45000)
                .setSupportedProtocols(List.of(new ConsumerGroupMemberMetadataValue.ClassicProtocol()
                    .setName("range").setMetadata(new byte[] {9, 8})))), 0);
        tombstone("consumer_group_member_metadata_tombstone", member);

        ConsumerGroupTargetAssignmentMetadataKey target =
            new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("group");
        print("consumer_group_target_assignment_metadata", target,
            new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(13).setAssignmentTimestamp(TIME), 0);
        print("consumer_group_target_assignment_metadata_default", target,
            new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(13), 0);
        tombstone("consumer_group_target_assignment_metadata_tombstone", target);

        ConsumerGroupTargetAssignmentMemberKey share =
            new ConsumerGroupTargetAssignmentMemberKey().setGroupId("group").setMemberId("member");
        print("consumer_group_target_assignment_member", share, new ConsumerGroupTargetAssignmentMemberValue()
            .setTopicPartitions(List.of(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                .setTopicId(id(3)).setPartitions(List.of(0, 1, 2)))), 0);
        print("consumer_group_target_assignment_member_empty", share,
            new ConsumerGroupTargetAssignmentMemberValue(), 0);
        tombstone("consumer_group_target_assignment_member_tombstone", share);

        ConsumerGroupCurrentMemberAssignmentKey current =
            new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("group").setMemberId("member");
        print("consumer_group_current_member_assignment", current, new ConsumerGroupCurrentMemberAssignmentValue()
            .setMemberEpoch(7).setPreviousMemberEpoch(6).setState((byte) 1)
            .setAssignedPartitions(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
                .setTopicId(id(3)).setPartitions(List.of(0, 1)).setAssignmentEpochs(List.of(5, 6))))
            .setPartitionsPendingRevocation(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
                .setTopicId(id(4)).setPartitions(List.of(2)))), 0);
        print("consumer_group_current_member_assignment_bare", current, new ConsumerGroupCurrentMemberAssignmentValue()
            .setMemberEpoch(-1).setPreviousMemberEpoch(-1).setState((byte) -1), 0);
        tombstone("consumer_group_current_member_assignment_tombstone", current);

        ConsumerGroupRegularExpressionKey regex =
            new ConsumerGroupRegularExpressionKey().setGroupId("group").setRegularExpression("a.*");
        print("consumer_group_regular_expression", regex, new ConsumerGroupRegularExpressionValue()
            .setTopics(List.of("a", "ab")).setVersion(77).setTimestamp(TIME), 0);
        tombstone("consumer_group_regular_expression_tombstone", regex);
    }

    private static Uuid id(long number) {
        return new Uuid(0x0102030405060708L, number);
    }

    private static void print(String name, ApiMessage key, ApiMessage value, int version) {
        line(name, CoordinatorRecord.record(key, new ApiMessageAndVersion(value, (short) version)));
    }

    private static void tombstone(String name, ApiMessage key) {
        line(name, CoordinatorRecord.tombstone(key));
    }

    private static void line(String name, CoordinatorRecord record) {
        byte[] value = SERDE.serializeValue(record);
        HexFormat hex = HexFormat.of();
        OUT.println(name + " " + hex.formatHex(SERDE.serializeKey(record)) + " "
            + (value == null ? "-" : hex.formatHex(value)));
    }
}
