import { BrokerUnavailableError } from '@txbox/core'
import { pause, propertyOf, unlessAborted, within } from '@txbox/core/internal'
import { clientLibrary, type OwnedClient } from './client-library.ts'
import { portOf, type ClientKind, type CommandPort } from './command-port.ts'
import type { ConnectSettings } from './connect-options.ts'
import { RedisConnection } from './redis-connection.ts'
import { reasonIn, RedisRefusal, refusalIn } from './redis-refusal.ts'

/** A client of this package, and the function that ends its connection at once. */
interface Owned {
  readonly client: OwnedClient
  readonly kind: ClientKind
  readonly end: () => void
}

/** The method of a client that makes another connection to its server. */
interface Duplicated {
  duplicate(overrides: object): OwnedClient & { disconnect(): void }
}

/** How long to wait for a client of the user's that has no connection. */
const RECONNECT_MS = 50

/**
 * Connects and logs in, or takes the client that the user has passed. Aborting `lifetime` ends the attempt, and later the
 * connection, at once.
 *
 * @param doing what fails when the connection breaks, such as `Publishing to`.
 * @throws {BrokerUnavailableError} when Redis cannot be used within `connectTimeoutMs`.
 */
export async function connectRedis(
  settings: ConnectSettings,
  lifetime: AbortController,
  doing: string,
): Promise<RedisConnection> {
  const broken = (reason: string): BrokerUnavailableError =>
    new BrokerUnavailableError(
      `${doing} ${settings.name} failed: ${reason}. The result of the commands in flight is unknown.`,
    )
  if (settings.client !== undefined && settings.sharesClient) return await throughClient(settings, broken)
  const { client, kind, end } =
    settings.client === undefined ? await createClient(settings) : duplicateOf(settings)
  const connection = new RedisConnection(portOf(client, kind, end), broken, settings.answerTimeoutMs)
  let reason: unknown
  client.on('error', (error) => {
    reason ??= error
    connection.fail(error)
  })
  client.on('close', () => void connection.fail(new Error('the connection broke')))
  lifetime.signal.addEventListener('abort', () => void connection.fail(lifetime.signal.reason), {
    once: true,
  })
  try {
    const connecting = client.connect().then(() => refuseReplica(connection))
    await within(unlessAborted(connecting, lifetime.signal), settings.connectTimeoutMs, unanswered)
    return connection
  } catch (error) {
    // The error with which ioredis rejects does not say why.
    const unavailable = cannotConnect(settings, kind === 'ioredis' ? (reason ?? error) : error)
    connection.drop(unavailable)
    throw lifetime.signal.aborted ? lifetime.signal.reason : unavailable
  }
}

/** The connection of a client of the user's. */
async function throughClient(
  { client, kind, answerTimeoutMs }: Extract<ConnectSettings, { readonly address?: never }>,
  broken: (reason: string) => BrokerUnavailableError,
): Promise<RedisConnection> {
  await reconnected(portOf(client, kind))
  const [on, off] = [propertyOf(client, 'on'), propertyOf(client, 'off')]
  // ioredis never settles the commands that were in flight when its connection broke.
  const listens = kind === 'ioredis' && typeof on === 'function' && typeof off === 'function'
  const closed = (): void => void connection.fail(new Error('the connection of the client broke'))
  const end = (): void => {
    if (listens) Reflect.apply(off, client, ['close', closed])
  }
  const connection = new RedisConnection(portOf(client, kind, end), broken, answerTimeoutMs)
  if (listens) Reflect.apply(on, client, ['close', closed])
  return connection
}

/** Gives a client that has just lost its connection a moment to make another one. */
async function reconnected(port: CommandPort): Promise<void> {
  const answered = port.send(['PING']).then(
    () => undefined,
    (error: unknown) => (refusalIn(error) === undefined ? pause(RECONNECT_MS) : undefined),
  )
  await within(answered, 2 * RECONNECT_MS, () => undefined)
}

/**
 * Checks that Redis answers, and that it takes writes.
 *
 * @throws {BrokerUnavailableError} otherwise; the message says why.
 */
export async function checkRedis(connection: RedisConnection, settings: ConnectSettings): Promise<void> {
  const check = async (): Promise<void> => {
    await connection.send(['PING'])
    await refuseReplica(connection)
  }
  try {
    await within(check(), settings.connectTimeoutMs, unanswered)
  } catch (error) {
    throw connection.failure ?? cannotConnect(settings, error)
  }
}

async function createClient({
  address,
  tls,
  clientName,
  connectTimeoutMs,
}: Extract<ConnectSettings, { readonly client?: never }>): Promise<Owned> {
  const library = await clientLibrary()
  const { host, port, isTls, database, username, password } = address
  const client = library.createClient({
    socket: {
      host,
      port,
      ...(isTls && { tls: true, ...tls }),
      connectTimeout: connectTimeoutMs,
      // The relay, or the consumer, connects again.
      reconnectStrategy: false,
    },
    disableOfflineQueue: true,
    database,
    name: clientName,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    RESP: 2,
    maintNotifications: 'disabled',
    disableClientInfo: true,
  })
  return { client, kind: 'node-redis', end: () => client.destroy() }
}

/** Makes another connection to the server of the user's client. It neither reconnects nor keeps commands. */
function duplicateOf({
  client,
  kind,
  connectTimeoutMs,
}: Extract<ConnectSettings, { readonly address?: never }>): Owned {
  const original = client as unknown as Duplicated
  if (kind === 'ioredis') {
    const ours = original.duplicate({
      lazyConnect: true,
      connectTimeout: connectTimeoutMs,
      retryStrategy: () => null,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
    })
    return { client: ours, kind, end: () => ours.disconnect() }
  }
  const socket = propertyOf(propertyOf(client, 'options'), 'socket')
  const ours = original.duplicate({
    disableOfflineQueue: true,
    socket: { ...(socket as object | undefined), connectTimeout: connectTimeoutMs, reconnectStrategy: false },
  })
  return { client: ours, kind, end: () => ours.destroy() }
}

/** Refuses a replica: an entry that a replica accepts is lost. If the user may not ask for the role, the server is taken for a primary. */
async function refuseReplica(connection: RedisConnection): Promise<void> {
  const answer = await connection.send(['ROLE']).catch((error: unknown) => {
    if (error instanceof RedisRefusal && ['NOPERM', 'ERR'].includes(error.word)) return []
    throw error
  })
  const role = Array.isArray(answer) ? String(answer[0] ?? 'master') : 'master'
  if (role !== 'master') throw new Error(`it is a ${role === 'slave' ? 'replica' : role}, not a primary`)
}

function cannotConnect(settings: ConnectSettings, error: unknown): BrokerUnavailableError {
  if (error instanceof BrokerUnavailableError) return error
  const advice =
    settings.client === undefined
      ? "Check that it runs there, and the user and password of the option 'url'"
      : "Check the server and the login of the option 'client'"
  return new BrokerUnavailableError(`Cannot use ${settings.name}: ${reasonIn(error)}. ${advice}.`)
}

function unanswered(ms: number): never {
  throw new Error(`it did not answer within ${ms} ms`)
}
