import { fork, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'
import { useNatsProgram } from './nats-program.ts'

const MESSAGES = 1000
const PROCESSES = 2
/** At so many effects a process is killed, at every second one the server, too. */
const DEATHS = [100, 250, 400, 550, 700, 850]

const server = useNatsProgram()
const target = useTarget()
const outbox = useOutboxTarget(target)

test('C1 C2 consumers that are killed while the server restarts lose nothing and double no effect', async () => {
  const { nats } = server
  const stream = await nats.stream({ storage: 'file' })
  const name = `consumer-${randomUUID()}`
  const env = {
    ...process.env,
    DATABASE_URL: outbox.url(),
    BROKER_URL: server.url,
    STREAM: stream,
    CONSUMER: name,
  }
  const running: ChildProcess[] = []
  const start = (): void => {
    const file = path.join(import.meta.dirname, '..', 'programs', 'consumer.mjs')
    const child = fork(file, [], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    running.push(child)
  }
  const effects = async (): Promise<number> => {
    const [row] = await target.sql('select count(*)::int as n from effects where name like ?', [`${name} %`])
    return Number(row!['n'])
  }
  const reached = (count: number): Promise<void> =>
    until(
      async () => (await effects()) >= count,
      async () => `${count} effects: ${await effects()}`,
      40_000,
    )

  for (let n = 0; n < MESSAGES; n += 1) {
    await nats.send(`${stream}.a`, [`m${n}`], JSON.stringify({ n }), `key ${n % 20}`)
  }
  for (let n = 0; n < PROCESSES; n += 1) start()
  for (const [n, count] of DEATHS.entries()) {
    await reached(count)
    running.shift()!.kill('SIGKILL')
    if (n % 2 === 1) {
      await server.kill()
      await server.start()
    }
    start()
  }
  await reached(MESSAGES)
  await until(
    async () => {
      const { num_pending: unseen, num_ack_pending: unsettled } = await nats.manager.consumers.info(
        stream,
        name,
      )
      return unseen + unsettled === 0
    },
    () => 'all are accepted',
  )
  for (const child of running) {
    const ended = new Promise((resolve) => void child.once('exit', resolve))
    child.send('stop')
    await ended
  }
  const rows = await target.sql(
    'select count(*)::int as effects, count(distinct name)::int as different from effects where name like ?',
    [`${name} %`],
  )
  expect(rows).toEqual([{ effects: MESSAGES, different: MESSAGES }])
})
