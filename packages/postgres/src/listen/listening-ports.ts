/* Only PostgreSQL can wake those who wait for messages, with NOTIFY. */
import type { ConnectedPorts, Sleeper, WakeUps } from '@txbox/core/ports'
import { channelOf, localChannelOf, queueChannelOf } from '../connection/identifiers.ts'
import type { ConnectListening } from './connect-listening.ts'
import { NotificationListener } from './notification-listener.ts'
import { SharedListener } from './shared-listener.ts'

interface Listening {
  readonly connect: ConnectListening
  readonly checkIntervalMs: number
  /** Whether the user has given the address to listen at. */
  readonly hasOwnAddress: boolean
}

/** The ports of a database that can listen. `schema` is quoted. */
export function listeningPorts(
  schema: string,
  { connect, checkIntervalMs, hasOwnAddress }: Listening,
): Required<Pick<ConnectedPorts, 'listen' | 'listenToQueue' | 'listenToLocal'>> {
  const settings = { connect, checkIntervalMs }
  const alone = (channel: string, avoidsPoolers: boolean) => ({
    ...settings,
    channels: () => [channel],
    avoidsPoolers: avoidsPoolers && !hasOwnAddress,
  })
  const shared = new SharedListener({ ...settings, avoidsPoolers: !hasOwnAddress })
  return {
    listen: (sleeper, how) =>
      new NotificationListener(alone(channelOf(schema), how?.isDefault === true), {
        woken: (channel) => sleeper.woken(channel !== undefined),
        failed: sleeper.failed,
      }),
    listenToQueue: (payload, sleeper, how) =>
      how?.isDefault === true
        ? shared.listen({ channel: queueChannelOf(schema), payload, sleeper })
        : toQueue(payload, sleeper, alone(queueChannelOf(schema), false)),
    listenToLocal: (sleeper) =>
      shared.listen({ channel: localChannelOf(schema), payload: undefined, sleeper }),
  }
}

/** A connection that listens for one queue only. */
function toQueue(
  queue: string,
  sleeper: Sleeper,
  settings: ConstructorParameters<typeof NotificationListener>[0],
): WakeUps {
  return new NotificationListener(settings, {
    woken: (channel, payload) => {
      if (channel === undefined || payload === queue) sleeper.woken(channel !== undefined)
    },
    failed: sleeper.failed,
  })
}
