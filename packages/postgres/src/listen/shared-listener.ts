/* Only PostgreSQL can wake those who wait for messages, with NOTIFY. */
import type { Sleeper, WakeUps } from '@txbox/core/ports'
import { NotificationListener, type ListenerSettings } from './notification-listener.ts'

/** A sleeper, with the notifications that wake it. */
interface Waiting {
  readonly channel: string
  /** @default any */
  readonly payload: string | undefined
  readonly sleeper: Sleeper
}

/** The one connection on which all local consumers and queues of a database object listen. It is open while there are sleepers. */
export class SharedListener {
  readonly #settings: Omit<ListenerSettings, 'channels'>
  readonly #waiting = new Set<Waiting>()
  #listener: NotificationListener | undefined

  constructor(settings: Omit<ListenerSettings, 'channels'>) {
    this.#settings = settings
  }

  listen(waiting: Waiting): WakeUps {
    this.#waiting.add(waiting)
    if (this.#listener === undefined) this.#listener = this.#open()
    else this.#listener.added()
    return { close: () => this.#remove(waiting) }
  }

  #open(): NotificationListener {
    return new NotificationListener(
      { ...this.#settings, channels: () => [...new Set([...this.#waiting].map(({ channel }) => channel))] },
      {
        woken: (channel, payload) => this.#woken(channel, payload),
        failed: (error) => {
          for (const { sleeper } of this.#waiting) sleeper.failed(error)
        },
      },
    )
  }

  #woken(channel: unknown, payload: unknown): void {
    for (const { sleeper, ...wanted } of this.#waiting) {
      const isForAll = channel === undefined
      const isWanted =
        channel === wanted.channel && (wanted.payload === undefined || payload === wanted.payload)
      if (isForAll || isWanted) sleeper.woken(isWanted)
    }
  }

  #remove(waiting: Waiting): void {
    this.#waiting.delete(waiting)
    if (this.#waiting.size > 0) return
    this.#listener?.close()
    this.#listener = undefined
  }
}
