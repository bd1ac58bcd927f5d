import { InvalidOptionError } from '@txbox/core'
import { nameOf, propertyOf } from '@txbox/core/internal'
import type { RequestRunner } from './request-runner.ts'

/** The property by which the plug-ins reach the runner. Registered, so that two installed copies of the package use one. */
export const runnerKey: unique symbol = Symbol.for('txbox.idempotency.runner') as never

/** @throws {InvalidOptionError} when the value is not the result of createIdempotency. */
export function runnerOf(where: string, idempotency: unknown): RequestRunner {
  const runner = propertyOf(idempotency, runnerKey)
  if (runner !== undefined) return runner as RequestRunner
  throw new InvalidOptionError(
    `${where}: expected the result of createIdempotency, not ${nameOf(idempotency)}.`,
  )
}
