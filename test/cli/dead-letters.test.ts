import { beforeEach, expect, test } from 'vitest'
import { parked, useShop } from './use-shop.ts'

const shop = useShop()

async function dead(): Promise<readonly string[]> {
  const { rows } = await shop.sql('select id from txbox.parked where dead_at is not null order by id')
  return rows.map((row: { id: string }) => row.id)
}

beforeEach(async () => {
  await shop.sql('delete from txbox.parked')
  for (const [id, topic, key] of [
    ['a1', 'orders', 'o1'],
    ['a2', 'orders', 'o2'],
    ['b1', 'invoices', 'o1'],
  ]) {
    const columns = {
      topic: `'${topic}'`,
      key: `'${key}'`,
      type: "'made'",
      dead_at: 'now()',
      attempts: '7',
      error: "'refused'",
    }
    await shop.sql(parked(id!, columns))
  }
  await shop.sql(parked('alive', { due_at: "now() + interval '1 day'" }))
})

test('list shows dead letters, a page at a time, by topic, type and key', async () => {
  const { code, stdout, stderr } = await shop.run('dead-letters', 'list')
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout.split('\n')[1]).toMatch(/^refused +a1 +orders +o1 +\d{4}-\d\d-\d\dT\S+ +7$/)
  expect(stdout).not.toContain('alive')
  const ids = async (...args: string[]): Promise<string[]> => {
    const { stdout: lines } = await shop.run('dead-letters', 'list', '--json', ...args)
    return lines
      .split('\n')
      .filter(Boolean)
      .map((line) => (JSON.parse(line) as { id: string }).id)
  }
  expect(await ids('--topic', 'orders')).toEqual(['a1', 'a2'])
  expect(await ids('--key', 'o1')).toEqual(['a1', 'b1'])
  expect(await ids('--type', 'other')).toEqual([])
  expect(await ids('--limit', '2')).toEqual(['a1', 'a2'])
  expect(await ids('--limit', '2', '--after', 'a2')).toEqual(['b1'])
  expect((await shop.run('dead-letters', 'list', '--limit', '2')).stdout).toContain('--after a2')
  expect((await shop.run('dead-letters', 'list', '--topic', 'none')).stdout).toBe('No dead letters.\n')
})

test('show prints all fields of a dead letter except its payload', async () => {
  const { stdout } = await shop.run('dead-letters', 'show', 'a1')
  expect(stdout).toMatch(/^id +a1$/m)
  expect(stdout).toMatch(/^error +refused$/m)
  expect(stdout).not.toContain('"n":1')
  expect(JSON.parse((await shop.run('dead-letters', 'show', 'a1', '--json')).stdout)).toMatchObject({
    id: 'a1',
    attempts: 7,
  })
  const missing = await shop.run('dead-letters', 'show', 'alive')
  expect([missing.code, missing.stderr]).toEqual([1, "txbox: There is no dead letter with the id 'alive'.\n"])
})

test('show lists the last errors, the newest first, and leaves out what is no error', async () => {
  const at = '2026-01-31T10:00:00.000Z'
  const errors = [
    { at, attempt: 6, error: 'busy: connect ECONNREFUSED\n127.0.0.1:9' },
    { at: 'yesterday', attempt: 7, error: 'x' },
    null,
    { at, attempt: 7, error: 'refused' },
  ]
  await shop.sql(`update txbox.parked set errors = '${JSON.stringify(errors)}' where id = 'a1'`)
  const { stdout } = await shop.run('dead-letters', 'show', 'a1')
  const lines = stdout.split('\n').filter((line) => line.startsWith('attempt '))
  expect(lines.map((line) => line.split(/ {2,}/)[0])).toEqual(['attempt 7', 'attempt 6'])
  expect(lines[0]).toContain(`${at} refused`)
  expect(lines[1]).toMatch(/ECONNREFUSED\S* ?127\.0\.0\.1:9$/)
  const json = JSON.parse((await shop.run('dead-letters', 'show', 'a1', '--json')).stdout) as object
  expect(json).toMatchObject({ errors: [errors[0], errors[3]] })
  await shop.sql(`update txbox.parked set errors = '{broken' where id = 'a2'`)
  expect((await shop.run('dead-letters', 'show', 'a2')).code).toBe(0)
})

