import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import type { ConnectionMonitor } from '../../packages/sql/src/transactions/adapters.ts'
import { MonitoredConnection } from '../../packages/sql/src/transactions/monitors/connection-monitor.ts'
import { pgHandle } from '../../packages/sql/src/transactions/drivers/pg.ts'
import { effectOf } from '../../packages/sql/src/transactions/monitors/statement-effect.ts'

const EFFECTS: Record<string, ReturnType<typeof effectOf>> = {
  'select 1': 'none',
  '  /* a * b **/ -- c\n # d\n insert into t values (1)': 'none',
  '(select 1)': 'none',
  'savepoint a': 'sets a savepoint',
  'release savepoint a': 'none',
  'rollback to savepoint a': 'rolls back to a savepoint',
  'rollback work to a': 'rolls back to a savepoint',
  rollback: 'rolls back',
  'COMMIT AND CHAIN': 'commits',
  '/* rollback to a */ rollback': 'rolls back',
  'start transaction read only': 'begins',
  'START TRANSACTION': 'begins',
  COMMIT: 'commits',
  ' begin': 'begins',
  'create table t (a int)': 'unknown',
  '/*!40000 create table t (a int) */': 'unknown',
  'set autocommit = 1': 'unknown',
  'call settle()': 'unknown',
  '/* never closed select 1': 'unknown',
}

test.each(Object.entries(EFFECTS))('I7 %s: %s', (sql, effect) => {
  expect(effectOf(sql, false)).toBe(effect)
})

test('I7 two statements in one text count as uncertain if the connection runs both', () => {
  expect(effectOf('select 1; commit', true)).toBe('unknown')
  expect(effectOf('begin; commit', true)).toBe('begins, and more')
  expect(effectOf('select 1; commit', false)).toBe('none')
})

test('I7 a statement is recognized quickly, however many comments precede it', () => {
  const startedAt = performance.now()
  expect(effectOf(`${'/* a */ '.repeat(5000)}create table t (a int)`, false)).toBe('unknown')
  expect(performance.now() - startedAt).toBeLessThan(1000)
})

test.each([1213, 1020, 1206])(
  'I7 after error %i the transaction is gone until a BEGIN, COMMIT or ROLLBACK',
  (errno) => {
    const monitor = new MonitoredConnection(() => Promise.resolve())
    monitor.sent('begins')
    monitor.succeeded('begins')
    const snapshot = monitor.snapshot()
    expect([monitor.tracker.rolledBack, snapshot.ended]).toEqual(['no', false])
    monitor.sent('none')
    monitor.failed({ errno }, false)
    monitor.sent('none')
    monitor.succeeded('none')
    expect([monitor.tracker.rolledBack, monitor.tracker.open, snapshot.ended]).toEqual(['yes', false, true])
    monitor.sent('commits')
    monitor.succeeded('commits')
    expect(monitor.tracker.rolledBack).toBe('no')
  },
)

test('I7 after a lock wait timeout the transaction may be gone; after another error only the server knows', () => {
  const monitor = new MonitoredConnection(() => Promise.resolve())
  for (const [errno, rolledBack] of [
    [1062, 'no'],
    [1205, 'perhaps'],
    [1146, 'perhaps'],
    [1213, 'yes'],
    [1205, 'yes'],
  ]) {
    monitor.sent('none')
    monitor.failed({ errno }, false)
    expect(monitor.tracker.rolledBack, String(errno)).toBe(rolledBack)
  }
})

// The end of a transaction is not seen with pg.native, nor with a dialect of Kysely that does not send COMMIT as a statement.
test('the listener of a transaction whose end was not seen is not kept', () => {
  const monitored = new MonitoredConnection(async () => undefined)
  const events = new EventEmitter()
  const ofPg = pgHandle.monitor({ connection: events } as never) as ConnectionMonitor
  const ended: string[] = []
  for (const transaction of ['earlier', 'this']) {
    monitored.onceEnded((isCommitted) => void ended.push(`monitored: ${transaction}, ${isCommitted}`))
    ofPg.onceEnded!((isCommitted) => void ended.push(`pg: ${transaction}, ${isCommitted}`))
  }
  for (let times = 0; times < 2; times += 1) {
    monitored.sent('commits')
    monitored.succeeded('commits')
    events.emit('commandComplete', { text: 'COMMIT' })
  }
  expect(ended).toEqual(['monitored: this, true', 'pg: this, true'])
})

/** What is done in a transaction, and whether something of it may be committed. */
const ENDINGS: readonly (readonly [readonly (readonly [string, number?])[], boolean])[] = [
  [[['select 1'], ['insert into t values (1)'], ['savepoint a'], ['rollback to savepoint a']], false],
  [[['commit']], true],
  [[['commit'], ['begin']], true],
  [[['begin']], true],
  [[['create table t (a int)']], true],
  [[['rollback']], false],
  [[['rollback'], ['insert into t values (1)']], true],
  [[['update t set a = 1', 1213]], false],
  [[['update t set a = 1', 1213], ['insert into t values (1)'], ['commit']], false],
  [[['update t set a = 1', 1213], ['begin']], true],
]

test.each(ENDINGS)('I7 L5 after %j something may be committed: %s', (statements, mayHaveCommitted) => {
  const monitor = new MonitoredConnection(() => Promise.resolve())
  monitor.sent('begins')
  monitor.succeeded('begins')
  const snapshot = monitor.snapshot()
  for (const [sql, errno] of statements) {
    const effect = effectOf(sql, false)
    monitor.sent(effect)
    if (errno === undefined) monitor.succeeded(effect)
    else monitor.failed({ errno }, false)
  }
  expect(snapshot.mayHaveCommitted).toBe(mayHaveCommitted)
})
