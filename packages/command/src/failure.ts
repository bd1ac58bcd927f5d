import { isTxboxError } from '@txbox/core'
import { reasonOf } from '@txbox/core/internal'
import { CommanderError } from 'commander'
import { withoutSecrets } from './without-secrets.ts'

/** The arguments of the command are wrong. The exit code is 2. */
export class UsageError extends Error {}

/** Returns the exit code: 0 for success, 1 for a failure, 2 for wrong usage. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  if (error instanceof UsageError) return 2
  return isTxboxError(error) && error.code === 'TXBOX_INVALID_OPTION' ? 2 : 1
}

/**
 * Returns the text of an error for a person: one line with the causes, without a stack trace or a password. Commander
 * has already written its own errors.
 */
export function oneLine(error: unknown): string {
  if (error instanceof CommanderError) return ''
  return `txbox: ${withoutSecrets(reasonOf(error))}`
}
