import http from 'node:http'
import { onTestFinished } from 'vitest'

/** What the server answers to a request. */
export interface Answer {
  readonly status: number
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

/** An answer of SQS with an error. */
export function sqsError(status: number, code: string, message: string): Answer {
  return {
    status,
    body: JSON.stringify({ __type: `com.amazonaws.sqs#${code}`, message }),
    headers: { 'content-type': 'application/x-amz-json-1.0' },
  }
}

/** An answer of SNS with an error. */
export function snsError(status: number, code: string, message: string): Answer {
  return {
    status,
    body: `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`,
    headers: { 'content-type': 'text/xml' },
  }
}

/**
 * A server that gives the answers that no stand-in of SQS can be made to give. @param answer is called with the name of the
 * operation and what was sent. @returns its address as an endpoint.
 */
export async function answeringServer(answer: (operation: string, sent: string) => Answer): Promise<string> {
  const server = http.createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const sent = Buffer.concat(parts).toString()
      const operation =
        String(request.headers['x-amz-target'] ?? '').replace('AmazonSQS.', '') ||
        (new URLSearchParams(sent).get('Action') ?? '')
      const { status, body, headers = {} } = answer(operation, sent)
      response.writeHead(status, headers).end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
}