test.for(['redrive', 'discard'])(
  '%s without --yes lists and counts the dead letters, and changes nothing in a script',
  async (command) => {
    const { code, stdout, stderr } = await shop.run('dead-letters', command, '--topic', 'orders')
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/a1 +orders[^]*a2 +orders/)
    expect(stderr).toContain('2 dead letters')
    expect(stderr).toContain('nothing was changed: pass --yes')
    expect(await dead()).toEqual(['a1', 'a2', 'b1'])
  },
)

test.for([
  ['redrive', 'nope', '--yes'],
  ['redrive', 'nope'],
  ['discard', 'nope', 'alive', '--yes', '--json'],
  ['discard', 'nope', '--parked', '--yes'],
])('%s of ids that match nothing is a failure that names them', async (args) => {
  const { code, stdout, stderr } = await shop.run('dead-letters', ...args)
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(
    /^txbox: No (dead letter|parked message) with the (id 'nope'|ids 'nope', 'alive') matches. Nothing was changed.\n$/,
  )
  expect(await dead()).toEqual(['a1', 'a2', 'b1'])
})

test('discard --yes deletes the selected dead letters, and no others', async () => {
  const { code, stdout } = await shop.run('dead-letters', 'discard', 'a1', 'alive', '--yes')
  expect([code, stdout]).toEqual([0, 'Deleted 1 dead letter.\n'])
  expect(await dead()).toEqual(['a2', 'b1'])
  const json = await shop.run('dead-letters', 'discard', '--key', 'o1', '--yes', '--json')
  expect(JSON.parse(json.stdout)).toMatchObject({ id: 'b1' })
  expect((await shop.sql("select 1 from txbox.parked where id = 'alive'")).rowCount).toBe(1)
  expect((await shop.run('dead-letters', 'discard', '--topic', 'none')).stdout).toBe(
    'No dead letters match.\n',
  )
})

test('redrive --yes redrives the dead letters once, and records who did it', async () => {
  const first = await shop.run('dead-letters', 'redrive', '--topic', 'orders', '--yes')
  expect([first.code, first.stdout]).toEqual([0, 'Put back 2 dead letters.\n'])
  expect(await dead()).toEqual(['b1'])
  expect((await shop.run('dead-letters', 'redrive', 'a1', '--yes')).code).toBe(1)
  expect((await shop.sql('select id from txbox.redrives order by id')).rows).toEqual([
    { id: 'a1' },
    { id: 'a2' },
  ])
})

test('a command without a selection never applies to all dead letters', async () => {
  for (const command of ['redrive', 'discard']) {
    const { code, stderr } = await shop.run('dead-letters', command, '--yes')
    expect(code).toBe(2)
    expect(stderr).toMatch(/^txbox: no dead letters are selected/)
  }
  expect(await dead()).toEqual(['a1', 'a2', 'b1'])
})

test('show --payload shows headers and payload, as text or for programs', async () => {
  await shop.sql(parked('p', { dead_at: 'now()', headers: `'{"a":"b"}'`, payload: `'{"n": 1.50}'` }))
  const { stdout } = await shop.run('dead-letters', 'show', 'p', '--payload')
  expect(stdout).toMatch(/^headers +\{"a":"b"\}\n\n\{"n": 1\.50\}\n$/m)
  const json = await shop.run('dead-letters', 'show', 'p', '--payload', '--json')
  expect(JSON.parse(json.stdout)).toMatchObject({ id: 'p', headers: { a: 'b' }, payload: { n: 1.5 } })
  await shop.sql(parked('bytes', { dead_at: 'now()', payload: String.raw`'\x00ff'` }))
  expect((await shop.run('dead-letters', 'show', 'bytes', '--payload')).stdout).toMatch(/\n\nAP8=\n$/)
})

test('O5 several dead letters of one id are all shown, listed and discarded', async () => {
  for (const n of [1, 2, 3]) await shop.sql(parked('same', { dead_at: 'now()', attempts: String(n) }))
  const { stdout } = await shop.run('dead-letters', 'show', 'same', '--json')
  expect(
    stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { attempts: number }).attempts),
  ).toEqual([1, 2, 3])
  const list = await shop.run('dead-letters', 'list', '--json', '--limit', '4', '--after', 'b1')
  expect(list.stdout.trim().split('\n').length).toBe(3)
  expect((await shop.run('dead-letters', 'discard', 'same', '--yes')).stdout).toBe(
    'Deleted 3 dead letters.\n',
  )
})

