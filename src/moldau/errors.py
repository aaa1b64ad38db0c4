"""The error table: one row per Kafka error code.

Names, codes and the retriable flag are Kafka's, and ``tests/unit/test_errors.py`` compares them
with another list; the sentences are our own, for the person who reads them, but for those of
UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID, which Kafka sends and its tools print. Handlers
answer with codes; exceptions never cross the wire.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

from moldau.printable import LONGEST_LINE, printable


class ErrorCode(IntEnum):
    """A Kafka error code. ``retriable`` says whether a client may simply try again."""

    retriable: bool
    message: str

    def __new__(cls, code: int, retriable: bool, message: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.message = message
        return member

    UNKNOWN_SERVER_ERROR = (
        -1,
        False,
        "Something unexpected went wrong on the server; its log says more.",
    )
    NONE = (0, False, "No error.")
    OFFSET_OUT_OF_RANGE = (
        1,
        False,
        "The log does not hold this offset: it is before the first or after the last record.",
    )
    CORRUPT_MESSAGE = (
        2,
        True,
        "The batch is damaged: its checksum, size or contents do not fit together.",
    )
    UNKNOWN_TOPIC_OR_PARTITION = (3, True, "This server does not host this topic-partition.")
    INVALID_FETCH_SIZE = (4, False, "A fetch cannot ask for this number of bytes.")
    LEADER_NOT_AVAILABLE = (
        5,
        True,
        "The partition has no leader at the moment; one is being elected.",
    )
    NOT_LEADER_OR_FOLLOWER = (
        6,
        True,
        "This broker does not lead the partition, or holds no replica of it.",
    )
    REQUEST_TIMED_OUT = (7, True, "The request was not finished within its timeout.")
    BROKER_NOT_AVAILABLE = (8, False, "The broker cannot be reached.")
    REPLICA_NOT_AVAILABLE = (9, True, "The replica that was asked for is not available.")
    MESSAGE_TOO_LARGE = (
        10,
        False,
        "The batch is larger than the topic's max.message.bytes allows.",
    )
    STALE_CONTROLLER_EPOCH = (
        11,
        False,
        "The request comes from a controller that has been replaced.",
    )
    OFFSET_METADATA_TOO_LARGE = (
        12,
        False,
        "The note with the offset is longer than offset.metadata.max.bytes.",
    )
    NETWORK_EXCEPTION = (13, True, "The connection broke before an answer arrived.")
    COORDINATOR_LOAD_IN_PROGRESS = (
        14,
        True,
        "The coordinator is still reading its state; try again shortly.",
    )
    COORDINATOR_NOT_AVAILABLE = (15, True, "No coordinator is available at the moment.")
    NOT_COORDINATOR = (16, True, "Another broker is the coordinator; look it up again.")
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "The topic name is not legal, or the topic is not open to this operation.",
    )
    RECORD_LIST_TOO_LARGE = (18, False, "The batch is larger than a segment of this topic.")
    NOT_ENOUGH_REPLICAS = (
        19,
        True,
        "Fewer replicas are in sync than min.insync.replicas; nothing was written.",
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "Written, but fewer replicas are in sync than min.insync.replicas.",
    )
    INVALID_REQUIRED_ACKS = (21, False, "acks must be 0, 1 or -1 (all).")
    ILLEGAL_GENERATION = (22, False, "The member acts for a generation of the group that is over.")
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "The member supports no protocol that the group can agree on.",
    )
    INVALID_GROUP_ID = (24, False, "The group id is empty or not legal.")
    UNKNOWN_MEMBER_ID = (25, False, "The coordinator knows no such member; it has to join again.")
    INVALID_SESSION_TIMEOUT = (
        26,
        False,
        "The session timeout lies outside the bounds that the broker sets for groups.",
    )
    REBALANCE_IN_PROGRESS = (
        27,
        False,
        "The group is dividing its partitions anew; the member has to rejoin.",
    )
    INVALID_COMMIT_OFFSET_SIZE = (
        28,
        False,
        "The offset to commit, with its note, is too large to store.",
    )
    TOPIC_AUTHORIZATION_FAILED = (29, False, "This client may not do that with the topic.")
    GROUP_AUTHORIZATION_FAILED = (30, False, "This client may not do that with the group.")
    CLUSTER_AUTHORIZATION_FAILED = (31, False, "This client may not do that with the cluster.")
    INVALID_TIMESTAMP = (
        32,
        False,
        "A record's timestamp is too far in the past or the future for this topic.",
    )
    UNSUPPORTED_SASL_MECHANISM = (33, False, "This broker does not offer the SASL mechanism.")
    ILLEGAL_SASL_STATE = (34, False, "The request does not fit the state of the SASL login.")
    UNSUPPORTED_VERSION = (
        35,
        False,
        "This broker does not serve the request in this version of the API.",
    )
    TOPIC_ALREADY_EXISTS = (36, False, "A topic with this name exists already.")
    INVALID_PARTITIONS = (37, False, "The number of partitions is not acceptable.")
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "The replication factor is below 1 or above the number of brokers available.",
    )
    INVALID_REPLICA_ASSIGNMENT = (
        39,
        False,
        "The assignment of replicas to brokers is not acceptable.",
    )
    INVALID_CONFIG = (40, False, "A setting has an unknown name or an unacceptable value.")
    NOT_CONTROLLER = (41, True, "Another node is the controller; look it up again.")
    INVALID_REQUEST = (42, False, "The request contradicts itself or does not make sense.")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        False,
        "The record format in the log is too old for this request.",
    )
    POLICY_VIOLATION = (44, False, "A policy of this cluster forbids the request.")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45,
        False,
        "The producer's sequence number does not follow its last one.",
    )
    DUPLICATE_SEQUENCE_NUMBER = (
        46,
        False,
        "The producer's sequence number was used too long ago to find the original.",
    )
    INVALID_PRODUCER_EPOCH = (47, False, "The producer's epoch is older than the newest one known.")
    INVALID_TXN_STATE = (48, False, "The transaction is in a state that does not allow this step.")
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        False,
        "The producer id does not belong to this transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        False,
        "The transaction timeout is longer than transaction.max.timeout.ms.",
    )
    CONCURRENT_TRANSACTIONS = (
        51,
        True,
        "Another step of the same transaction is under way; try again shortly.",
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        False,
        "The marker comes from a coordinator that has been replaced.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        False,
        "This client may not use the transactional id.",
    )
    SECURITY_DISABLED = (54, False, "Security is not switched on here.")
    OPERATION_NOT_ATTEMPTED = (
        55,
        False,
        "Nothing was tried, because another part of the request had failed.",
    )
    KAFKA_STORAGE_ERROR = (
        56,
        True,
        "The disk that holds the partition failed; it is offline on this broker.",
    )
    LOG_DIR_NOT_FOUND = (57, False, "The broker has no such log directory.")
    SASL_AUTHENTICATION_FAILED = (58, False, "The login failed.")
    UNKNOWN_PRODUCER_ID = (
        59,
        False,
        "Nothing is remembered about this producer: its records are gone or it expired.",
    )
    REASSIGNMENT_IN_PROGRESS = (
        60,
        False,
        "The partition's replicas are being moved at the moment.",
    )
    DELEGATION_TOKEN_AUTH_DISABLED = (61, False, "Delegation tokens are not switched on here.")
    DELEGATION_TOKEN_NOT_FOUND = (62, False, "No such delegation token is known.")
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        False,
        "Only the token's owner or a renewer may do that.",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "Tokens cannot be handled over this kind of connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        False,
        "This client may not do that with delegation tokens.",
    )
    DELEGATION_TOKEN_EXPIRED = (66, False, "The delegation token has expired.")
    INVALID_PRINCIPAL_TYPE = (67, False, "This type of principal is not supported.")
    NON_EMPTY_GROUP = (68, False, "The group still has members.")
    GROUP_ID_NOT_FOUND = (69, False, "No such group exists.")
    FETCH_SESSION_ID_NOT_FOUND = (
        70,
        True,
        "The fetch session is gone; the client starts a new one.",
    )
    INVALID_FETCH_SESSION_EPOCH = (
        71,
        True,
        "The fetch session is at another epoch; the client starts a new one.",
    )
    LISTENER_NOT_FOUND = (
        72,
        True,
        "The leader has no listener of the name through which the request came.",
    )
    TOPIC_DELETION_DISABLED = (
        73,
        False,
        "Topics cannot be deleted here: delete.topic.enable is false.",
    )
    FENCED_LEADER_EPOCH = (74, True, "The request names an older leader epoch than the broker's.")
    UNKNOWN_LEADER_EPOCH = (
        75,
        True,
        "The request names a newer leader epoch than the broker has heard of.",
    )
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "The client's version cannot read the compression of this partition.",
    )
    STALE_BROKER_EPOCH = (77, False, "The broker has registered anew since the request was made.")
    OFFSET_NOT_AVAILABLE = (
        78,
        True,
        "The new leader does not know yet which records are safe to read.",
    )
    MEMBER_ID_REQUIRED = (79, False, "The member joins again with the id that it was just given.")
    PREFERRED_LEADER_NOT_AVAILABLE = (
        80,
        True,
        "The preferred replica cannot become leader at the moment.",
    )
    GROUP_MAX_SIZE_REACHED = (81, False, "The group has as many members as it may have.")
    FENCED_INSTANCE_ID = (82, False, "Another member has taken over this group.instance.id.")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, True, "No replica that may become leader is available.")
    ELECTION_NOT_NEEDED = (84, True, "The partition has the leader that it should have.")
    NO_REASSIGNMENT_IN_PROGRESS = (85, False, "No reassignment of this partition is under way.")
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        False,
        "The group still reads the topic, so its offsets cannot be deleted.",
    )
    INVALID_RECORD = (87, False, "The broker's checks refused a record of the batch.")
    UNSTABLE_OFFSET_COMMIT = (
        88,
        True,
        "Offsets of an open transaction are not decided yet; try again shortly.",
    )
    THROTTLING_QUOTA_EXCEEDED = (89, True, "The client goes over its quota; try again later.")
    PRODUCER_FENCED = (90, False, "A newer producer with the same transactional id has taken over.")
    RESOURCE_NOT_FOUND = (91, False, "The request names something that does not exist.")
    DUPLICATE_RESOURCE = (92, False, "The request names the same thing twice.")
    UNACCEPTABLE_CREDENTIAL = (93, False, "The credential does not meet the rules for credentials.")
    INCONSISTENT_VOTER_SET = (94, False, "Sender and receiver do not agree on who the voters are.")
    INVALID_UPDATE_VERSION = (95, False, "The feature cannot be set to this version.")
    FEATURE_UPDATE_FAILED = (96, False, "The feature level could not be changed.")
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97,
        False,
        "The sender of a forwarded request cannot be made out.",
    )
    SNAPSHOT_NOT_FOUND = (98, False, "No such metadata snapshot exists.")
    POSITION_OUT_OF_RANGE = (99, False, "The snapshot has no such position.")
    UNKNOWN_TOPIC_ID = (100, True, "This server does not host this topic ID.")
    DUPLICATE_BROKER_REGISTRATION = (101, False, "Another running broker has this id.")
    BROKER_ID_NOT_REGISTERED = (102, False, "No broker with this id is registered.")
    INCONSISTENT_TOPIC_ID = (
        103,
        True,
        "The topic of this name has another id: it was deleted and created again.",
    )
    INCONSISTENT_CLUSTER_ID = (104, False, "The request is meant for another cluster.")
    TRANSACTIONAL_ID_NOT_FOUND = (105, False, "No such transactional id is known.")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, True, "The fetch session mixes topic names and topic ids.")
    INELIGIBLE_REPLICA = (107, False, "A replica of the new in-sync set may not be in it.")
    NEW_LEADER_ELECTED = (
        108,
        False,
        "The change was made, and with it the partition got another leader.",
    )
    OFFSET_MOVED_TO_TIERED_STORAGE = (
        109,
        False,
        "The records at this offset are only in tiered storage.",
    )
    FENCED_MEMBER_EPOCH = (
        110,
        False,
        "The group has moved on without this member, which has to rejoin.",
    )
    UNRELEASED_INSTANCE_ID = (
        111,
        False,
        "Another member still uses this group.instance.id and has to leave first.",
    )
    UNSUPPORTED_ASSIGNOR = (112, False, "The group's coordinator does not offer this assignor.")
    STALE_MEMBER_EPOCH = (
        113,
        False,
        "The member's epoch is out of date; its next heartbeat brings the new one.",
    )
    MISMATCHED_ENDPOINT_TYPE = (114, False, "The request was meant for another kind of endpoint.")
    UNSUPPORTED_ENDPOINT_TYPE = (115, False, "This kind of endpoint is not supported.")
    UNKNOWN_CONTROLLER_ID = (116, False, "No controller with this id is known.")
    UNKNOWN_SUBSCRIPTION_ID = (117, False, "The telemetry subscription is unknown or out of date.")
    TELEMETRY_TOO_LARGE = (118, False, "The telemetry is larger than telemetry.max.bytes.")
    INVALID_REGISTRATION = (119, False, "The controller refuses the broker's registration.")
    TRANSACTION_ABORTABLE = (
        120,
        False,
        "The transaction failed; abort it, and the producer can go on.",
    )
    INVALID_RECORD_STATE = (
        121,
        False,
        "The record is not in a state in which it can be acknowledged.",
    )
    SHARE_SESSION_NOT_FOUND = (122, True, "The share session is gone; the client starts a new one.")
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        True,
        "The share session is at another epoch; the client starts a new one.",
    )
    FENCED_STATE_EPOCH = (124, False, "The share group's state is at another epoch.")
    INVALID_VOTER_KEY = (125, False, "The voter key names another replica than this one.")
    DUPLICATE_VOTER = (126, False, "This voter is in the set already.")
    VOTER_NOT_FOUND = (127, False, "This voter is not in the set.")
    INVALID_REGULAR_EXPRESSION = (128, False, "The pattern is not a valid regular expression.")
    REBOOTSTRAP_REQUIRED = (
        129,
        False,
        "The client's view of the cluster is too old; it has to bootstrap again.",
    )
    STREAMS_INVALID_TOPOLOGY = (130, False, "The streams topology is not acceptable.")
    STREAMS_INVALID_TOPOLOGY_EPOCH = (
        131,
        False,
        "The epoch of the streams topology is not acceptable.",
    )
    STREAMS_TOPOLOGY_FENCED = (132, False, "The streams topology has been replaced by a newer one.")
    SHARE_SESSION_LIMIT_REACHED = (133, True, "The broker holds as many share sessions as it may.")


class KafkaError(Exception):
    """A failure with a Kafka error code: pure code raises it, handlers turn it into an answer."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = message or code.message
        # The message goes to the other side as it is; its text may have come from there, too.
        super().__init__(f"{code.name}: {printable(self.message, LONGEST_LINE)}")

    @property
    def retriable(self) -> bool:
        return self.code.retriable


def invalid_request(message: str) -> KafkaError:
    """Returns what to raise for a request that makes no sense."""
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
