import { readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import * as mysql from '../../packages/mysql/src/rows/row-statements.ts'
import * as postgres from '../../packages/postgres/src/rows/row-statements.ts'

const DATABASES = { postgres: postgres.rowStatements, mysql: mysql.rowStatements }

/** The texts of the statements on a table of a user, with a column for each of their parts. */
function textsOf(engine: keyof typeof DATABASES): Record<string, string> {
  const quote = (name: string) => (engine === 'postgres' ? `"${name}"` : `\`${name}\``)
  const statements = DATABASES[engine]
  const key = ['region', 'id'].map(quote)
  const at = { table: quote('orders'), key, column: quote('version'), is: 'at' } as const
  const below = { ...at, is: 'below' } as const
  const oneOf = { ...at, column: quote('status'), is: 'one of', states: 2 } as const
  const older = { ...at, column: quote('changed_at'), is: 'older', decimals: 6 } as const
  const limited = { ...older, isLimited: true }
  const set = { set: ['total', 'note'].map(quote) }
  const insert = { ...set, insert: [quote('total')] }
  const { columns, indexes, mark, read, ...others } = { indexes: '', mark: '', ...statements }
  const expressions = (['text', 'hex', 'double', 'milliseconds', 'day', 'digits', 'bits'] as const).flatMap(
    (name) => {
      const expression = (others as Record<string, unknown>)[name] as ((column: string) => string) | undefined
      return expression === undefined ? [] : [`${expression(quote('total'))} as c0`]
    },
  )
  return {
    'update-at': statements.update({ ...at, ...set }),
    'update-below': statements.update({ ...below, set: [] }),
    'update-one-of': statements.update({ ...oneOf, ...set }),
    'update-older': statements.update({ ...older, ...set }),
    'update-older-limited': statements.update({ ...limited, ...set }),
    'delete-at': statements.delete(at),
    'insert-or-update-below': statements.insertOrUpdate({ ...below, set: [], insert: [quote('total')] }),
    'insert-or-update-older': statements.insertOrUpdate({ ...older, ...insert }),
    'insert-or-update-older-limited': statements.insertOrUpdate({ ...limited, ...insert }),
    'look-at': statements.look(at),
    'look-older': statements.look(limited),
    refusal: statements.refusal(older),
    'refusal-limited': statements.refusal(limited),
    columns,
    'read-all-types': read({ table: at.table, key }, expressions, false),
    'read-locked': read({ table: at.table, key }, expressions.slice(0, 1), true),
    ...(engine === 'mysql' && { indexes, mark }),
  }
}

/**
 * Every statement of `createVersioning` has an approved text. After a change that is meant: `vitest run --project unit -u`.
 */
describe.each(['postgres', 'mysql'] as const)('%s', (engine) => {
  const approved = path.join(import.meta.dirname, '..', 'golden', `rows-${engine}`)
  const texts = textsOf(engine)

  test.for(Object.entries(texts))('%s', async ([name, text]) => {
    await expect(`${text.trim()}\n`).toMatchFileSnapshot(path.join(approved, `${name}.sql`))
  })

  test('every approved text belongs to a statement', () => {
    expect(readdirSync(approved).sort()).toEqual(
      Object.keys(texts)
        .map((name) => `${name}.sql`)
        .sort(),
    )
  })

  test('an unqualified function is part of the syntax', () => {
    if (engine !== 'postgres') return
    const syntax =
      /^(?:and|as|by|case|cast|coalesce|conflict|exists|extract|from|in|insert|into|not|nullif|orders|select|set|then|txbox_row|values|when|where|between|or)$/
    for (const [name, text] of Object.entries(texts)) {
      const called = [...text.matchAll(/(?<![\w."])([a-z_]\w*)\s*\(/g)].map(([, word]) => word!)
      expect(
        called.filter((word) => !syntax.test(word)),
        name,
      ).toEqual([])
    }
  })
})
