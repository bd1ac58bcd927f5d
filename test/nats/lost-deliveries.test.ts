import { fork } from 'node:child_process'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { natsSource, type Delivery, type OpenSource } from '@txbox/nats'
import { signal } from '../support/subjects/publishing.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'
import { urlAt, useNats } from './nats-under-test.ts'

const CONSUMER = 'billing'
const RETRY = { delayMs: 0, error: undefined, counted: true }

const nats = useNats()

async function open(stream: string, ackWaitMs: number, servers = nats.url): Promise<OpenSource> {
  const source = natsSource({ servers, stream, consumer: CONSUMER, declare: { ackWaitMs } })
  const opened = await source.open({ prefetch: 10, failed: () => undefined })
  onTestFinished(() => opened.close())
  return opened
}

async function receive(opened: OpenSource): Promise<Delivery> {
  for (;;) {
    const [delivery] = await opened.receive(1, { signal: signal() })
    if (delivery !== undefined) return delivery
  }
}

/** Lets this process do nothing else, as long synchronous work does. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

const SETTLEMENTS: readonly (readonly [string, (delivery: Delivery) => Promise<void>])[] = [
  ['acceptance', (delivery) => delivery.accept({ beforeHandling: true })],
  ['rejection', (delivery) => delivery.reject({ error: new Error('never') })],
  ['return', (delivery) => delivery.retry(RETRY)],
  ['extension', (delivery) => delivery.extend!(500)],
]

test.for(SETTLEMENTS)('the %s of a delivery whose lease is over loses the delivery', async ([, settle]) => {
  const stream = await nats.stream()
  const opened = await open(stream, 500)
  await nats.send(`${stream}.a`, ['a'])
  const delivery = await receive(opened)
  // No timer has seen the end of the lease.
  block(600)
  await settle(delivery)
  expect(delivery.lost.aborted).toBe(true)
  expect((await receive(opened)).deliveries).toBe(2)
})

test('a delivery whose acceptance is not confirmed within its lease is lost', async () => {
  const stream = await nats.stream()
  const between = await nats.network()
  const opened = await open(stream, 500, urlAt(between.address))
  await nats.send(`${stream}.a`, ['a'])
  const delivery = await receive(opened)
  between.freeze()
  await delivery.accept({ beforeHandling: true })
  expect(delivery.lost.aborted).toBe(true)
})

test('a return whose answer is lost is not sent again: another consumer may have the message', async () => {
  let isSilent = false
  const between = await UnreliableNetwork.to(nats.address, (bytes) => (isSilent ? Buffer.alloc(0) : bytes))
  onTestFinished(() => between.close())
  const stream = await nats.stream()
  const opened = await open(stream, 60_000, urlAt(between.address))
  await nats.send(`${stream}.a`, ['a'])
  const delivery = await receive(opened)
  isSilent = true
  const returning = delivery.retry(RETRY)
  const other = await open(stream, 60_000)
  const next = await receive(other)
  expect(next.deliveries).toBe(2)
  between.cut()
  isSilent = false
  await returning
  expect(await other.receive(1, { signal: AbortSignal.timeout(300) })).toEqual([])
  expect([delivery.lost.aborted, next.lost.aborted]).toEqual([true, false])
})

test('an acceptance that is not sent because the connection is broken is sent by the next one', async () => {
  const stream = await nats.stream()
  const between = await nats.network()
  const opened = await open(stream, 60_000, urlAt(between.address))
  await nats.send(`${stream}.a`, ['a', 'b'])
  const [a, b] = [await receive(opened), await receive(opened)]
  const receiving = receive(opened)
  await between.down()
  await expect(receiving).rejects.toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
  const settling = Promise.all([a.accept(), b.retry({ ...RETRY, delayMs: 3_600_000 })])
  await pause(300)
  await between.up()
  await settling
  expect([a.lost.aborted, b.lost.aborted]).toEqual([false, false])
})

test('a process that was stopped for longer than ack_wait does not handle what was delivered to it meanwhile', async () => {
  const stream = await nats.stream()
  const ackWaitMs = 1000
  const child = fork(path.join(import.meta.dirname, 'programs', 'receiver.mjs'), [], {
    env: {
      ...process.env,
      ...{ BROKER_URL: nats.url, STREAM: stream, CONSUMER, ACK_WAIT_MS: String(ackWaitMs) },
    },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const reports: unknown[] = []
  child.on('message', (report) => void reports.push(report))
  const reported = (count: number): Promise<void> =>
    until(
      async () => reports.length >= count,
      () => `the process reports: ${JSON.stringify(reports)}`,
    )
  await until(
    async () => {
      const info = await nats.manager.consumers.info(stream, CONSUMER).catch(() => undefined)
      return info?.num_waiting === 1
    },
    () => 'the process asks for messages',
  )
  child.kill('SIGSTOP')
  await nats.send(`${stream}.a`, ['a'])
  await until(
    async () => (await nats.manager.consumers.info(stream, CONSUMER)).delivered.consumer_seq === 1,
    () => 'the message is delivered to the process',
  )
  const taken = await receive(await open(stream, ackWaitMs))
  expect(taken).toMatchObject({ message: { id: 'a' }, deliveries: 2 })
  const renewal = setInterval(() => void taken.extend!(ackWaitMs), ackWaitMs / 5)
  onTestFinished(() => clearInterval(renewal))
  child.kill('SIGCONT')
  await reported(1)
  expect(reports).toEqual([{ lost: 'a' }])
  await nats.send(`${stream}.a`, ['b'])
  await reported(2)
  expect(reports).toEqual([{ lost: 'a' }, { received: 'b' }])
  expect(taken.lost.aborted).toBe(false)
})
