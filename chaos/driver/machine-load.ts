import os from 'node:os'

/** With more runnable processes per core than this, the machine is overloaded, and time limits prove little. */
const FULL_LOAD = 2.5

/**
 * The factor by which work may take longer because other programs use this machine: 1 if it is not overloaded.
 * Without a figure for the load, as on Windows, always 1.
 */
export function machineStretch(): number {
  return Math.max(1, os.loadavg()[0]! / os.availableParallelism() / FULL_LOAD)
}
