import { inject } from 'vitest'

/** The steps at which a program is killed: all of them, and in the quick tier every third one. */
export function stepsOfTier<S>(steps: Readonly<Record<string, S>>): [when: string, step: S][] {
  return Object.entries(steps).filter((_, n) => inject('tier') === 'all' || n % 3 === 0)
}
