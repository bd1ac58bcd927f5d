import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

/** A request as it arrived at the endpoint. */
export interface ArrivedRequest {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly payload: Buffer
  /** The port of the client's end of the connection. */
  readonly clientPort: number | undefined
}

/** How the endpoint answers; the connection is destroyed if nothing was answered. */
type Respond = (request: ArrivedRequest, response: ServerResponse) => void

/** A real HTTP server on a loopback address. It keeps the requests that it accepted, and all of them. */
export class WebhookEndpoint {
  readonly port: number
  readonly all: ArrivedRequest[] = []
  #accepted: ArrivedRequest[] = []
  readonly #server: http.Server

  private constructor(server: http.Server) {
    this.#server = server
    this.port = (server.address() as AddressInfo).port
  }

  static async start(respond: Respond, host = '127.0.0.1'): Promise<WebhookEndpoint> {
    const server = http.createServer((request, response) => {
      void buffer(request).then(
        (payload) => {
          const { method = '', url: path = '', headers } = request
          const arrived = {
            id: String(headers['webhook-id']),
            method,
            path,
            headers,
            payload,
            clientPort: request.socket.remotePort,
          }
          endpoint.all.push(arrived)
          respond(arrived, response)
          if (response.statusCode < 300 && method === 'POST' && response.writableEnded)
            endpoint.#accepted.push(arrived)
        },
        () => undefined,
      )
    })
    await new Promise<void>((resolve) => void server.listen(0, host, resolve))
    const endpoint = new WebhookEndpoint(server)
    onTestFinished(() => endpoint.stop())
    return endpoint
  }

  url(path = '/'): string {
    return `http://127.0.0.1:${this.port}${path}`
  }

  /** The requests that were accepted since the last call. */
  arrived(): ArrivedRequest[] {
    const arrived = this.#accepted
    this.#accepted = []
    return arrived
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
