import { propertyOf } from '@txbox/core/internal'
import type { Refusal } from './client-errors.ts'

/** Kafka's answer for the records of one partition. Code 0: they are stored. */
export interface PartitionAnswer extends Refusal {
  /** The places of the records in their batch because of which the whole batch was refused, as far as Kafka names them. */
  readonly culprits: ReadonlyMap<number, string>
}

export function partitionName(topic: string, partition: number): string {
  return `${topic}:${partition}`
}

/**
 * Reads the answers for single partitions from the response to a produce request. A partition that is not in the result has no answer:
 * nothing is known.
 */
export function answersIn(response: unknown): Map<string, PartitionAnswer> {
  const answers = new Map<string, PartitionAnswer>()
  for (const topic of listOf(propertyOf(response, 'responses'))) {
    const name = String(propertyOf(topic, 'name'))
    for (const partition of listOf(propertyOf(topic, 'partitionResponses'))) {
      answers.set(partitionName(name, Number(propertyOf(partition, 'index'))), answerOf(partition))
    }
  }
  return answers
}

function answerOf(partition: unknown): PartitionAnswer {
  const text = propertyOf(partition, 'errorMessage')
  const culprits = listOf(propertyOf(partition, 'recordErrors')).map((record): [number, string] => {
    const own = propertyOf(record, 'batchIndexErrorMessage')
    return [Number(propertyOf(record, 'batchIndex')), typeof own === 'string' ? own : '']
  })
  return {
    code: Number(propertyOf(partition, 'errorCode')),
    ...(typeof text === 'string' && text !== '' && { text }),
    culprits: new Map(culprits),
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : []
}
