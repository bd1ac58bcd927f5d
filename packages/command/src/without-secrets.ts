const URL_WITH_SECRET = /^([a-z][a-z0-9+.-]*:\/\/).*(@|password=|secret=|token=)/is

/** Finds the URLs with secrets among the arguments of the command, even where they were put by mistake. */
function given(): readonly string[] {
  const words = process.argv.slice(2).flatMap((word) => [word, word.slice(word.indexOf('=') + 1)])
  const environment = [process.env['DATABASE_URL'], process.env['PUBLISHER_URL']]
  return [...words, ...environment].filter(
    (word): word is string => word !== undefined && URL_WITH_SECRET.test(word),
  )
}

/** Returns text for a terminal or a log in which URLs do not show their passwords. */
export function withoutSecrets(text: string): string {
  let safe = text
  for (const url of given()) {
    const [, scheme] = URL_WITH_SECRET.exec(url) ?? []
    safe = safe.replaceAll(url, `${scheme}…`)
  }
  return safe
    .replaceAll(/([a-z][a-z0-9+.-]*:\/\/)[^\s'"]*@/gi, '$1…@')
    .replaceAll(/\b(password|passwd|pwd|secret|token)=[^\s&'"]+/gi, '$1=…')
}
