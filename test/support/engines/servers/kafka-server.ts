import { Admin } from '@platformatic/kafka'
import { addressInEnvironment, type ServerKind } from './server.ts'

export const kafkaServer: ServerKind = {
  title: 'Kafka',
  sources: [addressInEnvironment('TXBOX_TEST_KAFKA_URL', describeKafka)],
  remedy: 'Start a Kafka, and set TXBOX_TEST_KAFKA_URL to its address, such as 127.0.0.1:9092.',
}

async function describeKafka(address: string): Promise<string> {
  const admin = new Admin({ clientId: 'txbox-test', bootstrapBrokers: [address], connectTimeout: 5000 })
  try {
    const { brokers } = await admin.metadata({ topics: [] })
    return `Kafka with ${brokers.size} brokers at ${address}`
  } finally {
    await admin.close()
  }
}
