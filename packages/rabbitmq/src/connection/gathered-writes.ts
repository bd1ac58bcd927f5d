import { Writable } from 'node:stream'
import type { ChannelModel } from 'amqplib'

/**
 * Sends the frames of one turn of the event loop together. The client writes each frame separately, with one system call and one
 * packet for each message; while the socket is corked, they become one write. The socket is not part of the client's public
 * interface: if it is not found, everything works, but slower.
 */
export class GatheredWrites {
  readonly #socket: Writable | undefined
  #isCorked = false

  constructor(model: ChannelModel) {
    const socket: unknown = Reflect.get(model.connection, 'stream')
    this.#socket = socket instanceof Writable ? socket : undefined
    // The frames that did not fit into the socket are written after this event. This listener runs before the listener of the
    // client and corks the socket, so that they become one write, too.
    this.#socket?.prependListener('drain', this.gather)
  }

  /** Makes frames that are written from now on go out together. */
  readonly gather = (): void => {
    if (this.#isCorked || this.#socket === undefined) return
    this.#isCorked = true
    this.#socket.cork()
    // The client writes the frames of this turn in the next phase of immediates.
    setImmediate(() =>
      setImmediate(() => {
        this.#isCorked = false
        this.#socket?.uncork()
      }),
    )
  }
}
