import { randomUUID } from 'node:crypto'
import os from 'node:os'
import { InvalidOptionError, type OpenSource, type Source, type SourceTraits } from '@txbox/core'
import { OptionChecker, oneLine, propertyOf } from '@txbox/core/internal'
import type { RedisStreamsClient } from '../connection/command-port.ts'
import { connectSettings, type RedisTlsOptions } from '../connection/connect-options.ts'
import { OpenStream } from './open-stream.ts'
import { NAME_PREFIX, StreamGroup, type GroupSettings } from './stream-group.ts'

const NAME_CHARACTERS = 255
const HOST_CHARACTERS = 100

export interface RedisSourceOptions {
  /**
   * `redis://user:password@host:6379/0`, or `rediss://…` for TLS. The source then connects by node-redis (`redis` or `@redis/client`),
   * which must be installed.
   */
  url?: string | undefined
  /**
   * Instead of `url`: a client of node-redis or ioredis for one server. The source makes two connections of its own by the client's
   * `duplicate`, because a consumer waits at the server. It neither uses nor closes the client itself.
   */
  client?: (RedisStreamsClient & { duplicate(overrides?: object): unknown }) | undefined
  /** Certificates, if the server's is from a private authority, or if the server asks for one. For `rediss://` only. */
  tls?: RedisTlsOptions | undefined
  /** The stream to consume, 1 to 255 characters. */
  stream: string
  /** The group, 1 to 255 characters. Each group receives each entry, and the consumers of a group share the entries. */
  group: string
  /**
   * The name of this consumer in its group, 1 to 255 characters, which no other process may use at the same time.
   *
   * @default the host, the process and a random part; removed from the group when the consumer closes
   */
  consumer?: string | undefined
  /**
   * Where a group that does not exist begins when it is created: at the first entry of the stream, or behind the last. `false`: the
   * group must exist.
   *
   * @default { from: 'earliest' }
   */
  declare?: { from?: 'earliest' | 'latest' | undefined } | false | undefined
  /**
   * After this time without a sign of a consumer, another consumer of the group receives its deliveries, in milliseconds. A consumer
   * gives a sign for each delivery at a third of this time. 1 s to 24 h. All consumers of a group should have the same.
   *
   * @default 60_000
   */
  leaseMs?: number | undefined
  /** The stream of rejected messages, 1 to 255 characters. @default `{<stream>}:<group>:dead` */
  deadLetterStream?: string | undefined
  /**
   * Deletes an entry when it is accepted or rejected, so that the stream does not grow. Only for a stream with one group: other groups
   * would not receive the entry.
   *
   * @default false
   */
  deleteAccepted?: boolean | undefined
  /**
   * How long to wait for an answer of Redis, in milliseconds. 10 ms to an hour.
   *
   * @default 30_000
   */
  confirmTimeoutMs?: number | undefined
  /** How long connecting may take, with login, in milliseconds. 10 ms to an hour. @default 10_000 */
  connectTimeoutMs?: number | undefined
}

