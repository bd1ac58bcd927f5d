import { InvalidOptionError } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'

/** States, and the states that may follow each of them. */
export interface StateMachine<S extends string> {
  readonly states: readonly S[]
  readonly moves: Readonly<Record<S, readonly S[]>>
}

/**
 * Defines a state machine: for each state, the states that may follow it.
 *
 * @throws {InvalidOptionError} when there is no state, or a move leads to an unknown state.
 */
export function stateMachine<const M extends Record<string, readonly (keyof M & string)[]>>(
  moves: M,
): StateMachine<keyof M & string> {
  if (typeof moves !== 'object' || moves === null || Object.keys(moves).length === 0) {
    throw new InvalidOptionError(
      `stateMachine: expected an object with a list of the following states for each state, not ${nameOf(moves)}.`,
    )
  }
  const states = Object.keys(moves) as (keyof M & string)[]
  const checked = states.map((state) => {
    const next: unknown = moves[state]
    if (!Array.isArray(next)) {
      throw new InvalidOptionError(
        `stateMachine: '${oneLine(state)}' must have a list of states, not ${nameOf(next)}.`,
      )
    }
    for (const to of next as unknown[]) {
      if (typeof to === 'string' && Object.hasOwn(moves, to)) continue
      const other = typeof to === 'string' ? `'${oneLine(to)}'` : nameOf(to)
      throw new InvalidOptionError(
        `stateMachine: '${oneLine(state)}' leads to ${other}, which is not a state of the machine: ${oneLine(states.join(', '), 500)}.`,
      )
    }
    return [state, Object.freeze([...(next as (keyof M & string)[])])] as const
  })
  return Object.freeze({
    states: Object.freeze(states),
    moves: Object.freeze(Object.fromEntries(checked)) as Record<
      keyof M & string,
      readonly (keyof M & string)[]
    >,
  })
}

/** Returns the states from which one move leads to `to`. */
export function statesBefore(machine: StateMachine<string>, to: string): readonly string[] {
  return machine.states.filter((state) => machine.moves[state]?.includes(to))
}

/** Returns whether a path of one or more moves leads from one state to another. */
export function leadsTo(machine: StateMachine<string>, from: string, to: string): boolean {
  const seen = new Set<string>()
  const open = [from]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const next of Object.hasOwn(machine.moves, at) ? machine.moves[at]! : []) {
      if (next === to) return true
      if (!seen.has(next)) open.push(next)
      seen.add(next)
    }
  }
  return false
}
