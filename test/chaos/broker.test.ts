import { existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import amqp, { type ChannelModel, type ConfirmChannel } from 'amqplib'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { startChaosBroker, type ChaosBroker } from '../../chaos/servers/chaos-broker.ts'
import { until } from '../support/worlds/until.ts'

let folder: string
let broker: ChaosBroker
let connection: ChannelModel
let channel: ConfirmChannel
let returned: string[]
let broken: Promise<unknown>

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-test-servers-'))
  broker = await startChaosBroker({ folder })
}, 120_000)
afterAll(async () => {
  await broker.stop()
  expect(readdirSync(folder)).toEqual([])
  await rm(folder, { recursive: true })
})

beforeEach(async () => {
  returned = []
  await connect(broker.url)
  await channel.assertExchange('orders', 'topic', { durable: true })
  for (const queue of ['a.b', 'aXb']) {
    await channel.assertQueue(queue, { durable: true })
    await channel.purgeQueue(queue)
  }
  await channel.bindQueue('a.b', 'orders', 'order.#')
})
afterEach(async () => {
  await connection.close().catch(() => undefined)
})

async function connect(url: string): Promise<void> {
  connection = await amqp.connect(url, { timeout: 5000 })
  broken = new Promise((resolve) => void connection.once('close', resolve))
  connection.on('error', () => undefined)
  channel = await connection.createConfirmChannel()
  channel.on('return', (message) => void returned.push(message.content.toString()))
}

/** Resolves when the broker has confirmed, and rejects when it refuses. */
async function publish(exchange: string, key: string, text: string): Promise<void> {
  channel.publish(exchange, key, Buffer.from(text), { persistent: true, mandatory: true })
  await channel.waitForConfirms()
}

async function take(queue: string): Promise<string[]> {
  const texts: string[] = []
  for (;;) {
    const message = await channel.get(queue, { noAck: true })
    if (message === false) return texts
    texts.push(message.content.toString())
  }
}

test('confirmed messages survive an immediate restart at the same address', async () => {
  await publish('orders', 'order.1', 'one')
  await broker.restart()
  await broken
  await connect(broker.url)
  expect(await take('a.b')).toEqual(['one'])
}, 120_000)

test('a limited queue, and no other queue, refuses messages until the limit is lifted', async () => {
  await publish('orders', 'order.1', 'before')
  await broker.limitQueue('a.b', true)
  await expect(publish('orders', 'order.1', 'refused')).rejects.toThrow(/nack/)
  await publish('', 'aXb', 'other')
  await broker.limitQueue('a.b', false)
  await publish('orders', 'order.1', 'after')
  expect(await take('a.b')).toEqual(['before', 'after'])
  expect(await take('aXb')).toEqual(['other'])
}, 60_000)

test('a limited queue keeps its messages and its limit after a restart of the broker', async () => {
  await publish('orders', 'order.1', 'before')
  await publish('orders', 'order.1', 'too')
  await broker.limitQueue('a.b', true)
  await broker.restart()
  await broken
  await connect(broker.url)
  await expect(publish('orders', 'order.1', 'refused')).rejects.toThrow(/nack/)
  await broker.limitQueue('a.b', false)
  expect(await take('a.b')).toEqual(['before', 'too'])
}, 120_000)

test('a limited queue with a waiting consumer refuses messages too', async () => {
  const taken: string[] = []
  await channel.consume('a.b', (message) => void taken.push(String(message?.content)), { noAck: true })
  await broker.limitQueue('a.b', true)
  await expect(publish('orders', 'order.1', 'refused')).rejects.toThrow(/nack/)
  await broker.limitQueue('a.b', false)
  await publish('orders', 'order.1', 'after')
  await until(
    async () => taken.length > 0,
    () => 'the message is consumed',
  )
  expect(taken).toEqual(['after'])
}, 60_000)

test('without bindings, messages are returned as unroutable, until the bindings are restored', async () => {
  await channel.assertExchange('by-header', 'headers', { durable: true })
  await channel.bindQueue('aXb', 'by-header', '', { 'x-match': 'all', kind: 'big' })
  await broker.removeBindings(true)
  await broker.removeBindings(true)
  await publish('orders', 'order.1', 'nowhere')
  expect(returned).toEqual(['nowhere'])
  expect(await take('a.b')).toEqual([])
  await broker.removeBindings(false)
  await publish('orders', 'order.1', 'somewhere')
  channel.publish('by-header', '', Buffer.from('big'), { headers: { kind: 'big' } })
  await channel.waitForConfirms()
  expect(await take('a.b')).toEqual(['somewhere'])
  expect(await take('aXb')).toEqual(['big'])
}, 60_000)

test('the proxy is in front of the address for clients, and not in front of the direct address', async () => {
  broker.proxy.halt(true)
  const direct = await amqp.connect(broker.directUrl, { timeout: 5000 })
  await direct.close()
  const stuck = publish('orders', 'order.1', 'held')
  broker.proxy.halt(false)
  await stuck
  broker.proxy.cutAll()
  await broken
})

test('the broker ends, and leaves no files, when the process that started it is killed', async () => {
  const parent = path.join(folder, 'killed')
  const script = `
    const { startChaosBroker } = await import('./chaos/servers/chaos-broker.ts')
    const broker = await startChaosBroker({ folder: ${JSON.stringify(parent)} })
    console.log(broker.directUrl)
    process.kill(process.pid, 'SIGKILL')`
  const node = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', script]
  const url = await new Promise<string>((resolve, reject) => {
    execFile(process.execPath, node, (error, stdout, stderr) => {
      if (error?.signal === 'SIGKILL' && stdout !== '') resolve(stdout.trim())
      else reject(new Error(`It ended by itself: ${stderr}`))
    })
  })
  await until(
    async () => !existsSync(parent),
    () => `${parent} is gone`,
  )
  await expect(amqp.connect(url)).rejects.toThrow(/ECONNREFUSED/)
}, 120_000)
