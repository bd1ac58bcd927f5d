import { propertyOf } from '@txbox/core/internal'
import { errorsIn, type Refusal } from './client-errors.ts'

/** Kafka's answer for the records of one partition. Code 0: they are stored. */
export interface PartitionAnswer extends Refusal {
  /** The places of the records in their batch because of which the whole batch was refused, as far as Kafka names them. */
  readonly culprits: ReadonlyMap<number, string>
}

export const STORED: PartitionAnswer = { code: 0, culprits: new Map() }

export function partitionName(topic: string, partition: number): string {
  return `${topic}:${partition}`
}

/**
 * Reads the answers for single partitions from the error of a produce request: one partition that is refused makes the whole request
 * fail, although the others may be stored. A partition that is not in the result has no answer: nothing is known.
 */
export function answersIn(error: unknown): Map<string, PartitionAnswer> {
  const answers = new Map<string, PartitionAnswer>()
  // Brokers that answered without an error.
  for (const stored of listOf(propertyOf(propertyOf(error, 'produced'), 'offsets'))) {
    const partition = propertyOf(stored, 'partition')
    answers.set(partitionName(String(propertyOf(stored, 'topic')), Number(partition)), STORED)
  }
  for (const each of errorsIn(error)) {
    for (const topic of listOf(propertyOf(propertyOf(each, 'response'), 'responses'))) {
      const name = String(propertyOf(topic, 'name'))
      for (const partition of listOf(propertyOf(topic, 'partitionResponses'))) {
        answers.set(partitionName(name, Number(propertyOf(partition, 'index'))), answerOf(partition))
      }
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
