import { spawn } from 'node:child_process'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { publishAll } from '../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const broker = useBroker()
const root = useRoot(target, mainKind(target))

interface Running {
  /** Resolves when the process has written this to standard error. */
  says(expected: RegExp): Promise<void>
  said(): string
  stop(): Promise<number | null>
}

function run(program: string, env: Record<string, string>): Running {
  const file = path.join(import.meta.dirname, 'programs', `${program}.mjs`)
  const child = spawn(process.execPath, [file], {
    env: { ...process.env, DATABASE_URL: outbox.url(), ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const end = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)))
  return {
    said: () => stderr,
    says: (expected) =>
      until(
        async () => expected.test(stderr),
        () => `the program says ${String(expected)}; it says ${stderr}`,
        20_000,
      ),
    stop: () => {
      child.kill('SIGTERM')
      return end
    },
  }
}

test('N1 the relay of the README reports that the name of its endpoint does not resolve', async () => {
  const relay = run('readme-relay', { ENDPOINT: 'https://hooks.invalid' })
  await publishAll(root, [{ topic: 'orders', payload: { secret: 'payload' } }])
  await relay.says(/TXBOX_UNHEARD_\w+\] TxboxWarning: .*getaddrinfo (ENOTFOUND|EAI_AGAIN) hooks\.invalid/)
  expect(await relay.stop()).toBe(0)
  expect(relay.said()).not.toContain('payload')
})

test('N1 the relay of the README reports that it may not log in to its database', async () => {
  const url = new URL(outbox.url())
  url.username = 'nobody_there'
  url.password = 'hidden-word'
  const relay = run('readme-relay', { ENDPOINT: 'https://hooks.invalid', DATABASE_URL: url.href })
  await relay.says(/nobody_there/)
  expect(relay.said()).not.toContain('hidden-word')
})

test('N1 N2 a relay without listeners reports that the password of its broker is wrong, without the password', async () => {
  const url = new URL(broker.urlAt(broker.address))
  url.password = 'hidden-word'
  const relay = run('broker-relay', { BROKER_URL: url.href })
  await publishAll(root, [{ topic: 'orders', payload: { secret: 'payload' } }])
  await relay.says(/TXBOX_UNHEARD_UNAVAILABLE\] TxboxWarning: .*(ACCESS[-_]REFUSED|403)/)
  expect(await relay.stop()).toBe(0)
  expect(relay.said()).not.toMatch(/hidden-word|payload/)
})

test('N1 a relay without listeners reports that no queue is bound', async () => {
  const relay = run('broker-relay', { BROKER_URL: broker.urlAt(broker.address) })
  await publishAll(root, [{ topic: 'bound-to-nothing', payload: { secret: 'payload' } }])
  await relay.says(/TXBOX_UNHEARD_PARKED\] TxboxWarning: .*no queue is bound to exchange 'txbox'/)
  expect(await relay.stop()).toBe(0)
  expect(relay.said()).not.toContain('payload')
})
