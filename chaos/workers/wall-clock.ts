// Loaded before everything else in a worker: lets the driver shift the wall clock of this process. The monotonic clock
// of `performance` stays as it is, as it does when an operator or NTP sets the clock of a machine.
import process from 'node:process'
import type { ToWorker } from './worker-protocol.ts'

const RealDate = Date
let offsetMs = 0

class ShiftedDate extends RealDate {
  constructor(...args: unknown[]) {
    if (args.length === 0) super(RealDate.now() + offsetMs)
    else super(...(args as [number]))
  }

  static override now(): number {
    return RealDate.now() + offsetMs
  }
}

globalThis.Date = ShiftedDate as DateConstructor

process.on('message', (message: ToWorker) => {
  if (message.what === 'clock') offsetMs = message.offsetMs
})
