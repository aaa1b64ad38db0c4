// A group member with kafkajs; it says what VerifiableConsumer says, commits after every batch and
// leaves on SIGTERM. Run: node member.js '{"brokers": ["host:port"], "group": {…}}' topic
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const settings = JSON.parse(process.argv[2])
const topic = process.argv[3]
const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: settings.brokers,
  logLevel: logLevel.NOTHING,
  connectionTimeout: 30000,
  requestTimeout: 60000,
  // It asks the same coordinator again so often, and looks for another only after that.
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 15 },
})
const consumer = kafka.consumer(settings.group)

const say = (name, fields = {}) =>
  process.stdout.write(JSON.stringify({ timestamp: Date.now(), name, ...fields }) + '\n')

let owned = []

function release() {
  if (owned.length) say('partitions_revoked', { partitions: owned })
  owned = []
}

async function main() {
  consumer.on(consumer.events.REBALANCING, release)
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    release()
    const numbers = payload.memberAssignment[topic] || []
    owned = numbers.map(partition => ({ topic, partition }))
    say('partitions_assigned', { partitions: owned })
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => say('error', { error: payload.error.name }))
  process.on('SIGTERM', async () => {
    release() // others may have them before this returns
    await consumer.disconnect()
    say('shutdown_complete')
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: true,
    eachBatch: async ({ batch, resolveOffset }) => {
      const partition = batch.partition
      for (const message of batch.messages) {
        say('record_data', { topic, partition, offset: Number(message.offset) })
        resolveOffset(message.offset)
      }
      const offset = Number(batch.lastOffset()) + 1
      try {
        await consumer.commitOffsets([{ topic, partition, offset: String(offset) }])
        say('offsets_committed', { offsets: [{ topic, partition, offset }], success: true })
      } catch (error) {
        say('commit_failed', { error: error.name })
        throw error // joins again, and reads again what was not committed
      }
    },
  })
  say('startup_complete')
}

main().catch(error => {
  say('failed', { error: String(error) })
  process.exit(3)
})
