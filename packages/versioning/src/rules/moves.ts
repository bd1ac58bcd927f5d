import { InvalidOptionError } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'
import { TransitionRefusedError, TransitionTooEarlyError } from '../errors.ts'
import { leadsTo, type StateMachine } from './state-machine.ts'

/** @throws {InvalidOptionError} when `machine` is no state machine, or has no state `to`. */
export function assertState(machine: unknown, to: unknown): void {
  const { states, moves } = Object(machine) as { states?: unknown; moves?: unknown }
  const isMachine =
    Array.isArray(states) &&
    typeof moves === 'object' &&
    moves !== null &&
    states.every(
      (state) =>
        typeof state === 'string' && Object.hasOwn(moves, state) && Array.isArray(Reflect.get(moves, state)),
    )
  if (!isMachine) {
    throw new InvalidOptionError(
      `transition: the option 'machine' must be the result of stateMachine(), not ${nameOf(machine)}.`,
    )
  }
  if (states.includes(to)) return
  throw new InvalidOptionError(
    `transition: the option 'to' must be a state of the machine (${oneLine(states.join(', '), 500)}), not ${nameOf(to)}.`,
  )
}

/**
 * Checks that a `state` that differs from `to`, and from which no single move leads to `to`, has already passed `to`.
 */
export function assertPast(
  row: { readonly doing: string },
  machine: StateMachine<string>,
  state: string | null,
  to: string,
): { status: 'already' } {
  if (state !== null && leadsTo(machine, state, to)) {
    throw new TransitionTooEarlyError(
      `${row.doing} is in the state '${oneLine(state)}', from which '${oneLine(to)}' can only be reached by other moves first. ` +
        'Nothing was written. Try again when these moves have been made.',
      { from: state, to },
    )
  }
  if (state !== null && leadsTo(machine, to, state)) return { status: 'already' }
  throw new TransitionRefusedError(
    `${row.doing} is ${state === null ? 'in no state' : `in the state '${oneLine(state)}'`}, from which '${oneLine(to)}' can never be ` +
      'reached. Nothing was written. Trying again does not help.',
    { from: state, to },
  )
}
