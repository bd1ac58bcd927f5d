// Prisma's transactions compile, clients do not, and handlers receive exactly `Prisma.TransactionClient`.
import type * as runtime from '@prisma/client/runtime/client'
import type { InTransaction } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { assertType, type Same } from '../../../types/same.ts'
import type { PoolOrRootSentence } from '../../../types/refusal-sentences.ts'

/*
 * The structure of a client that `prisma generate` 7.10 wrote for one model, because the type test must run without
 * generating one. What is left out are the types of models and of raw queries, which txbox does not look at.
 */
type JsPromise<T> = runtime.Types.Utils.JsPromise<T>
interface TransactionOptions {
  maxWait?: number
  timeout?: number
  isolationLevel?: 'ReadCommitted' | 'RepeatableRead' | 'Serializable'
}
interface PrismaClient<in LogOpts extends string = never> {
  [K: symbol]: { types: object }
  $on<V extends LogOpts>(eventType: V, callback: (event: object) => void): PrismaClient
  $connect(): JsPromise<void>
  $disconnect(): JsPromise<void>
  $executeRaw<_T = unknown>(query: TemplateStringsArray, ...values: unknown[]): Promise<number>
  $executeRawUnsafe<_T = unknown>(query: string, ...values: unknown[]): Promise<number>
  $queryRaw<T = unknown>(query: TemplateStringsArray, ...values: unknown[]): Promise<T>
  $queryRawUnsafe<T = unknown>(query: string, ...values: unknown[]): Promise<T>
  $transaction<P extends Promise<unknown>[]>(
    arg: [...P],
    options?: TransactionOptions,
  ): JsPromise<runtime.Types.Utils.UnwrapTuple<P>>
  $transaction<R>(
    fn: (prisma: Omit<PrismaClient, runtime.ITXClientDenyList>) => JsPromise<R>,
    options?: TransactionOptions,
  ): JsPromise<R>
  $extends: (extension: object) => unknown
  get order(): { update(args: { where: { id: string }; data: { status: string } }): Promise<{ id: string }> }
}
/** As the generated namespace `Prisma` exports it. */
type TransactionClient = Omit<PrismaClient, runtime.ITXClientDenyList>
/** Until Prisma 7.7, a transaction had no `$transaction` either. */
type OlderTransactionClient = Omit<PrismaClient, runtime.ITXClientDenyList | '$transaction'>

declare const prisma: PrismaClient
declare const transaction: TransactionClient
declare const olderTransaction: OlderTransactionClient
const inbox = createInbox({ database: postgres(), consumer: 'c' })
const message = { id: 'm' }

export async function interactive(): Promise<void> {
  await postgres({ db: prisma }).transact(async (tx) => assertType<Same<typeof tx, TransactionClient>>())
  const own = createInbox({ database: mysql({ db: prisma }), consumer: 'c' })
  await own.run(message, async (tx) => {
    assertType<Same<typeof tx, TransactionClient>>()
    await tx.order.update({ where: { id: '1' }, data: { status: 'paid' } })
  })
  await prisma.$transaction((tx) =>
    inbox.process(tx, message, (own) => assertType<Same<typeof own, TransactionClient>>()),
  )
  await inbox.process(transaction, message, async (tx) => {
    await tx.$transaction((nested) => inbox.process(nested, { id: 'other' }, () => {}))
  })
  // @ts-expect-error a version that txbox refuses at run time, too
  await inbox.process(olderTransaction, message, () => {})
  await inbox.hasProcessed(transaction, message)
  // @ts-expect-error a client
  await inbox.process(prisma, message, () => {})
  // @ts-expect-error a client
  await inbox.hasProcessed(prisma, message)
  // @ts-expect-error a transaction is no client
  postgres({ db: transaction })
}

// The compiler says what is wrong.
assertType<Same<InTransaction<PrismaClient>, PoolOrRootSentence>>()
