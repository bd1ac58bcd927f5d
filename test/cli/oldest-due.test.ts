import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { until } from '../support/worlds/until.ts'
import { ended, startTxbox } from './run-txbox.ts'
import { parked, useShop } from './use-shop.ts'

const shop = useShop()

interface Found {
  readonly check: string
  readonly verdict: string
  readonly found: string
  readonly advice?: string
}

async function doctor(...args: string[]): Promise<{ code: number | null; of: (check: string) => Found }> {
  const { code, stdout } = await shop.run('doctor', '--json', ...args)
  const { findings } = JSON.parse(stdout) as { findings: readonly Found[] }
  return { code, of: (check) => findings.find((one) => one.check === check)! }
}

/** A message that was refused, and that waits for its next attempt without a count. */
function refused(id: string, minutesAgo: number, key = id): string {
  return parked(id, {
    created_at: `now() - interval '${minutesAgo} minutes'`,
    due_at: "now() + interval '30 seconds'",
    key: `'${key}'`,
    order_key: `'${key}'`,
    attempts: '1',
  })
}

beforeEach(async () => {
  await shop.sql('delete from txbox.parked; delete from txbox.queue; delete from txbox.outbox')
})

test('N1 with everything parked and no relay, doctor finds problems and exits with 1, and status names the oldest message', async () => {
  await shop.sql(refused('m1', 12))
  await shop.sql(refused('m2', 3))
  const { code, of } = await doctor()
  expect(code).toBe(1)
  expect(of('oldest due')).toMatchObject({
    verdict: 'problem',
    found: expect.stringMatching(/^message m1 for topic 'orders', parked, due for 12 min/),
    advice: expect.stringMatching(/dead-letters list --parked/),
  })
  expect(of('relay')).toMatchObject({
    verdict: 'problem',
    found: expect.stringMatching(
      /^no relay is running; 2 messages are parked and due, the oldest for 12 min/,
    ),
  })
  const { stdout } = await shop.run('status')
  expect(stdout).toMatch(/^oldest due +message m1 for topic 'orders', parked, due for 12 min/m)
  const figures = JSON.parse((await shop.run('status', '--json')).stdout) as { oldestDue: { ageMs: number } }
  expect(figures.oldestDue).toMatchObject({ in: 'parked', id: 'm1', topic: 'orders' })
  expect(figures.oldestDue.ageMs).toBeGreaterThan(12 * 60_000)
})

test('N1 a scheduled message whose time has come, without a relay, is a problem; one for later is not', async () => {
  const at = (instant: string): Record<string, string> => ({ deliver_at: instant, due_at: instant })
  await shop.sql(parked('later', at("now() + interval '1 hour'")))
  const fine = await doctor()
  expect(fine.of('oldest due')).toMatchObject({ verdict: 'ok', found: 'no message is due' })
  expect(fine.of('relay')).toMatchObject({
    verdict: 'note',
    found: 'no relay is running, and there is nothing to publish now; 1 message scheduled for later',
  })
  await shop.sql(
    parked('now', { ...at("now() - interval '1 minute'"), created_at: "now() - interval '1 day'" }),
  )
  const late = await doctor()
  expect(late.of('relay')).toMatchObject({ verdict: 'problem' })
  expect(late.of('oldest due').found).toMatch(/^message now for topic 'orders', scheduled, due for 1 min/)
})

test('N1 --oldest-due sets the age from which the oldest due message of outbox and queues is a problem', async () => {
  await shop.sql(
    `insert into txbox.leases (name, owner, expires_at) values ('outbox/00', 'r', now() + interval '1 hour')`,
  )
  onTestFinished(async () => void (await shop.sql('delete from txbox.leases')))
  const old = {
    topic: "'work'",
    created_at: "now() - interval '11 minutes'",
    due_at: "now() + interval '9 seconds'",
  }
  await shop.sql(parked('q1', old, 'queue'))
  const usual = await doctor()
  expect(usual.code).toBe(1)
  expect(usual.of('oldest due').found).toMatch(/^message q1 in queue 'work', due for 11 min/)
  const longer = await doctor('--oldest-due', '15')
  expect([longer.code, longer.of('oldest due').verdict]).toEqual([0, 'ok'])
  const shorter = await doctor('--oldest-due', '0.5')
  expect(shorter.of('oldest due').verdict).toBe('problem')
  for (const wrong of ['-1', 'soon', '']) {
    const { code, stderr } = await shop.run('doctor', '--oldest-due', wrong)
    expect([code, stderr]).toEqual([2, expect.stringMatching(/Expected minutes, from 0 to 525600/)])
  }
})

test('status shows ten of the blocked keys with their total, and doctor three', async () => {
  for (let n = 0; n < 12; n++) await shop.sql(refused(`m${n}`, 1))
  const { stdout } = await shop.run('status')
  expect(stdout).toMatch(/^10 of 12 blocked keys: those with the most waiting messages\.$/m)
  expect(JSON.parse((await shop.run('status', '--json')).stdout)).toMatchObject({
    blockedKeys: { count: 12, atLeast: false },
  })
  expect((await doctor()).of('keys').found).toMatch(/ and 9 more$/)
  await shop.sql("delete from txbox.parked where id in ('m0', 'm1')")
  expect((await shop.run('status')).stdout).not.toMatch(/of 10 blocked/)
})

test('N1 the line of the relay counts parked messages: nine that are parked do not look like none that wait', async () => {
  for (let n = 0; n < 9; n++) await shop.sql(refused(`m${n}`, 5))
  const child = startTxbox([
    ...['relay', '--publisher', 'amqp://127.0.0.1:1', '--database', shop.url, '--log-interval-ms', '200'],
  ])
  onTestFinished(() => void child.kill('SIGKILL'))
  const end = ended(child)
  let stderr = ''
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  await until(
    async () => / published in /.test(stderr),
    () => stderr,
  )
  expect(stderr).toMatch(/0 messages published in 200 ms; 9 messages are parked, the oldest for 5 min/)
  child.kill('SIGTERM')
  await end
})
