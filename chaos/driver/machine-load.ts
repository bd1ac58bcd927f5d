import os from 'node:os'

/** Runnable processes for each core, above which bounds on time say more about the machine than about what runs on it. */
const FULL_LOAD = 2.5

/**
 * How much longer things may take because others use this machine too: 1 on a machine that is not overloaded.
 * Without a figure for the load, as on Windows, always 1.
 */
export function machineStretch(): number {
  return Math.max(1, os.loadavg()[0]! / os.availableParallelism() / FULL_LOAD)
}
