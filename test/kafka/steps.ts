import type { Step } from '../support/subjects/steps.ts'
import { idOf } from './kafka-under-test.ts'
import type { StoredRecord } from './topic-log.ts'

/** The steps in records, for `numbersByKey`. */
export function stepsIn(records: readonly StoredRecord[]): { id: string; step: Step }[] {
  return records.map((record) => ({ id: idOf(record), step: JSON.parse(String(record.value)) as Step }))
}
