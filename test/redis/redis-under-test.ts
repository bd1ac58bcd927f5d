import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest'
import type { RedisClient } from '@txbox/redis'
import { freePort } from '../support/engines/servers/free-port.ts'
import { KeptProcess } from '../support/engines/servers/kept-process.ts'

const CLIENTS = ['ioredis', 'node-redis'] as const
export type ClientLibrary = (typeof CLIENTS)[number]

/** Both clients; in the quick tier only the main client of the file, which differs from file to file. */
export function clientsOfTier(main: ClientLibrary): readonly ClientLibrary[] {
  return inject('tier') === 'all' ? CLIENTS : [main]
}

interface Address {
  readonly host: string
  readonly port: number
}

/** A Redis of this file's own, which a test may empty, configure and stop. */
export class RedisUnderTest {
  /** Arguments of the program that come after, and override, the usual ones. */
  readonly #options: readonly string[]
  #port = 0
  #busPort = 0
  #folder = ''
  #process: KeptProcess | undefined
  #direct: Redis | undefined

  constructor(options: readonly string[] = []) {
    this.#options = options
  }

  get address(): Address {
    return { host: '127.0.0.1', port: this.#port }
  }

  /** The port on which the servers of a cluster talk to each other. */
  get busPort(): number {
    return this.#busPort
  }

  async start(): Promise<void> {
    this.#port = await freePort()
    this.#busPort = await freePort()
    this.#folder = await mkdtemp(path.join(os.tmpdir(), 'txbox-redis-'))
    this.#direct = new Redis({
      ...this.address,
      retryStrategy: () => 20,
      maxRetriesPerRequest: null,
      lazyConnect: true,
    })
    this.#direct.on('error', () => undefined)
    await this.#run()
  }

  /** Kills the server, and starts it again on its data. */
  async restart(): Promise<void> {
    await this.#process?.stop()
    await this.#run()
  }

  /** Kills the server until it is restarted. */
  async kill(): Promise<void> {
    await this.#process?.stop()
  }

  /** Stops the program without an end, or lets it go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    process.kill(this.#process!.pid, signal)
  }

  async #run(): Promise<void> {
    this.#process = await KeptProcess.start({
      command: [
        ...[inject('servers')['redis-program'] ?? 'redis-server', '--port', String(this.#port)],
        ...['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', this.#folder],
        // The usual one, 10,000 above the other port, may be taken by an outgoing connection.
        ...['--cluster-port', String(this.#busPort)],
        ...this.#options,
      ],
      folder: this.#folder,
      log: path.join(this.#folder, 'log'),
      endSignal: 'SIGKILL',
    })
    // The command waits for the first attempt to connect that succeeds.
    const answered = this.#direct!.ping().then(() => true)
    if (await Promise.race([answered, sleep(10_000)])) return
    throw new Error(`Redis did not answer within 10 s: ${this.#process.lastWords}`)
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

  /** As `ask`, with the bytes of all texts in the answer. */
  async askBytes(command: string, ...args: string[]): Promise<unknown> {
    return this.#direct?.callBuffer(command, ...args)
  }

  async keys(): Promise<string[]> {
    return (await this.ask('KEYS', '*')) as string[]
  }

  /** A connected client, which is closed after the test. */
  async client(library: ClientLibrary, { host, port }: Address = this.address): Promise<RedisClient> {
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
export function useRedis(options: readonly string[] = []): RedisUnderTest {
  const redis = new RedisUnderTest(options)
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
