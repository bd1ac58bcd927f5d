import { refusalIn } from './aws-errors.ts'
import type { AwsService } from './aws-service.ts'

/**
 * Asks the service for one queue or topic. The refusal of a user who may not ask shows that the login works.
 *
 * @throws {BrokerUnavailableError} when the service cannot be reached, or does not take the credentials; the signal's reason when the
 *   signal is aborted.
 */
export async function checkLogin(service: AwsService, signal: AbortSignal): Promise<void> {
  try {
    if (service.name === 'SQS') await service.call('ListQueues', { MaxResults: 1 }, signal)
    else await service.call('ListTopics', {}, signal)
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (refusalIn(error)?.kind !== 'forbidden') throw service.unavailable(error)
  }
}
