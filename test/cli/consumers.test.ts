import { beforeEach, describe, expect, test } from 'vitest'
import { parked, useShop } from './use-shop.ts'

const shop = useShop()

/** A row of a local consumer. */
function local(table: 'local_outbox' | 'local_parked', consumer: string, id: string, columns = {}): string {
  const all = { consumer: `'${consumer}'`, topic: 'null', type: "'order.placed'", ...columns }
  return parked(id, all, table)
}

function subscribed(consumer: string, ...types: readonly string[]): string {
  const rows = types.map((type) => `('${type}', '${consumer}')`)
  return `insert into txbox.subscriptions (type, consumer) values ${rows.join(', ')}`
}

function runs(consumer: string): string {
  return `insert into txbox.leases (name, owner, term, expires_at)
    values ('local-member/${consumer}/o', 'o', 1, now() + interval '1 minute')`
}

async function ids(table: string): Promise<readonly string[]> {
  const { rows } = await shop.sql(`select consumer || ' ' || id as name from txbox.${table} order by 1`)
  return rows.map((row: { name: string }) => row.name)
}

async function finding(check: string): Promise<{ verdict: string; found: string } | undefined> {
  const { stdout } = await shop.run('doctor', '--json')
  const { findings } = JSON.parse(stdout) as { findings: { check: string; verdict: string; found: string }[] }
  return findings.find((one) => one.check === check)
}

beforeEach(async () => {
  await shop.sql(
    ['local_outbox', 'local_parked', 'subscriptions', 'removals', 'redrives', 'leases', 'parked']
      .map((name) => `delete from txbox.${name}`)
      .join('; '),
  )
})

