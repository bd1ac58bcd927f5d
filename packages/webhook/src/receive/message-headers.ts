/**
 * Headers that belong to one HTTP request and not to its message: those that HTTP obeys, those that clients add by themselves, and
 * credentials, which must not be stored with a message.
 */
const REQUEST_HEADERS: ReadonlySet<string> = new Set([
  ...[
    'host',
    'connection',
    'keep-alive',
    'content-length',
    'content-type',
    'content-encoding',
    'transfer-encoding',
  ],
  ...['expect', 'upgrade', 'te', 'trailer', 'via', 'max-forwards', 'date', 'http2-settings'],
  ...['accept', 'accept-charset', 'accept-encoding', 'accept-language', 'user-agent'],
  ...['authorization', 'proxy-authorization', 'proxy-authenticate', 'proxy-connection', 'cookie'],
])

/** Whether a header, named in lower case, belongs to the message. */
export function isMessageHeader(name: string): boolean {
  return !REQUEST_HEADERS.has(name) && !name.startsWith('sec-') && !name.startsWith(':')
}
