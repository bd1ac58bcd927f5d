import { connect, type Socket } from 'node:net'

const END_OF_HEADERS = '\r\n\r\n'

/** The parts of a response that the benchmark checks. */
export interface HttpAnswer {
  readonly status: number
  readonly isReplayed: boolean
}

/**
 * Posts one JSON body over connections that stay open. A client by hand: `fetch` would take more CPU time in this process than
 * the server that is measured.
 */
export class HttpClient {
  readonly #port: number
  readonly #body: string
  readonly #idle: Socket[] = []
  readonly #all: Socket[] = []

  constructor(port: number, body: string) {
    this.#port = port
    this.#body = body
  }

  async post(key: string): Promise<HttpAnswer> {
    const socket = this.#idle.pop() ?? (await this.#connect())
    const answered = answerOn(socket)
    socket.write(
      `POST /orders HTTP/1.1\r\nhost: 127.0.0.1\r\nidempotency-key: ${key}\r\ncontent-type: application/json\r\n` +
        `content-length: ${Buffer.byteLength(this.#body)}${END_OF_HEADERS}${this.#body}`,
    )
    const answer = await answered
    this.#idle.push(socket)
    return answer
  }

  close(): void {
    for (const socket of this.#all) socket.destroy()
  }

  #connect(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port: this.#port, noDelay: true })
      this.#all.push(socket)
      socket.once('error', reject)
      socket.once('connect', () => resolve(socket.setEncoding('latin1').removeListener('error', reject)))
    })
  }
}

function answerOn(socket: Socket): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    let received = ''
    const onData = (chunk: string): void => {
      received += chunk
      const end = received.indexOf(END_OF_HEADERS)
      if (end < 0) return
      const head = received.slice(0, end).toLowerCase()
      const length = /\r\ncontent-length: (\d+)/.exec(head)?.[1]
      if (length === undefined) return done(new Error(`A response without a length: ${head}`))
      if (received.length < end + END_OF_HEADERS.length + Number(length)) return
      done({ status: Number(head.slice(9, 12)), isReplayed: head.includes('\r\nidempotent-replayed: true') })
    }
    const onEnd = (): void => done(new Error('The server closed a connection that waits for a response.'))
    const done = (result: HttpAnswer | Error): void => {
      socket.off('data', onData).off('error', done).off('close', onEnd)
      if (result instanceof Error) reject(result)
      else resolve(result)
    }
    socket.on('data', onData).on('error', done).on('close', onEnd)
  })
}
