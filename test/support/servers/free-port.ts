import { createServer } from 'node:net'
import { randomInt } from 'node:crypto'

/** On every usual system, outgoing connections get ports above this range. */
const FIRST = 20_000
const LAST = 29_999

const given = new Set<number>()

/**
 * A port on which no process listens, and that no outgoing connection takes while its server is down for a moment. Each
 * call in this process returns another port.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const port = randomInt(FIRST, LAST + 1)
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
  throw new Error(`No port from ${FIRST} to ${LAST} is free on 127.0.0.1.`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer().once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
