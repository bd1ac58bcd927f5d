import type { LocalConsumerFigures } from '@txbox/core/ports'
import { readableDuration, readableNumber } from '@txbox/core/internal'
import { table } from './layout.ts'
import { boundedNumber, highlight, paint } from './terminal.ts'
import { visible } from './visible.ts'

const TYPES = 5

/** One row for each local consumer. */
export function consumersTable(consumers: readonly LocalConsumerFigures[]): string {
  const rows = consumers.map((each) => [
    visible(each.name),
    each.runsNow ? 'yes' : paint('yellow', 'no'),
    boundedNumber(each.waiting),
    highlight(each.parked.count, boundedNumber(each.parked), 'yellow'),
    boundedNumber(each.scheduled),
    highlight(each.dead.count, boundedNumber(each.dead), 'red'),
    each.oldestDue === undefined ? '' : readableDuration(each.oldestDue.ageMs),
    typesOf(each),
  ])
  const head = ['consumer', 'runs', 'waiting', 'parked', 'scheduled', 'dead', 'oldest due', 'types']
  return table(head, rows)
}

function typesOf({ types, unhandled }: LocalConsumerFigures): string {
  const shown = types.slice(0, TYPES).map(visible).join(', ')
  const more = types.length > TYPES ? ` and ${readableNumber(types.length - TYPES)} more` : ''
  if (unhandled.length === 0) return shown + more
  return `${shown}${more}${types.length === 0 ? '' : '; '}${paint('yellow', `no handler for ${unhandled.map(visible).join(', ')}`)}`
}
