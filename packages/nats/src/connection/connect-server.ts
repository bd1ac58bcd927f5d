import { readFile } from 'node:fs/promises'
import { BrokerUnavailableError } from '@txbox/core'
import { unlessAborted, within } from '@txbox/core/internal'
import {
  connect,
  credsAuthenticator,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node'
import { AttemptedSockets } from './attempted-sockets.ts'
import { reasonIn } from './client-errors.ts'
import type { ConnectionSettings } from './connection-options.ts'
import type { Login } from './server-addresses.ts'

/** The number of servers that a connection attempt can try before its time is over. */
const TRIED_SERVERS = 3

/** A server that does not answer so many pings is taken for dead. */
const UNANSWERED_PINGS = 2

/** A dead server is noticed within so many intervals of pings. */
export const INTERVALS_UNTIL_DEAD = UNANSWERED_PINGS + 1

/**
 * Connects to one of the servers and logs in. The connection never reconnects by itself: the client would send again what was in flight.
 *
 * @param how `name` is the name of the connection in the server's monitoring. Aborting `lifetime` ends the attempt at once.
 * @throws {BrokerUnavailableError} when no server can be used within `connectTimeoutMs`.
 */
export async function connectServer(
  settings: ConnectionSettings,
  how: { readonly name: string; readonly pingIntervalMs: number; readonly lifetime: AbortSignal },
): Promise<NatsConnection> {
  const sockets = new AttemptedSockets()
  let connecting: Promise<NatsConnection> | undefined
  const attempt = async (): Promise<NatsConnection> => {
    const options = await clientOptions(settings, how)
    how.lifetime.throwIfAborted()
    connecting = sockets.during(() => connect(options))
    return connecting
  }
  try {
    const made = unlessAborted(attempt(), how.lifetime)
    const connection = await within(made, settings.connectTimeoutMs, unanswered)
    sockets.keep()
    return connection
  } catch (error) {
    sockets.destroy()
    // The client goes on with its attempt.
    connecting?.then(
      (late) => void late.close(),
      () => undefined,
    )
    if (how.lifetime.aborted) throw how.lifetime.reason
    throw cannotConnect(settings, error)
  }
}

export function cannotConnect(settings: ConnectionSettings, error: unknown): BrokerUnavailableError {
  if (error instanceof BrokerUnavailableError) return error
  return new BrokerUnavailableError(
    `Cannot connect to NATS at ${settings.servers.name}: ${reasonIn(error, settings)}. Check that it runs there, and the option ` +
      "'servers' and the login.",
    { cause: error },
  )
}

export function unanswered(ms: number): never {
  throw new Error(`it did not answer within ${ms} ms`)
}

async function clientOptions(
  settings: ConnectionSettings,
  { name, pingIntervalMs }: { readonly name: string; readonly pingIntervalMs: number },
): Promise<NodeConnectionOptions> {
  const { servers, tls, login, inboxPrefix, connectTimeoutMs } = settings
  const tried = Math.min(servers.addresses.length, TRIED_SERVERS)
  return {
    servers: [...servers.addresses],
    name,
    ...(tls === undefined ? {} : { tls: tls as NonNullable<NodeConnectionOptions['tls']> }),
    ...(await loginOptions(login)),
    inboxPrefix,
    reconnect: false,
    ignoreClusterUpdates: true,
    timeout: Math.ceil(connectTimeoutMs / tried),
    pingInterval: pingIntervalMs,
    maxPingOut: UNANSWERED_PINGS,
    // The stack of each request would cost more than the request.
    noAsyncTraces: true,
  }
}

async function loginOptions(login: Login | undefined): Promise<NodeConnectionOptions> {
  if (login === undefined) return {}
  if ('token' in login) return { token: login.token }
  if ('credentialsFile' in login)
    return { authenticator: credsAuthenticator(await readFile(login.credentialsFile)) }
  const { user, password } = login
  return { user, ...(password === undefined ? {} : { pass: password }) }
}
