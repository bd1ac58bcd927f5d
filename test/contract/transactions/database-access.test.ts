import { describe, expect, onTestFinished, test } from 'vitest'
import { DatabaseAccessError } from '@txbox/core'
import { Broker } from '../../support/worlds/broker.ts'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { onEachKind, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  describe.each([
    ['a database that does not exist', { database: 'txbox_no_such_database' }],
    ['a user who does not exist', { user: 'txbox_no_such_user' }],
  ])('%s', (_, as) => {
    const open = (): Root => {
      const root = target.open(kind, { as })
      onTestFinished(() => root.close())
      return root
    }

    test('is a DatabaseAccessError that names the privilege and is not retryable', async () => {
      const root = open()
      const subject = new InboxUnderTest(target, root)
      const relay = new RelayUnderTest(root, new Broker().publisher()).relay
      for (const attempt of [
        () => subject.inbox.run({ id: 'x' }, subject.handle),
        () => root.database.transact(() => Promise.reject(new Error('It ran.'))),
        () => relay.start(),
      ]) {
        const error: unknown = await attempt().catch((thrown: unknown) => thrown)
        expect(error).toBeInstanceOf(DatabaseAccessError)
        expect(error).toMatchObject({ code: 'TXBOX_DATABASE_ACCESS', retryable: false })
        expect(String(error)).toContain(Object.values(as)[0])
      }
      expect(subject.calls).toBe(0)
    })
  })
})