describe('consumers list, status and doctor', () => {
  test('without local consumers there is nothing to show', async () => {
    expect((await shop.run('consumers', 'list')).stdout).toBe('There are no local consumers.\n')
    expect((await shop.run('status')).stdout).not.toContain('consumer')
    expect(await finding('consumers')).toBeUndefined()
  })

  test('they show a line for each consumer: whether it runs, its messages and its types', async () => {
    await shop.sql(subscribed('billing', 'order.placed', 'order.paid'))
    await shop.sql(runs('billing'))
    for (const id of ['a', 'b']) await shop.sql(local('local_outbox', 'billing', id))
    const old = { created_at: "now() - interval '5 minutes'", due_at: 'now()' }
    await shop.sql(local('local_parked', 'mailer', 'c', { ...old, unhandled: 'true' }))
    await shop.sql(local('local_parked', 'mailer', 'd', { dead_at: 'now()' }))
    const { code, stdout, stderr } = await shop.run('consumers', 'list')
    expect([code, stderr]).toEqual([0, ''])
    const lines = stdout.trim().split('\n')
    expect(lines[0]).toMatch(/^consumer +runs +waiting +parked +scheduled +dead +oldest due +types$/)
    expect(lines[1]).toMatch(/^billing +yes +2 +0 +0 +0 +\d+ m?s +order\.paid, order\.placed$/)
    expect(lines[2]).toMatch(/^mailer +no +0 +1 +0 +1 +5 min .*no handler for order\.placed$/)
    const status = await shop.run('status')
    // The age of a message differs from one command to the next.
    for (const line of [lines[0]!, 'billing   yes   2 ', 'mailer    no    0 '])
      expect(status.stdout).toContain(line)
    expect(status.stdout).toMatch(/^oldest due +message c for consumer 'mailer', due for 5 min/m)
    expect(status.stdout).toContain('no relay holds a lease')
    expect(JSON.parse((await shop.run('status', '--json')).stdout)).toMatchObject({
      oldestDue: { in: 'local', consumer: 'mailer', id: 'c' },
      localConsumers: [
        {
          name: 'billing',
          runsNow: true,
          waiting: { count: 2, atLeast: false },
          types: ['order.paid', 'order.placed'],
        },
        {
          name: 'mailer',
          runsNow: false,
          parked: { count: 1 },
          dead: { count: 1 },
          unhandled: ['order.placed'],
        },
      ],
    })
    const jsonLines = (await shop.run('consumers', 'list', '--json')).stdout.trim().split('\n')
    expect(jsonLines.map((line) => (JSON.parse(line) as { name: string }).name)).toEqual([
      'billing',
      'mailer',
    ])
  })

  test('doctor reports a consumer that nobody runs, and a type that has no handler', async () => {
    await shop.sql(subscribed('billing', 'order.placed'))
    expect(await finding('consumers')).toMatchObject({
      verdict: 'warning',
      found: "nobody runs consumer 'billing'; no message is due there",
    })
    await shop.sql(local('local_outbox', 'billing', 'a', { created_at: "now() - interval '5 minutes'" }))
    expect(await finding('consumers')).toMatchObject({
      verdict: 'problem',
      found: expect.stringMatching(
        /^nobody runs consumer 'billing' \(1 message waiting, the oldest due for 5 min/,
      ),
    })
    expect((await shop.run('doctor')).code).toBe(1)
    await shop.sql(runs('billing'))
    expect(await finding('consumers')).toMatchObject({ verdict: 'ok', found: '1 local consumer running' })
    expect(await finding('handlers')).toMatchObject({ verdict: 'ok' })
    await shop.sql(local('local_parked', 'billing', 'b', { unhandled: 'true', due_at: 'now()' }))
    expect(await finding('handlers')).toMatchObject({
      verdict: 'warning',
      found: "no handler for type 'order.placed' at consumer 'billing'",
    })
    await shop.sql(local('local_parked', 'mailer', 'd', { dead_at: 'now()' }))
    expect(await finding('dead letters')).toMatchObject({
      verdict: 'warning',
      found: "1 dead letter of consumer 'mailer'",
    })
    // Dead letters alone need no process.
    expect(await finding('consumers')).toMatchObject({ verdict: 'ok' })
  })
})

describe('consumers add', () => {
  test('registers types, once, and refuses names that no consumer can have', async () => {
    expect((await shop.run('consumers', 'add', 'billing', 'order.placed', 'order.paid')).stdout).toBe(
      "Consumer 'billing' now gets order.paid, order.placed.\n",
    )
    expect((await shop.run('consumers', 'add', 'billing', 'order.paid')).stdout).toBe(
      "Consumer 'billing' had all of these subscriptions.\n",
    )
    expect(JSON.parse((await shop.run('consumers', 'add', 'billing', 'x', '--json')).stdout)).toEqual({
      consumer: 'billing',
      added: ['x'],
    })
    for (const args of [['@x', 't'], ['a b', 't'], ['ö', 't'], ['a', ''], ['a']]) {
      const { code, stdout } = await shop.run('consumers', 'add', ...args)
      expect([code, stdout], args.join()).toEqual([2, ''])
    }
  })
})

describe('consumers remove', () => {
  test('is refused while messages wait, and says what to do', async () => {
    await shop.sql(subscribed('billing', 'order.placed', 'order.paid'))
    await shop.sql(local('local_outbox', 'billing', 'a'))
    const { code, stderr } = await shop.run('consumers', 'remove', 'billing')
    expect(code).toBe(1)
    expect(stderr).toBe(
      "txbox: The subscription of consumer 'billing' was not ended: 1 message would be left. Run the consumer until they are handled, " +
        'or pass --discard to delete them.\n',
    )
    const paid = await shop.run('consumers', 'remove', 'billing', 'order.paid')
    expect([paid.code, paid.stdout, paid.stderr]).toEqual([
      0,
      "Ended the subscription of consumer 'billing' to 'order.paid'.\n",
      '',
    ])
    const { rows } = await shop.sql('select consumer, type, discarded::int, removed_by from txbox.removals')
    expect(rows).toEqual([
      { consumer: 'billing', type: 'order.paid', discarded: 0, removed_by: expect.stringContaining('@') },
    ])
  })

  test('with --discard deletes the messages, only after a confirmation', async () => {
    await shop.sql(subscribed('billing', 'order.placed'))
    await shop.sql(runs('billing'))
    await shop.sql(local('local_outbox', 'billing', 'a'))
    await shop.sql(local('local_parked', 'billing', 'b', { dead_at: 'now()' }))
    const asked = await shop.run('consumers', 'remove', 'billing', '--discard')
    expect(asked.code).toBe(2)
    expect(asked.stderr).toContain(
      "Consumer 'billing' has 1 waiting message, 0 parked messages, 0 scheduled messages, 1 dead letter.",
    )
    expect(asked.stderr).toContain('pass --yes')
    expect(await ids('local_outbox')).toEqual(['billing a'])
    const done = await shop.run('consumers', 'remove', 'billing', '--discard', '--yes')
    expect([done.code, done.stdout]).toEqual([
      0,
      "Ended all subscriptions of consumer 'billing'. Deleted 2 messages.\n",
    ])
    expect(done.stderr).toContain('registers the types of its handlers again when it starts')
    expect([...(await ids('local_outbox')), ...(await ids('local_parked'))]).toEqual([])
    const again = await shop.run('consumers', 'remove', 'billing')
    expect([again.code, again.stderr]).toEqual([
      1,
      "txbox: There is no subscription of consumer 'billing', and there are no messages for it. Nothing was changed.\n",
    ])
  })

  test('says when messages are left, and writes JSON for programs', async () => {
    await shop.sql(subscribed('billing', 'order.placed', 'order.paid'))
    await shop.sql(local('local_outbox', 'billing', 'a'))
    const { stdout, stderr } = await shop.run('consumers', 'remove', 'billing', 'order.paid', '--json')
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toEqual({
      consumer: 'billing',
      type: 'order.paid',
      outcome: 'removed',
      discarded: 0,
      left: { count: 0, atLeast: false },
      openPublishers: false,
    })
  })
})

describe('dead-letters --consumer', () => {
  beforeEach(async () => {
    const dead = { dead_at: 'now()', attempts: '3', error: "'no'" }
    await shop.sql(parked('m', dead))
    for (const consumer of ['billing', 'mailer']) await shop.sql(local('local_parked', consumer, 'm', dead))
  })

  test('narrows list, show, redrive, discard and retry', async () => {
    const all = await shop.run('dead-letters', 'list')
    expect(all.stdout.split('\n')[0]).toMatch(/^error +id +consumer +topic +key +died/)
    expect(all.stdout.trim().split('\n')).toHaveLength(4)
    const one = await shop.run('dead-letters', 'list', '--consumer', 'mailer', '--json')
    expect(JSON.parse(one.stdout)).toMatchObject({ id: 'm', consumer: 'mailer', attempts: 3 })
    expect((await shop.run('dead-letters', 'show', 'm', '--consumer', 'mailer')).stdout).toMatch(
      /^consumer +mailer$/m,
    )
    const redriven = await shop.run('dead-letters', 'redrive', 'm', '--consumer', 'billing', '--yes')
    expect(redriven.stdout).toBe('Put back 1 dead letter.\n')
    const { rows } = await shop.sql('select consumer from txbox.redrives')
    expect(rows).toEqual([{ consumer: 'billing' }])
    await shop.sql(
      "update txbox.local_parked set due_at = now() + interval '1 hour', attempts = 1 where dead_at is null",
    )
    expect((await shop.run('dead-letters', 'retry', '--consumer', 'billing')).stdout).toBe(
      'Made 1 parked message due now.\n',
    )
    expect((await shop.run('dead-letters', 'discard', 'm', '--yes')).stdout).toBe('Deleted 2 dead letters.\n')
    expect(await ids('local_parked')).toEqual(['billing m'])
  })

  test('says who gets redriven messages, and refuses an unknown consumer', async () => {
    const mixed = await shop.run('dead-letters', 'redrive', 'm')
    expect(mixed.stderr).toContain(
      'the relay publishes them, and the consumers at which they are dead handle them',
    )
    const local = await shop.run('dead-letters', 'redrive', '--consumer', 'mailer')
    expect(local.stderr).toContain(
      'Redriving puts 1 dead letter back: the consumers at which they are dead handle them',
    )
    const unknown = await shop.run('dead-letters', 'list', '--consumer', 'Mailer')
    expect([unknown.code, unknown.stderr]).toEqual([
      1,
      "txbox: There is no local consumer 'Mailer': it has no messages and no subscriptions. The local consumers are 'billing', 'mailer'.\n",
    ])
    expect((await shop.run('dead-letters', 'list', '--consumer', 'a', '--queue', 'q')).code).toBe(2)
  })
})
