import { EditConflictError, VersionConflictError, retryOnConflict } from '@txbox/versioning'
import { InvalidOptionError, TransactionConflictError } from '@txbox/core'
import { describe, expect, test } from 'vitest'
import { useTarget } from '../../support/engines/target.ts'
import { failureOf, useVersionedTables } from '../../support/subjects/versioned-tables.ts'
import { onEachHalf, onEachHalfAtOneLevel } from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const tables = useVersionedTables(target)

interface Document {
  readonly body: string
  readonly version: number
}

function withLine(line: string) {
  return (row: Pick<Document, 'body'>) => ({
    body: JSON.stringify([...(JSON.parse(row.body) as string[]), line]),
  })
}

onEachHalf(target, (subject) => {
  const { isolation, updateMerged, updateVersioned } = subject
  const db = () => subject.db
  const bump = (id: string, expected: number) =>
    updateVersioned(db(), 'documents', { where: { id }, expected, set: {} })

  test('V5 merges of many writers lose nothing', async () => {
    const id = await tables.document([])
    const edits = Array.from({ length: 8 }, (_, n) =>
      updateMerged(db(), 'documents', { where: { id }, merge: withLine(`line ${n}`), attempts: 100 }),
    )
    const results = await Promise.all(edits)
    expect(await tables.body(id)).toHaveLength(8)
    expect(new Set(await tables.body(id)).size).toBe(8)
    expect(results.map(({ version }) => Number(version)).sort((a, b) => a - b)).toEqual([
      2, 3, 4, 5, 6, 7, 8, 9,
    ])
  })

  test('V5 the row is read again at each attempt, and conflicts are bounded', async () => {
    const id = await tables.document(['a'])
    const seen: number[] = []
    const disturbed = updateMerged(db(), 'documents', {
      where: { id },
      merge: async (row: Document) => {
        seen.push(row.version)
        if (seen.length < 3) await bump(id, row.version)
        return withLine('b')(row)
      },
    })
    expect(await disturbed).toEqual({ version: 4, attempts: 3 })
    expect(seen).toEqual([1, 2, 3])
    expect(await tables.body(id)).toEqual(['a', 'b'])

    const hopeless = updateMerged(db(), 'documents', {
      where: { id },
      attempts: 2,
      merge: async (row: Document) => (await bump(id, row.version), withLine('c')(row)),
    })
    const failure = await failureOf(hopeless)
    expect(failure).toBeInstanceOf(EditConflictError)
    expect(failure).toMatchObject({ code: 'TXBOX_EDIT_CONFLICT', attempts: 2, retryable: true })
    expect(await tables.body(id)).toEqual(['a', 'b'])
  })

  test('V5 an error of merge reaches the caller unchanged, and is not retried', async () => {
    const id = await tables.document([])
    for (const thrown of [new TransactionConflictError('mine'), new Error('mine'), undefined]) {
      let calls = 0
      const attempt = updateMerged(db(), 'documents', {
        where: { id },
        merge: () => {
          calls++
          throw thrown
        },
      })
      expect(await failureOf(attempt)).toBe(thrown)
      expect(calls).toBe(1)
    }
    const missing = updateMerged(db(), 'documents', { where: { id: 'nobody' }, merge: withLine('x') })
    expect(await failureOf(missing)).toMatchObject({ code: 'TXBOX_ROW_NOT_FOUND' })
  })

  test('V5 inside a transaction the current row is read under a lock: one attempt, no conflict', async () => {
    const id = await tables.document(['a'])
    const outcome = subject
      .inTransaction(async (tx) => {
        // The snapshot is older than the row.
        await target.exec(tx, 'select version from documents where id = ?', [id])
        await bump(id, 1)
        return updateMerged(tx, 'documents', { where: { id }, merge: withLine('b') })
      })
      .catch((error: unknown) => error)
    if (target.refusesNewer(isolation)) {
      expect(await outcome).toBeInstanceOf(TransactionConflictError)
      return
    }
    expect(await outcome).toEqual({ version: 3, attempts: 1 })
    expect(await tables.body(id)).toEqual(['a', 'b'])
  })

  test('V5 inside a transaction other transactions wait for the row', async () => {
    const id = await tables.document([])
    const inside = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    const first = subject.inTransaction((tx) =>
      updateMerged(tx, 'documents', {
        where: { id },
        merge: async (row: Document) => {
          inside.resolve()
          await goOn.promise
          return withLine('first')(row)
        },
      }),
    )
    await inside.promise
    const second = subject
      .inTransaction((tx) => updateMerged(tx, 'documents', { where: { id }, merge: withLine('second') }))
      .catch((error: unknown) => error)
    await target.blocked(1)
    goOn.resolve()
    expect(await first).toEqual({ version: 2, attempts: 1 })
    const conflict = target.waitersMustRetry(isolation)
    if (conflict) expect(await second).toBeInstanceOf(TransactionConflictError)
    else expect(await second).toEqual({ version: 3, attempts: 1 })
    expect(await tables.body(id)).toEqual(conflict ? ['first'] : ['first', 'second'])
  })
})

describe('retryOnConflict', () => {
  const conflict = () => new VersionConflictError('moved', { expected: 1, actual: 2 })

  test('V5 repeats the call after a version conflict, and after no other error', async () => {
    const attempts: number[] = []
    const result = await retryOnConflict(async (attempt) => {
      attempts.push(attempt)
      if (attempt < 3) throw conflict()
      return 'done'
    })
    expect(result).toBe('done')
    expect(attempts).toEqual([1, 2, 3])
    for (const other of [new TransactionConflictError('x'), new Error('x'), undefined]) {
      let calls = 0
      const attempt = retryOnConflict(async () => {
        calls++
        throw other
      })
      expect(await failureOf(attempt)).toBe(other)
      expect(calls).toBe(1)
    }
  })

  test('V5 gives up after its attempts with the last conflict, or when its signal is aborted', async () => {
    const thrown: unknown[] = []
    const fail = async (): Promise<never> => {
      thrown.push(conflict())
      throw thrown.at(-1)
    }
    expect(await failureOf(retryOnConflict(fail, { attempts: 2 }))).toBe(thrown[1])
    expect(thrown).toHaveLength(2)
    const controller = new AbortController()
    const aborted = retryOnConflict(
      async () => {
        controller.abort(new Error('enough'))
        throw conflict()
      },
      { signal: controller.signal },
    )
    expect(await failureOf(aborted)).toBe(controller.signal.reason)
    for (const wrong of [{ attempts: 0 }, { attempts: 101 }, { retries: 3 }]) {
      expect(await failureOf(retryOnConflict(fail, wrong))).toBeInstanceOf(InvalidOptionError)
    }
  })

  onEachHalfAtOneLevel(target, (subject) => {
    test('V1 V5 no update of N writers that read, decide and write is lost', async () => {
      const id = await tables.order({ version: 1 })
      const add = async (): Promise<number> => {
        const row = (await tables.read(id))!
        const options = { where: { id }, expected: Number(row.version), set: { total: row.total + 1 } }
        return (await subject.updateVersioned(subject.db, 'orders', options)).version
      }
      await Promise.all(Array.from({ length: 8 }, () => retryOnConflict(add, { attempts: 100 })))
      expect(await tables.read(id)).toMatchObject({ version: '9', total: 8 })
    })
  })
})
