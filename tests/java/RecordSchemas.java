import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.coordinator.transaction.generated.*;

/**
 * Prints the schemas of Kafka's own record classes, a line for each field of each version.
 * tests/unit/wire/stored/data/kafka_4_3_1_schemas.txt is its output:
 *
 *   java -cp '.cache/kafka-4.3.1/*' tests/java/RecordSchemas.java
 */
public class RecordSchemas {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.US_ASCII);

    public static void main(String[] args) throws ReflectiveOperationException {
        for (Class<?> message : List.of(
            OffsetCommitKey.class, OffsetCommitValue.class,
            GroupMetadataKey.class, GroupMetadataValue.class,
            ConsumerGroupMetadataKey.class, ConsumerGroupMetadataValue.class,
            ConsumerGroupPartitionMetadataKey.class, ConsumerGroupPartitionMetadataValue.class,
            ConsumerGroupMemberMetadataKey.class, ConsumerGroupMemberMetadataValue.class,
            ConsumerGroupTargetAssignmentMetadataKey.class, ConsumerGroupTargetAssignmentMetadataValue.class,
            ConsumerGroupTargetAssignmentMemberKey.class, ConsumerGroupTargetAssignmentMemberValue.class,
            ConsumerGroupCurrentMemberAssignmentKey.class, ConsumerGroupCurrentMemberAssignmentValue.class,
            ConsumerGroupRegularExpressionKey.class, ConsumerGroupRegularExpressionValue.class,
            TransactionLogKey.class, TransactionLogValue.class,
            TopicRecord.class, PartitionRecord.class, ConfigRecord.class, PartitionChangeRecord.class,
            RemoveTopicRecord.class, ClientQuotaRecord.class, ProducerIdsRecord.class,
            BeginTransactionRecord.class, EndTransactionRecord.class, AbortTransactionRecord.class)) {
            Schema[] schemas = (Schema[]) message.getField("SCHEMAS").get(null);
            for (int version = 0; version < schemas.length; version++)
                if (schemas[version] != null)
                    print(message.getSimpleName() + " " + version + " ", schemas[version]);
        }
    }

    private static void print(String place, Schema schema) {
        for (BoundField field : schema.fields())
            if (field.def.type instanceof TaggedFields) {
                OUT.println(place + "flexible");
                ((TaggedFields) field.def.type).fields().forEach(
                    (tag, tagged) -> print(place + tagged.name, " tag " + tag, tagged.type));
            } else {
                print(place + field.def.name, "", field.def.type);
            }
    }

    private static void print(String place, String tag, Type type) {
        Type inner = type.isArray() ? type.arrayElementType().get() : type;
        String array = type.isArray() ? "[]" : "";
        String nullable = type.isNullable() ? " nullable" : "";
        if (inner instanceof Schema) {
            OUT.println(place + array + " struct" + nullable + tag);
            print(place + array + ".", (Schema) inner);
        } else {
            String name = inner.toString().toLowerCase().replace("compact_", "").replace("nullable_", "");
            OUT.println(place + array + " " + name + nullable + tag);
        }
    }
}
