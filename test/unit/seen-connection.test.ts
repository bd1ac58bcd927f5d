import { expect, test } from 'vitest'
import { effectOf } from '../../packages/handles/src/seen-connection.ts'

const EFFECTS: Record<string, ReturnType<typeof effectOf>> = {
  'select 1': 'none',
  '  /* a * b **/ -- c\n # d\n insert into t values (1)': 'none',
  '(select 1)': 'none',
  'rollback to savepoint a': 'none',
  'rollback work to a': 'none',
  rollback: 'ends',
  'COMMIT AND CHAIN': 'ends',
  '/* rollback to a */ rollback': 'ends',
  'start transaction read only': 'begins',
  'START TRANSACTION': 'begins',
  COMMIT: 'ends',
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

test('I7 two statements in one text are open to doubt, where the connection runs both', () => {
  expect(effectOf('select 1; commit', true)).toBe('unknown')
  expect(effectOf('begin; commit', true)).toBe('begins, and more')
  expect(effectOf('select 1; commit', false)).toBe('none')
})

test('I7 however many comments stand before it, a statement is told in no time', () => {
  const startedAt = performance.now()
  expect(effectOf(`${'/* a */ '.repeat(5000)}create table t (a int)`, false)).toBe('unknown')
  expect(performance.now() - startedAt).toBeLessThan(1000)
})
