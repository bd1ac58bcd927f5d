import {
  DatabaseUnavailableError,
  InvalidOptionError,
  SchemaError,
  TransactionConflictError,
} from '@txbox/core'
import { describe, expect, test } from 'vitest'
import { revisionFinding } from '../../packages/sql/src/stores/operate/findings.ts'

function failing(error: Error): () => Promise<never> {
  return async () => {
    throw error
  }
}

describe('the finding about the revision of the tables', () => {
  test('tables of the right revision are ok', async () => {
    expect(await revisionFinding(async () => undefined)).toMatchObject({ check: 'revision', verdict: 'ok' })
  })

  test.each([
    new SchemaError('The tables in schema "a" lack 0002_outbox.'),
    new InvalidOptionError('MySQL 5.7 is not supported.'),
  ])('an error about the tables or the server is a problem: $name', async (error) => {
    expect(await revisionFinding(failing(error))).toMatchObject({ check: 'revision', verdict: 'problem' })
  })

  test.each([
    new TransactionConflictError('Deadlock found.'),
    new DatabaseUnavailableError('The database has not answered.'),
    new TypeError('a bug'),
  ])('any other error does not mean that the tables are missing: $name', async (error) => {
    await expect(revisionFinding(failing(error))).rejects.toBe(error)
  })
})
