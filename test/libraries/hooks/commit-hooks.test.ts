import { expect, onTestFinished, test } from 'vitest'
import { TransactionAbortedError, type TransactionHandle } from '@txbox/core'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { libraryRoot } from '../../support/engines/library-roots.ts'
import { useTarget } from '../../support/engines/target.ts'

const target = useTarget()

/** The part of a DataSource of TypeORM, or of the EntityManager of MikroORM, by which it gets a hook. */
interface Hooks {
  readonly subscribers?: object[]
  getEventManager?(): { registerSubscriber(subscriber: object): void }
}
interface CommitEvent {
  readonly queryRunner?: { readonly manager: TransactionHandle }
  readonly em: TransactionHandle
}

for (const [failure, abort] of Object.entries(target.abortions)) {
  test(`I7 I10 a hook before COMMIT swallows an error: nothing is reported as committed (${failure})`, async () => {
    const root = target.open(target.kinds[0]!, { max: 4 })
    await root.ready?.()
    onTestFinished(() => root.close())
    let calls = 0
    const subscriber = {
      async beforeTransactionCommit({ queryRunner, em }: CommitEvent): Promise<void> {
        calls += 1
        await abort(queryRunner?.manager ?? em).catch(() => undefined)
      },
    }
    const hooks = libraryRoot(root).db as Hooks
    if (hooks.subscribers === undefined) hooks.getEventManager!().registerSubscriber(subscriber)
    else hooks.subscribers.push(subscriber)
    const subject = new InboxUnderTest(target, root)
    await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow(TransactionAbortedError)
    const transacted = root.database.transact((tx) => target.effect(tx, subject.consumer))
    await expect(transacted).rejects.toThrow(TransactionAbortedError)
    expect([calls, await subject.effects(), await subject.claimedKeys()]).toEqual([2, 0, []])
  })
}
