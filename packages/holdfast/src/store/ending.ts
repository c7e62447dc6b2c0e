// An iteration that ends with the first of two signals. AbortSignal.any would say so in one word, but leaves something behind each time in
// a signal that lives as long as its process, such as that of a store.

/** What `begin` gives, until one of the signals aborts. Nothing of it stays in either. */
export async function* untilEither<What>(
  one: AbortSignal,
  other: AbortSignal,
  begin: (signal: AbortSignal) => AsyncIterable<What>,
): AsyncGenerator<What> {
  if (one.aborted || other.aborted) return
  const ending = new AbortController()
  const end = () => ending.abort()
  one.addEventListener('abort', end)
  other.addEventListener('abort', end)
  try {
    yield* begin(ending.signal)
  } finally {
    one.removeEventListener('abort', end)
    other.removeEventListener('abort', end)
  }
}
