import { inspect } from 'node:util'
import { AclOperations, AclPermissionTypes, ResourcePatternTypes, ResourceTypes } from '@platformatic/kafka'
import { expect, test } from 'vitest'
import type { KafkaSaslOptions } from '@txbox/kafka'
import {
  failure,
  outboxMessage,
  publish,
  reason,
  signal,
  summary,
} from '../../support/subjects/publishing.ts'
import { until } from '../../support/worlds/until.ts'
import { idsOf } from '../kafka-under-test.ts'
import type { KafkaProgram } from './kafka-program.ts'

function login(
  mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512',
  username = 'txbox',
  password = `${username}-secret`,
): KafkaSaslOptions {
  return { mechanism, username, password }
}

/** A broker that asks for a login. */
export function testLogins(broker: KafkaProgram): void {
  test.for(['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const)(
    'a login by %s, with and without TLS',
    async (mechanism) => {
      const { kafka } = broker
      const topic = await kafka.topic()
      const log = await kafka.log(topic)
      const sasl = login(mechanism)
      const message = outboxMessage({ topic })
      for (const tls of [undefined, { ca: broker.certificate }]) {
        const brokers = [broker.addressOf(tls === undefined ? 'login' : 'tls')]
        const publisher = kafka.publisher({ brokers, tls, sasl })
        expect(summary(await publish(publisher, [message]))).toEqual(['accepted'])
        expect(idsOf(await log.take())).toEqual([message.id])
      }
    },
  )

  test('a wrong password, no login, and a certificate that nobody vouches for are outages, whose reasons show no password', async () => {
    const { kafka } = broker
    const [address, encrypted] = [broker.addressOf('login'), broker.addressOf('tls')]
    const wrong = 'not-the-password'
    const cases = [
      [{ brokers: [address], sasl: login('PLAIN', 'txbox', wrong) }, /SASL authentication failed/],
      [{ brokers: [address], sasl: login('SCRAM-SHA-512', 'txbox', wrong) }, /SASL authentication failed/],
      [{ brokers: [address] }, /Cannot connect to Kafka/],
      [
        { brokers: [encrypted], sasl: login('PLAIN', 'txbox', wrong) },
        /the options 'brokers', 'tls' and 'sasl'/,
      ],
      [{ brokers: [encrypted], tls: true, sasl: login('PLAIN', 'txbox', wrong) }, /self-signed certificate/],
      [
        { brokers: [encrypted], tls: { ca: broker.certificate, servername: 'other' }, sasl: login('PLAIN') },
        /altnames/,
      ],
    ] as const
    for (const [options, expected] of cases) {
      const publisher = kafka.publisher({ ...options, connectTimeoutMs: 3000 })
      for (const call of [
        () => publish(publisher, [outboxMessage({ topic: 'orders' })]),
        () => publisher.check!({ signal: signal() }),
      ]) {
        const error = await failure(call())
        expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
        expect(error.message).toMatch(expected)
        expect(inspect(error, { depth: Infinity, showHidden: true })).not.toContain(wrong)
      }
    }
  })

  test('a topic to which the user may not write rejects its messages for now; others are not disturbed', async () => {
    const { kafka } = broker
    const [allowed, hidden, readable] = [await kafka.topic(), await kafka.topic(), await kafka.topic()]
    const grant = (resourceName: string, operation: 4 | 8) => ({
      resourceType: ResourceTypes.TOPIC,
      resourceName,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: 'User:limited',
      host: '*',
      operation,
      permissionType: AclPermissionTypes.ALLOW,
    })
    const publisher = kafka.publisher({
      brokers: [broker.addressOf('login')],
      sasl: login('SCRAM-SHA-256', 'limited'),
    })
    // Without a right to write to any topic, no idempotent producer starts.
    await expect(publisher.check!({ signal: signal() })).rejects.toThrow('31 CLUSTER_AUTHORIZATION_FAILED')
    await kafka.admin.createAcls({
      creations: [grant(allowed, AclOperations.WRITE), grant(readable, AclOperations.DESCRIBE)],
    })
    // The broker learns of the rights a moment later.
    await until(
      () =>
        publisher.check!({ signal: signal() }).then(
          () => true,
          () => false,
        ),
      () => 'the user may not write yet',
    )
    const messages = [allowed, hidden, readable, kafka.name('missing'), allowed].map((topic) =>
      outboxMessage({ topic }),
    )
    const results = await publish(publisher, messages)
    expect(summary(results)).toEqual([
      ...['accepted', 'rejected for now', 'rejected for now', 'rejected for now', 'accepted'],
    ])
    for (const n of [1, 2, 3]) {
      expect(reason(results[n])).toContain('29 TOPIC_AUTHORIZATION_FAILED')
      expect(results[n]).not.toHaveProperty('counted', false)
    }
  })
}
