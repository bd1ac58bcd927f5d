import { DEDUP_BOUNDS, OptionChecker } from '@txbox/core/internal'

export interface LeaseOptions {
  /** How long a crash keeps the next request from running, in milliseconds: 1 s to 1 h. @default 30_000 */
  leaseMs?: number | undefined
}

/** @throws {InvalidOptionError} for a wrong or unknown option. */
export function leaseOption(where: string, options: LeaseOptions): number {
  const check = new OptionChecker(where, options).known('leaseMs')
  return check.milliseconds('leaseMs', { ...DEDUP_BOUNDS.leaseMs, default: 30_000 })
}
