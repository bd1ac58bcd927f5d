const CHARACTERS = /^(?:[\w\-.~:/?#[\]@!$&'()*+,;=]|%[\da-f]{2})+$/i

/** Returns whether this is a URI, or a reference to one such as `/orders` (RFC 3986), and not empty. */
export function isUriReference(text: string): boolean {
  return CHARACTERS.test(text)
}
