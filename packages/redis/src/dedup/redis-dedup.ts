import { randomUUID } from 'node:crypto'
import { DedupStoreUnavailableError, LIMITS, type DedupResult, type DedupStore } from '@txbox/core'
import {
  DEDUP_RETRY_MS,
  OptionChecker,
  checkDedupResult,
  dedupSettings,
  dedupTimes,
  dedupTokenOf,
  reasonOf,
  within,
  type DedupSettings,
} from '@txbox/core/internal'
import { claimKey } from './claim-key.ts'
import type { Script } from '../connection/script.ts'
import { BEGIN, COMPLETE, KEEP } from './dedup-scripts.ts'
import { redisCommandsOf, type RedisClient, type RedisCommands } from './script-commands.ts'

/** Clients without a connection delay commands for longer than this. */
const ANSWER_MS = 5000
const PREFIX_CHARACTERS = 100

export interface RedisDedupOptions {
  /** A client of ioredis or node-redis. The store neither connects nor closes the client. */
  client: RedisClient
  /** The beginning of all keys, 1 to 100 characters. @default 'txbox:' */
  prefix?: string | undefined
  /** How long a mark is kept if the caller passes no time, 1 s to 100 years. @default 1 day */
  retentionMs?: number | undefined
  /**
   * How long a delivery excludes other deliveries of the message if the caller passes no time, 1 s to 1 h. A consumer passes
   * its own time, and extends the lease while the handler runs.
   *
   * @default 30_000
   */
  leaseMs?: number | undefined
  /**
   * The reaction of a consumer while Redis cannot be reached. `'fail'`: the consumer emits `unavailable`, tries the messages again
   * later, and counts no attempt. `'process'`, only with an inbox: the handler runs, and only the inbox recognizes
   * duplicates.
   *
   * @default 'fail'
   */
  onUnavailable?: 'fail' | 'process' | undefined
}

/** A dedup store in Redis. The times that its methods take have defaults. */
export interface RedisDedup extends DedupStore {
  readonly onUnavailable: 'fail' | 'process'
  begin(claim: {
    readonly consumer: string
    readonly key: string
    readonly leaseMs?: number | undefined
  }): Promise<DedupResult>
  complete(
    token: string,
    how?: { readonly retentionMs?: number | undefined; readonly result?: string | undefined },
  ): Promise<'completed' | 'stale'>
  extend(token: string, leaseMs?: number): Promise<'extended' | 'stale'>
  warning(): Promise<string | undefined>
}