/**
 * Receives the entries of a stream of Redis 7, Valkey 7 or later, as one consumer of a group. Entries are converted as by `fromRedis`,
 * except that a message may have no id; the ordering key is the field `key`, as `redisPublisher` writes it.
 *
 * A delivery stays pending until it is accepted. If its consumer gives no sign for `leaseMs`, another consumer of the group receives
 * the message. A message that waits for another attempt, and is not held by the consumer, stays pending; its time is in the sorted
 * set `{<stream>}:<group>:due`. A rejected message is moved to the stream `deadLetterStream`, with the fields `txbox-error`,
 * `txbox-deliveries` and `txbox-source` behind its own.
 *
 * Redis keeps no order of keys: a group with several consumers hands later messages of a key to others. For order, let one consumer of a
 * group run at a time, or divide the keys among streams.
 *
 * The user needs the commands `xreadgroup`, `xgroup`, `xinfo`, `xpending`, `xclaim`, `xautoclaim`, `xack`, `xadd`, `xdel`, `zadd`, `zrem`,
 * `zscore`, `zrangebyscore`, `time`, `eval` and `evalsha`, for the stream and the keys named above.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function redisSource<P = unknown>(options: RedisSourceOptions): Source<P> {
  const check = new OptionChecker('redisSource', options).known(
    ...['url', 'client', 'tls', 'stream', 'group', 'consumer', 'declare', 'leaseMs'],
    ...['deadLetterStream', 'deleteAccepted', 'confirmTimeoutMs', 'connectTimeoutMs'],
  )
  const [stream, group] = [
    check.text('stream', { max: NAME_CHARACTERS }),
    check.text('group', { max: NAME_CHARACTERS }),
  ]
  const connection = connectSettings(check, options, { clientName: 'txbox-consumer', sharesClient: false })
  if (connection.client !== undefined) refuseSharedClient(check, connection.client)
  const deadLetterStream = check.text('deadLetterStream', {
    max: 2 * NAME_CHARACTERS + 10,
    default: StreamGroup.keyBeside(stream, group, 'dead'),
  })
  if (deadLetterStream === stream) throw check.wrong('deadLetterStream', "another stream than 'stream'")
  return new RedisSource<P>(fromOption(check, options.declare), {
    connection,
    stream,
    group,
    consumer: options.consumer === undefined ? '' : check.text('consumer', { max: NAME_CHARACTERS }),
    isOwnName: options.consumer === undefined,
    leaseMs: check.milliseconds('leaseMs', { min: 1000, max: 86_400_000, default: 60_000 }),
    deadLetterStream,
    deletesAccepted: check.flag('deleteAccepted', false),
  })
}

/** @returns the id after which a new group begins. */
function fromOption(check: OptionChecker, declare: RedisSourceOptions['declare']): '0' | '$' | undefined {
  if (declare === false) return undefined
  const from = new OptionChecker(`${check.where}: the option 'declare'`, declare ?? {})
    .known('from')
    .oneOf('from', ['earliest', 'latest'], 'earliest')
  return from === 'latest' ? '$' : '0'
}

function refuseSharedClient(check: OptionChecker, client: RedisStreamsClient): void {
  if (typeof propertyOf(client, 'duplicate') !== 'function') {
    throw check.wrong('client', "a client with 'duplicate', because the source needs connections of its own")
  }
  if (typeof propertyOf(client, 'nodes') === 'function' || Array.isArray(propertyOf(client, 'masters'))) {
    throw new InvalidOptionError(
      `${check.where}: the option 'client' must be the client of one server. Pass a client of the server that has the stream.`,
    )
  }
}

class RedisSource<P> implements Source<P> {
  readonly name: string
  readonly system = 'redis'
  readonly destination: string
  readonly traits: SourceTraits
  readonly #settings: GroupSettings
  /** The id after which a new group begins. */
  #from: '0' | '$' | undefined

  constructor(from: '0' | '$' | undefined, settings: GroupSettings) {
    this.#from = from
    this.#settings = settings
    this.destination = settings.stream
    this.name = `redis ${oneLine(settings.stream)} ${oneLine(settings.group)}`
    this.traits = {
      delays: false,
      countsDeliveries: true,
      keepsRejected: true,
      ordersKeys: false,
      settlesInTransaction: false,
      leaseMs: settings.leaseMs,
    }
  }

  async open({ prefetch, failed, warned }: Parameters<Source<P>['open']>[0]): Promise<OpenSource<P>> {
    const consumer = this.#settings.isOwnName ? ownName() : this.#settings.consumer
    const group = new StreamGroup({ ...this.#settings, consumer })
    try {
      await group.prepare(this.#from)
      // If the group is missing later, it was deleted with its stream: all entries of the stream are new then.
      if (this.#from === '$') this.#from = '0'
      const policy = await group.evicts()
      if (policy !== undefined) {
        warned?.(
          `${this.name}: Redis has the maxmemory-policy ${policy}: it may evict whole streams, with all their messages. Set noeviction.`,
        )
      }
    } catch (error) {
      await group.close()
      throw error
    }
    const { leaseMs } = this.#settings
    return new OpenStream<P>(group, { name: this.name, prefetch, leaseMs, failed, warned })
  }
}

function ownName(): string {
  const host = os
    .hostname()
    .replaceAll(/[^\w.-]/g, '')
    .slice(0, HOST_CHARACTERS)
  return `${NAME_PREFIX}${host}-${process.pid}-${randomUUID().slice(0, 8)}`
}
