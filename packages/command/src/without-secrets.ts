const URL_WITH_SECRET = /^([a-z][a-z0-9+.-]*:\/\/).*(@|password=|secret=|token=)/is

/** Returns the URLs with secrets among the arguments of the command, even if they are arguments by mistake. */
function secretUrls(): readonly string[] {
  const words = process.argv.slice(2).flatMap((word) => [word, word.slice(word.indexOf('=') + 1)])
  const environment = [process.env['DATABASE_URL'], process.env['PUBLISHER_URL']]
  return [...words, ...environment].filter(
    (word): word is string => word !== undefined && URL_WITH_SECRET.test(word),
  )
}

/** Removes passwords and other secrets in URLs from text for a terminal or a log. */
export function withoutSecrets(text: string): string {
  let safe = text
  for (const url of secretUrls()) {
    const [, scheme] = URL_WITH_SECRET.exec(url) ?? []
    safe = safe.replaceAll(url, `${scheme}…`)
  }
  return safe
    .replaceAll(/([a-z][a-z0-9+.-]*:\/\/)[^\s'"]*@/gi, '$1…@')
    .replaceAll(/\b(password|passwd|pwd|secret|token)=[^\s&'"]+/gi, '$1=…')
}