test('O4 discard --parked deletes a message that waits for another attempt, and its key continues', async () => {
  await shop.sql(
    parked('head', { key: "'k'", order_key: "'k'", due_at: "now() + interval '1 hour'", attempts: '2' }),
  )
  await shop.sql(parked('next', { key: "'k'", order_key: "'k'" }))
  const list = await shop.run('dead-letters', 'list', '--parked', '--key', 'k')
  expect(list.stdout).toMatch(/^ +head +orders +k +\d{4}-\S+ +2$/m)
  expect(list.stdout).toMatch(/^ +next +orders +k +behind its key +0$/m)
  const asked = await shop.run('dead-letters', 'discard', 'head', '--parked')
  expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining('1 parked message')])
  const { code, stdout } = await shop.run('dead-letters', 'discard', 'head', 'a1', '--parked', '--yes')
  expect([code, stdout]).toEqual([0, 'Deleted 1 parked message.\n'])
  const { rows } = await shop.sql("select id, due_at is not null as due from txbox.parked where key = 'k'")
  expect(rows).toEqual([{ id: 'next', due: true }])
  expect(await dead()).toContain('a1')
})

test('--queue lists, shows, redrives and discards dead letters of a stored queue, and no others', async () => {
  const columns = { topic: "'work'", key: "'o1'", attempts: '10', error: "'no'" }
  for (const id of ['q1', 'q2', 'q3']) {
    await shop.sql(parked(id, { ...columns, dead_at: 'now()' }, 'queue'))
  }
  await shop.sql(parked('q4', { ...columns, topic: "'other'", dead_at: 'now()' }, 'queue'))
  await shop.sql(parked('due', { ...columns, due_at: 'now()' }, 'queue'))
  const run = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await shop.run('dead-letters', ...args, '--queue', 'work')
    expect([code, stderr]).toEqual([0, ''])
    return stdout
  }
  const listed = async (): Promise<readonly string[]> =>
    (await run('list')).split('\n').flatMap((line) => /(?<=^no +)q\d/.exec(line) ?? [])
  expect(await listed()).toEqual(['q1', 'q2', 'q3'])
  expect(await run('list')).toMatch(/^no +q1 +work +o1 +\S+Z +10$/m)
  expect(await run('list', '--key', 'none')).toBe('No dead letters.\n')
  expect(await run('list', '--parked')).toMatch(/^no +due +work/m)
  for (const limit of ['0', '1001', '999999999999999']) {
    for (const parkedOnly of [[], ['--parked']]) {
      const { code, stderr } = await shop.run('dead-letters', 'list', '--limit', limit, ...parkedOnly)
      expect(code).toBe(2)
      expect(stderr).toContain("the option 'limit' must be a whole number from 1 to 1000")
    }
  }
  expect(JSON.parse(await run('show', 'q1', '--json', '--payload'))).toMatchObject({
    id: 'q1',
    topic: 'work',
    payload: { n: 1 },
  })
  expect((await shop.run('dead-letters', 'show', 'a1', '--queue', 'work')).code).toBe(1)
  expect((await shop.run('dead-letters', 'redrive', '--queue', 'work')).stderr).toContain(
    'receivers get them again',
  )
  expect(await run('redrive', 'q1', '--yes')).toBe('Put back 1 dead letter.\n')
  expect(await run('discard', '--yes')).toBe('Deleted 2 dead letters.\n')
  expect(await listed()).toEqual([])
  const { rows } = await shop.sql('select id, dead_at is null as live from txbox.queue order by id')
  expect(rows.map(({ id, live }) => `${id} ${live}`)).toEqual(['due true', 'q1 true', 'q4 false'])
  expect(await dead()).toEqual(['a1', 'a2', 'b1'])
  expect((await shop.run('dead-letters', 'list', '--queue', 'work', '--topic', 't')).code).toBe(2)
  await shop.sql('delete from txbox.queue')
})
