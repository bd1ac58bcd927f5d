import { expect, test } from 'vitest'
import { PermanentError, webhookPublisher } from '@txbox/webhook'
import { wireHeaders } from '../../packages/webhook/src/publish/wire-headers.ts'
import { isMessageHeader } from '../../packages/webhook/src/receive/message-headers.ts'
import { HTTP_HEADERS } from '../../packages/webhook/src/schemes/http-headers.ts'
import { outboxMessage } from '../support/subjects/publishing.ts'

const refusal = (name: string) => (): unknown =>
  wireHeaders(outboxMessage({ topic: 'https://a.example', headers: { [name]: 'x' } }), {})
const option = (name: string) => (): unknown => webhookPublisher({ headers: { [name]: 'x' } })

test.for([...HTTP_HEADERS, 'Connection', 'CONTENT-TYPE'])(
  'W8 the header %s is neither a header of a message nor an option, in both directions',
  (name) => {
    expect(refusal(name)).toThrow(PermanentError)
    expect(option(name)).toThrow("the option 'headers'")
    expect(isMessageHeader(name.toLowerCase())).toBe(false)
  },
)

test('W8 the headers of the publisher are reserved, and others of txbox are those of the message', () => {
  for (const name of [
    'webhook-id',
    'Webhook-Anything',
    'txbox-type',
    'txbox-key',
    'txbox-correlation-id',
    'TXBOX-time',
  ]) {
    expect(refusal(name)).toThrow(PermanentError)
    expect(option(name)).toThrow("the option 'headers'")
  }
  for (const name of ['txbox-causation-id', 'content-encoding']) {
    expect(refusal(name)()).toMatchObject({ [name]: 'x' })
    expect(option(name)).toThrow("the option 'headers'")
  }
  expect(refusal('authorization')()).toMatchObject({ authorization: 'x' })
  expect(option('authorization')).not.toThrow()
})
