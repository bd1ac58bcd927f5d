// The rules in which a library differs by its version, or by the driver underneath. They are one file, so that one process
// loads the library once: loading takes as long as the tests.
import { describe } from 'vitest'

describe('inbox-aborted', async () => void (await import('../contract/inbox/inbox-aborted.test.ts')))
describe('inbox-commit', async () => void (await import('../contract/inbox/inbox-commit.test.ts')))
describe('outbox-publish', async () => void (await import('../contract/outbox/outbox-publish.test.ts')))
describe('transact', async () => void (await import('../contract/transactions/transact.test.ts')))
describe('library', async () => void (await import('./library.test.ts')))
