import { CALM, type Mode } from '../workers/worker-protocol.ts'
import type { Fleet } from './fleet.ts'

/** The switches that several faults can set on the workers at the same time. */
export class Modes {
  readonly #fleet: Fleet
  readonly #active = new Set<Partial<Mode>>()
  #base: Mode = CALM

  constructor(fleet: Fleet) {
    this.#fleet = fleet
  }

  behave(mode: Partial<Mode>): { over(): void } {
    this.#active.add(mode)
    this.#update()
    return {
      over: () => {
        this.#active.delete(mode)
        this.#update()
      },
    }
  }

  /** From now on ill messages do no harm, and the workers misbehave no more on purpose. */
  heal(): void {
    this.#base = { ...CALM, redeliver: 0, healed: true }
    this.#active.clear()
    this.#update()
  }

  #update(): void {
    this.#fleet.mode = Object.assign({ ...this.#base }, ...this.#active) as Mode
  }
}
