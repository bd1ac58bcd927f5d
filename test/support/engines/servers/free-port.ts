import { createServer, type Server } from 'node:net'
import { randomInt } from 'node:crypto'

/** On every usual system, outgoing connections get ports above these ranges. */
const FIRST = 20_000
const COUNT = 6_000

/**
 * A port on which no process listens, and that no outgoing connection takes while its server is down for a moment. No
 * other call returns the port as long as this process lives, in this process or another one: tests run side by side,
 * and a server may start seconds after its port was chosen, or restart. What holds the port for that time is a listener
 * on a port of its own, `COUNT` above.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const port = FIRST + randomInt(COUNT)
    const reservation = await listener(port + COUNT)
    if (reservation === undefined) continue
    const probe = await listener(port)
    if (probe === undefined) {
      reservation.close()
      continue
    }
    await new Promise((resolve) => probe.close(resolve))
    reservation.unref()
    return port
  }
  throw new Error(`No port from ${FIRST} to ${FIRST + COUNT - 1} is free on 127.0.0.1.`)
}

function listener(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}
