import * as consumerPackage from '@txbox/consumer'
import type { Consumer, ConsumerContext, InboxMessage } from '@txbox/consumer'
import type { ConnectedDatabase, DeadLetter, DeadLetterSelection, NewMessage, StoredId } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { createDeadLetters } from '@txbox/relay'
import type { TransactionHandle } from '@txbox/core'

/** A message as a local consumer's handler gets it. */
export type LocalMessage = InboxMessage & {
  readonly key?: string | undefined
  readonly topic?: string | undefined
}

/** A message to publish; most have no topic. */
export type NewLocalMessage = Omit<NewMessage, 'topic'> & { readonly topic?: string | undefined }

export interface Drained {
  readonly handled: number
  readonly parked: number
  readonly deadLettered: number
  readonly left: number
}

export interface LocalConsumer extends Consumer {
  drain(options?: { deadlineMs?: number | undefined }): Promise<Drained>
}

export type LocalHandler = (tx: TransactionHandle, message: LocalMessage, context: ConsumerContext) => unknown

export type LocalBatchHandler = (
  tx: TransactionHandle,
  messages: readonly LocalMessage[],
  contexts: readonly ConsumerContext[],
) => unknown

/** The outbox of a service that has local consumers. */
export interface LocalOutbox {
  publish(tx: TransactionHandle, message: NewLocalMessage): Promise<StoredId>
  publish(tx: TransactionHandle, messages: readonly NewLocalMessage[]): Promise<readonly StoredId[]>
}

type LocalSelection = DeadLetterSelection & { readonly consumer?: string }
type LocalDeadLetter = DeadLetter & { readonly consumer?: string }

export interface LocalDeadLetters {
  list(selection?: Omit<LocalSelection, 'ids'> & { limit?: number }): Promise<readonly LocalDeadLetter[]>
  redrive(selection: LocalSelection): Promise<readonly LocalDeadLetter[]>
  discard(selection: LocalSelection): Promise<readonly LocalDeadLetter[]>
}

type AnyFunction = (...args: never[]) => unknown

function exported(name: string): AnyFunction {
  const value: unknown = Reflect.get(consumerPackage, name)
  if (typeof value !== 'function') throw new Error(`@txbox/consumer does not export ${name}.`)
  return value as AnyFunction
}

/** The options are checked when the consumer is created, and tests pass wrong ones. */
export function createLocalConsumer(options: object): LocalConsumer {
  return exported('createLocalConsumer')(options as never) as LocalConsumer
}

/** Marks a handler that works without a transaction. */
export function atLeastOnce(handler: (message: LocalMessage, context: ConsumerContext) => unknown): object {
  return exported('atLeastOnce')(handler as never) as object
}

/** Marks a handler that gets batches and works without a transaction. */
export function batchAtLeastOnce(
  handler: (messages: readonly LocalMessage[], contexts: readonly ConsumerContext[]) => unknown,
): object {
  return exported('atLeastOnce')(handler as never) as object
}

export function createLocalOutbox(options: object): LocalOutbox {
  return createOutbox(options as never) as unknown as LocalOutbox
}

export function localDeadLetters(database: ConnectedDatabase<TransactionHandle>): LocalDeadLetters {
  return createDeadLetters({ database, by: 'operator' })
}
