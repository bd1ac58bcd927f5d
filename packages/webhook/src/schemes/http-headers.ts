/**
 * Headers that HTTP obeys, or that describe one request and its body. The publisher and Node.js set them, so that neither a message nor an
 * option may, and they are no headers of a message that is received.
 */
export const HTTP_HEADERS: ReadonlySet<string> = new Set([
  ...['host', 'connection', 'keep-alive', 'proxy-connection', 'upgrade', 'http2-settings'],
  ...['content-length', 'content-type', 'transfer-encoding', 'te', 'trailer', 'expect'],
])

/** How a body is compressed. A message that was published compressed brings this header along; to an inbox it is no header of the message. */
export const CONTENT_ENCODING = 'content-encoding'
