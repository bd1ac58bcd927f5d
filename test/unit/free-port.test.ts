import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'

const PORTS_OF_EACH = 400
const MODULE = pathToFileURL('test/support/engines/servers/free-port.ts').href
const SCRIPT = `
  const { freePort } = await import('${MODULE}')
  const ports = []
  for (let n = 0; n < ${PORTS_OF_EACH}; n++) ports.push(await freePort())
  console.log(JSON.stringify(ports))
  process.stdin.resume()`

/** A process that takes ports and lives until its input ends. */
function taker(): { ports: Promise<number[]>; end: () => Promise<unknown> } {
  const node = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', SCRIPT]
  const child = spawn(process.execPath, node, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  const ports = once(createInterface(child.stdout), 'line').then(([line]) => JSON.parse(String(line)))
  return { ports, end: () => (child.stdin.end(), ended) }
}

test('processes that live at the same time never get the same port, and a process that only holds ports ends', async () => {
  const takers = [taker(), taker(), taker()]
  const ports = (await Promise.all(takers.map((one) => one.ports))).flat()
  expect(new Set(ports).size).toBe(3 * PORTS_OF_EACH)
  await Promise.all(takers.map((one) => one.end()))
})
