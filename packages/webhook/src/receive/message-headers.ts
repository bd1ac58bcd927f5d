import { CONTENT_ENCODING, HTTP_HEADERS } from '../schemes/http-headers.ts'

/** What clients and proxies add by themselves, and credentials, which must not be stored with a message. */
const REQUEST_HEADERS: ReadonlySet<string> = new Set([
  ...[CONTENT_ENCODING, 'via', 'max-forwards', 'date', 'user-agent'],
  ...['accept', 'accept-charset', 'accept-encoding', 'accept-language'],
  ...['authorization', 'proxy-authorization', 'proxy-authenticate', 'cookie'],
])

/** Whether a header, named in lower case, belongs to the message, and not to one HTTP request. */
export function isMessageHeader(name: string): boolean {
  return (
    !HTTP_HEADERS.has(name) && !REQUEST_HEADERS.has(name) && !name.startsWith('sec-') && !name.startsWith(':')
  )
}
