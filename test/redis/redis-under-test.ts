import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest'
import type { RedisClient } from '@txbox/redis'
import { freePort } from '../support/servers/free-port.ts'
import { KeptProcess } from '../support/servers/kept-process.ts'
import { until } from '../support/until.ts'

export const CLIENTS = ['ioredis', 'node-redis'] as const

interface Address {
  readonly host: string
  readonly port: number
}

/** A Redis of this file's own, which a test may empty, configure and stop. */
export class RedisUnderTest {
  #port = 0
  #folder = ''
  #process: KeptProcess | undefined
  #direct: Redis | undefined

  get address(): Address {
    return { host: '127.0.0.1', port: this.#port }
  }

  async start(): Promise<void> {
    this.#port = await freePort()
    this.#folder = await mkdtemp(path.join(os.tmpdir(), 'txbox-redis-'))
    this.#process = await KeptProcess.start({
      command: [
        ...[inject('servers')['redis-program'] ?? 'redis-server', '--port', String(this.#port)],
        ...['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', this.#folder],
      ],
      folder: this.#folder,
      log: path.join(this.#folder, 'log'),
      endSignal: 'SIGKILL',
    })
    this.#direct = new Redis({ ...this.address, retryStrategy: () => 20 })
    // The first attempts may come before the server listens.
    this.#direct.on('error', () => undefined)
    await until(
      async () => (await this.#direct?.ping()) === 'PONG',
      () => `Redis answers: ${this.#process?.lastWords ?? ''}`,
      10_000,
    )
  }

  async stop(): Promise<void> {
    this.#direct?.disconnect()
    await this.#process?.stop()
    await rm(this.#folder, { recursive: true, force: true })
  }

  /** Sends a command past the store. */
  async ask(command: string, ...args: string[]): Promise<unknown> {
    return this.#direct?.call(command, ...args)
  }

  async keys(): Promise<string[]> {
    return (await this.ask('KEYS', '*')) as string[]
  }

  /** A connected client, which is closed after the test. */
  async client(
    library: (typeof CLIENTS)[number],
    { host, port }: Address = this.address,
  ): Promise<RedisClient> {
    if (library === 'ioredis') {
      const client = new Redis({ host, port, retryStrategy: () => 20 })
      client.on('error', () => undefined)
      onTestFinished(() => client.disconnect())
      await client.ping()
      return client
    }
    const client = createClient({ socket: { host, port, reconnectStrategy: () => 20 } })
    client.on('error', () => undefined)
    onTestFinished(() => client.destroy())
    await client.connect()
    return client
  }
}

/** Starts a Redis before the tests of a file, and stops it after them. */
export function useRedis(): RedisUnderTest {
  const redis = new RedisUnderTest()
  beforeAll(() => redis.start())
  afterAll(() => redis.stop())
  return redis
}

/** Returns the token of a claim that must be won. */
export function tokenOf(result: { readonly status: string; readonly token?: string }): string {
  if (result.token === undefined) throw new Error(`The claim is ${result.status}, and must be won.`)
  return result.token
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms))