/**
 * Creates a dedup store in Redis 5 or later, on one server or a cluster. The store remembers which messages were handled:
 * `begin` before the handler, `complete` after it. All times are measured by the server, and all keys expire.
 *
 * The store is as reliable as the Redis server. After a failover, a restart without an append-only file, FLUSHALL or an
 * eviction, marks are missing, and their messages are handled again. Set `maxmemory-policy` to `noeviction`; a consumer that
 * starts logs a warning if the server has another policy. If a second effect is not acceptable, use an inbox, with or
 * without this store in front of it.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function redisDedup(options: RedisDedupOptions): RedisDedup {
  const check = new OptionChecker('redisDedup', options).known(
    'client',
    'prefix',
    'retentionMs',
    'leaseMs',
    'onUnavailable',
  )
  const commands = redisCommandsOf(options.client)
  if (commands === undefined) throw check.wrong('client', 'a client of ioredis or node-redis')
  return new RedisDedupStore(commands, {
    prefix: check.text('prefix', { max: PREFIX_CHARACTERS, default: 'txbox:' }),
    ...dedupSettings(check),
  })
}

type Settings = DedupSettings & { readonly prefix: string }

class RedisDedupStore implements RedisDedup {
  readonly onUnavailable: 'fail' | 'process'
  readonly #commands: RedisCommands
  readonly #settings: Settings

  constructor(commands: RedisCommands, settings: Settings) {
    this.onUnavailable = settings.onUnavailable
    this.#commands = commands
    this.#settings = settings
  }

  async begin(claim: {
    readonly consumer: string
    readonly key: string
    readonly leaseMs?: number | undefined
  }): Promise<DedupResult> {
    const check = new OptionChecker('redisDedup, begin', claim).known('consumer', 'key', 'leaseMs')
    const consumer = check.text('consumer', { max: LIMITS.consumerCharacters })
    const leaseMs = this.#leaseMs(check)
    const key = claimKey(this.#settings.prefix, consumer, claim.key)
    const owner = randomUUID()
    const running = this.#commands.run(BEGIN, key, [owner, leaseMs])
    const answer = await this.#answer(running).catch((error: unknown) => {
      this.#giveUp(running, key, owner)
      throw error
    })
    const [status, text = ''] = Array.isArray(answer) ? answer.map(textOf) : []
    if (status === 'won') return { status, token: owner + key }
    if (status === 'in-flight')
      return { status, retryAfterMs: Math.min(Math.max(0, Number(text) || 0), DEDUP_RETRY_MS) }
    const mark = /^d:[^:]{36}:(\d+):(.*)$/s.exec(text)
    if (mark === null) {
      throw new DedupStoreUnavailableError(
        'begin: a key in Redis holds a value of another program. Set the option prefix of redisDedup to a prefix of its own.',
      )
    }
    const firstProcessedAt = new Date(Number(mark[1]))
    return { status: 'done', firstProcessedAt, ...(mark[2] === '' ? {} : { result: mark[2]! }) }
  }

  async complete(
    token: string,
    how: { readonly retentionMs?: number | undefined; readonly result?: string | undefined } = {},
  ): Promise<'completed' | 'stale'> {
    const check = new OptionChecker('complete', how).known('retentionMs', 'result')
    const { owner, claim: key } = dedupTokenOf('complete', token)
    checkDedupResult(how.result)
    const { retentionMs } = dedupTimes(check, this.#settings)
    const answer = await this.#run(COMPLETE, key, [owner, whole(retentionMs), how.result ?? ''])
    return textOf(answer) === 'completed' ? 'completed' : 'stale'
  }

  async release(token: string): Promise<'released' | 'stale'> {
    const { owner, claim: key } = dedupTokenOf('release', token)
    return textOf(await this.#run(KEEP, key, [owner, '0'])) === 'kept' ? 'released' : 'stale'
  }

  async extend(token: string, leaseMs?: number): Promise<'extended' | 'stale'> {
    const { owner, claim: key } = dedupTokenOf('extend', token)
    const lease = this.#leaseMs(new OptionChecker('extend', { leaseMs }))
    return textOf(await this.#run(KEEP, key, [owner, lease])) === 'kept' ? 'extended' : 'stale'
  }

  async warning(): Promise<string | undefined> {
    const policy = (await this.#policies()).find((one) => one !== 'noeviction')
    return policy === undefined
      ? undefined
      : `Redis has the maxmemory-policy ${policy}: it may evict marks, and their messages would be handled again. Set noeviction.`
  }

  /**
   * Returns no policies if CONFIG fails: many servers refuse the command, and the first `begin` reports a server that cannot
   * be reached.
   */
  async #policies(): Promise<readonly string[]> {
    const name = 'maxmemory-policy'
    try {
      const answers = await within(this.#commands.config(name), ANSWER_MS, silent)
      return answers.flatMap((answer) => policyIn(answer, name) ?? [])
    } catch {
      return []
    }
  }

  #leaseMs(check: OptionChecker): string {
    return whole(dedupTimes(check, this.#settings).leaseMs)
  }

  /**
   * Releases the key of a `begin` that was not answered: the command may still win later, and the message would then not be
   * handled until the lease has expired.
   */
  #giveUp(running: Promise<unknown>, key: string, owner: string): void {
    const release = (): Promise<unknown> => this.#commands.run(KEEP, key, [owner, '0'])
    // If the release fails too, the lease expires.
    running.then(release, release).catch(() => undefined)
  }

  #run(script: Script, key: string, args: readonly string[]): Promise<unknown> {
    return this.#answer(this.#commands.run(script, key, args))
  }

  /** @throws {DedupStoreUnavailableError} for every failure, because a refusal of Redis is never caused by one message. */
  async #answer(running: Promise<unknown>): Promise<unknown> {
    try {
      return await within(running, ANSWER_MS, silent)
    } catch (error) {
      // The error of a client holds the arguments of its command, so it does not become a cause.
      throw new DedupStoreUnavailableError(`Redis did not run the command: ${reasonOf(error)}`)
    }
  }
}

function silent(ms: number): never {
  throw new Error(`Redis has not answered within ${ms} ms.`)
}

/** Any value other than text or its bytes did not come from the scripts, and counts as no answer. */
function textOf(answer: unknown): string {
  if (typeof answer === 'string') return answer
  return Buffer.isBuffer(answer) ? answer.toString() : ''
}

/** ioredis answers with a list, node-redis with an object or a map. */
function policyIn(answer: unknown, name: string): string | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined
  const value: unknown = Array.isArray(answer)
    ? answer[answer.indexOf(name) + 1]
    : answer instanceof Map
      ? answer.get(name)
      : Reflect.get(answer, name)
  return typeof value === 'string' ? value : undefined
}

/** Redis takes whole milliseconds. */
function whole(ms: number): string {
  return String(Math.ceil(ms))
}
