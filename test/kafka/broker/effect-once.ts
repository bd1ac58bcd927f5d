import { fork, type ChildProcess } from 'node:child_process'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { Publisher } from '@txbox/kafka'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { useTarget } from '../../support/engines/target.ts'
import { outboxMessage, signal } from '../../support/subjects/publishing.ts'
import { until } from '../../support/worlds/until.ts'
import type { KafkaProgram } from './kafka-program.ts'

const KEYS = 12
const STEPS = 150
const STEPS_OF_A_CALL = 5

/** Publishes the steps of all keys, a few at a time, as a relay does: again when it is not known whether they were published. */
async function publishSteps(publisher: Publisher, topic: string, goOn: () => boolean): Promise<void> {
  for (let step = 1; step <= STEPS && goOn(); step += STEPS_OF_A_CALL) {
    const messages = Array.from({ length: KEYS * STEPS_OF_A_CALL }, (_, place) => {
      const [key, n] = [`key-${place % KEYS}`, step + Math.floor(place / KEYS)]
      return outboxMessage({
        ...{ id: `${key} ${n}`, topic, key, contentType: 'application/json' },
        payload: Buffer.from(JSON.stringify({ key, n })),
      })
    })
    for (let isDone = false; !isDone && goOn();) {
      const results = await publisher.publish(messages, { signal: signal() }).catch(() => [])
      isDone = results.length > 0 && results.every(({ status }) => status === 'accepted')
      await pause(isDone ? 100 : 200)
    }
  }
}

/** Consumers with an inbox in processes of their own, whose group and broker are disturbed all the time. */
export function testEffectOnce(broker: KafkaProgram): void {
  const target = useTarget()
  const outbox = useOutboxTarget(target)

  test('C1 C2 members that are killed, stand still, join and leave, and a broker that is killed: nothing is lost or doubled, and keys keep their order', async () => {
    const { kafka } = broker
    const topic = await kafka.topic({ partitions: 6 })
    const group = kafka.name('group')
    const env = {
      ...process.env,
      ...{ DATABASE_URL: outbox.url(), BROKER: kafka.address, TOPIC: topic, GROUP: group },
    }
    const join = async (): Promise<ChildProcess> => {
      const file = path.join(import.meta.dirname, '..', 'programs', 'consumer.mjs')
      const member = fork(file, [], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
      onTestFinished(() => void member.kill('SIGKILL'))
      await new Promise((resolve) => void member.once('message', resolve))
      return member
    }
    const kill = (member: ChildProcess): void => void member.kill('SIGKILL')
    const leave = async (member: ChildProcess): Promise<void> => {
      const ended = new Promise((resolve) => void member.once('exit', resolve))
      member.send('stop')
      await ended
    }
    const effects = async (): Promise<string[]> => {
      const rows = await target.sql('select name from effects where name like ? order by seq', [`${group} %`])
      return rows.map(({ name }) => String(name).slice(group.length + 1))
    }
    const atLeast = (count: number): Promise<void> =>
      until(
        async () => (await effects()).length >= count,
        async () => `${count} effects: ${(await effects()).length}`,
        60_000,
      )

    let isOver = false
    onTestFinished(() => void (isOver = true))
    const publishing = publishSteps(
      kafka.publisher({ confirmTimeoutMs: 2000, connectTimeoutMs: 2000 }),
      topic,
      () => !isOver,
    )
    const all = KEYS * STEPS
    const [a, b] = await Promise.all([join(), join()])
    await atLeast(all * 0.1)
    kill(a)
    const c = await join()
    await atLeast(all * 0.3)
    await broker.kill()
    await broker.restart()
    await atLeast(all * 0.45)
    const d = await join()
    await atLeast(all * 0.6)
    // For longer than its session.
    d.kill('SIGSTOP')
    await leave(b)
    await atLeast(all * 0.7)
    kill(c)
    const e = await join()
    await atLeast(all * 0.85)
    d.kill('SIGCONT')
    await publishing
    await atLeast(all)
    // All is committed, copies of a resend included. While the group is rebalanced, Kafka refuses commits; a member that leaves does not wait.
    const stored = await (await kafka.log(topic)).take()
    await until(
      async () => (await kafka.committed(topic, group)) === stored.length,
      async () => `${stored.length} are committed: ${await kafka.committed(topic, group)}`,
    )
    await Promise.all([leave(d), leave(e)])

    const names = await effects()
    expect(names.length).toBe(all)
    expect(new Set(names).size).toBe(all)
    for (let key = 0; key < KEYS; key += 1) {
      const own = names
        .filter((name) => name.startsWith(`key-${key} `))
        .map((name) => Number(name.split(' ')[1]))
      expect(own).toEqual(Array.from({ length: STEPS }, (_, n) => n + 1))
    }
  })
}
