import { expect, onTestFinished, test } from 'vitest'
import type { Sleeper } from '@txbox/core/ports'
import type { ListeningConnection, ListeningEvents } from '@txbox/sql/transactions'
import { SharedListener } from '../../packages/postgres/src/listen/shared-listener.ts'
import { until } from '../support/worlds/until.ts'

/** A server that answers LISTEN when the test lets it, and notifies of the channels that are listened on. */
class Server {
  readonly listening = new Set<string>()
  readonly connections: ListeningEvents[] = []
  /** Called before LISTEN is answered. */
  beforeAnswer: (channel: string) => Promise<void> = async () => undefined

  readonly connect = async (on: ListeningEvents): Promise<ListeningConnection> => {
    this.connections.push(on)
    return {
      query: async (text) => {
        const [, channel] = /^listen "(.*)"$/.exec(text) ?? []
        if (channel === undefined) return { rows: [{ listening: 'true' }] }
        await this.beforeAnswer(channel)
        this.listening.add(channel)
        return { rows: [] }
      },
      close: () => this.listening.clear(),
    }
  }

  notify(channel: string): void {
    if (this.listening.has(channel)) this.connections.at(-1)!.notified('', channel)
  }
}

class CountingSleeper implements Sleeper {
  /** Whether a transaction has notified, each time. */
  readonly wakes: boolean[] = []
  readonly failures: unknown[] = []
  readonly woken = (isNotified = false): void => void this.wakes.push(isNotified)
  readonly failed = (error: unknown): void => void this.failures.push(error)
}

test('U1 a channel that is added while LISTEN for another one runs is listened on, too', async () => {
  const server = new Server()
  const answers: (() => void)[] = []
  server.beforeAnswer = () => new Promise((resolve) => answers.push(resolve))
  const shared = new SharedListener({
    connect: server.connect,
    checkIntervalMs: 60_000,
    avoidsPoolers: false,
  })
  const [first, second] = [new CountingSleeper(), new CountingSleeper()]
  const one = shared.listen({ channel: 'one', payload: undefined, sleeper: first })
  onTestFinished(() => one.close())
  await until(
    async () => answers.length === 1,
    () => 'LISTEN for the first channel',
  )
  const two = shared.listen({ channel: 'two', payload: undefined, sleeper: second })
  onTestFinished(() => two.close())
  server.beforeAnswer = async () => undefined
  for (const answer of answers) answer()
  await until(
    async () => server.listening.size === 2,
    () => `LISTEN for both channels; there is ${[...server.listening].join()}`,
    2000,
  )
  const before = first.wakes.length
  server.notify('two')
  // Before, there was only the news that the connection listens.
  expect(second.wakes.indexOf(true)).toBe(second.wakes.length - 1)
  expect([first.wakes.length, first.wakes.includes(true)]).toEqual([before, false])
  expect([first.failures, second.failures, server.connections.length]).toEqual([[], [], 1])
})
