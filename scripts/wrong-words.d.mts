export function wrongWords(
  file: string,
  text: string,
): readonly { readonly line: number; readonly word: string; readonly instead: string }[]
