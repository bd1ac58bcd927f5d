import { stateMachine, type StateMachine } from '@txbox/versioning'
import { InvalidOptionError, TransactionConflictError } from '@txbox/core'
import { expect, test } from 'vitest'
import { useTarget } from '../../support/engines/target.ts'
import { failureOf, useVersionedTables } from '../../support/subjects/versioned-tables.ts'
import { onEachHalf, onOddRoots } from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const tables = useVersionedTables(target)

const machine: StateMachine<string> = stateMachine({
  pending: ['paid', 'cancelled'],
  paid: ['refunding', 'shipped'],
  refunding: ['refunded'],
  refunded: [],
  shipped: [],
  cancelled: [],
  // A cycle: from each of the two states the other one can still be reached.
  open: ['closed'],
  closed: ['open'],
  // A move to itself.
  idle: ['idle', 'busy'],
  busy: ['idle'],
})

onEachHalf(target, (subject) => {
  const { transition, updateVersioned } = subject
  const db = () => subject.db
  const move = (id: string, to: string) =>
    transition(db(), 'orders', {
      where: { id },
      column: 'status',
      to,
      machine,
      set: { total: 1 },
    })

  test('V6 a direct move is applied, together with the other columns that it sets', async () => {
    const id = await tables.order({ status: 'pending' })
    expect(await move(id, 'paid')).toEqual({ status: 'applied' })
    expect(await tables.read(id)).toMatchObject({ status: 'paid', total: 1 })
    expect(await move(id, 'refunding')).toEqual({ status: 'applied' })
    expect(await tables.read(id)).toMatchObject({ status: 'refunding', total: 1 })
  })

  test.each([
    ['paid', 'paid', 'already'],
    ['refunded', 'paid', 'already'],
    ['refunded', 'pending', 'already'],
    ['pending', 'refunding', 'TXBOX_TRANSITION_TOO_EARLY'],
    ['pending', 'refunded', 'TXBOX_TRANSITION_TOO_EARLY'],
    ['cancelled', 'paid', 'TXBOX_TRANSITION_REFUSED'],
    ['shipped', 'refunded', 'TXBOX_TRANSITION_REFUSED'],
    ['paid', 'open', 'TXBOX_TRANSITION_REFUSED'],
    ['unheard-of', 'paid', 'TXBOX_TRANSITION_REFUSED'],
    ['open', 'open', 'already'],
    ['open', 'closed', 'applied'],
    ['idle', 'idle', 'applied'],
  ])('V6 %s → %s: %s', async (from, to, expected) => {
    const id = await tables.order({ status: from })
    const outcome = await move(id, to).catch((error: unknown) => error)
    if (expected.startsWith('TXBOX')) {
      const retryable = expected === 'TXBOX_TRANSITION_TOO_EARLY'
      expect(outcome).toMatchObject({ code: expected, from, to, retryable })
    } else {
      expect(outcome).toEqual({ status: expected })
    }
    const written = expected === 'applied'
    expect(await tables.read(id)).toMatchObject({ status: written ? to : from, total: written ? 1 : 0 })
  })

  test('V6 a missing row, and a row without a state, are reported', async () => {
    expect(await failureOf(move('nobody', 'paid'))).toMatchObject({ code: 'TXBOX_ROW_NOT_FOUND' })
    const id = await tables.order()
    await target.sql('update orders set status = null where id = ?', [id])
    expect(await failureOf(move(id, 'paid'))).toMatchObject({ code: 'TXBOX_TRANSITION_REFUSED', from: null })
  })

  test('V6 of many concurrent moves, one is applied and the others find it done', async () => {
    const id = await tables.order({ status: 'pending' })
    const moves = Array.from({ length: 8 }, () => move(id, 'paid').catch((error: unknown) => error))
    const outcomes = await Promise.all(moves)
    const applied = outcomes.filter((outcome) => Reflect.get(outcome as object, 'status') === 'applied')
    expect(applied).toHaveLength(1)
    for (const outcome of outcomes) {
      // At REPEATABLE READ PostgreSQL refuses to change what its snapshot does not show.
      if (outcome instanceof TransactionConflictError) continue
      expect(['applied', 'already']).toContain(Reflect.get(outcome as object, 'status'))
    }
    expect(await tables.read(id)).toMatchObject({ status: 'paid', total: 1 })
  })

  test('V6 a state that the machine does not have is refused', async () => {
    const options = { where: { id: 'x' }, column: 'status', to: 'unheard-of', machine } as const
    expect(await failureOf(transition(db(), 'orders', options))).toBeInstanceOf(InvalidOptionError)
  })

  test('V3 V6 after a refusal the transaction stays usable', async () => {
    const id = await tables.order({ status: 'cancelled', version: 1 })
    await subject.inTransaction(async (tx) => {
      const options = { where: { id }, column: 'status', to: 'paid', machine } as const
      await failureOf(transition(tx, 'orders', options))
      await updateVersioned(tx, 'orders', { where: { id }, expected: 1, set: { note: 'refused' } })
    })
    expect(await tables.read(id)).toMatchObject({ status: 'cancelled', version: '2' })
  })
})

onOddRoots(target, (odd, half, during) => {
  test(`V6 ${odd}, ${half}`, () =>
    during(async (subject) => {
      const id = await tables.order({ status: 'idle' })
      await subject.inTransaction(async (tx) => {
        const move = (to: string) =>
          subject.transition(tx, subject.table('orders'), { where: { id }, column: 'status', to, machine })
        // Changes no value: a driver that counts changes sees none.
        expect(await move('idle')).toEqual({ status: 'applied' })
        expect(await move('busy')).toEqual({ status: 'applied' })
        expect(await move('busy')).toEqual({ status: 'already' })
        expect(await failureOf(move('paid'))).toMatchObject({
          code: 'TXBOX_TRANSITION_REFUSED',
          from: 'busy',
        })
      })
      expect(await tables.read(id)).toMatchObject({ status: 'busy' })
    }))
})

test('V6 an invalid state machine is refused', () => {
  for (const moves of [undefined, {}, { a: ['b'] }, { a: 'a' }, { a: [1] }, { a: ['toString'] }]) {
    expect(() => stateMachine(moves as never)).toThrow(InvalidOptionError)
  }
})
