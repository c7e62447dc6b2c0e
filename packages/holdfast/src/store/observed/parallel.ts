// Many at once, but not all: an engine must not be met by ten thousand requests in one moment.

/** Does `work` for each, at most so many at a time; the outcomes in order. `work` must not reject. */
export async function inParallel<Item, Outcome>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<Outcome>,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = new Array(items.length)
  let next = 0
  const worker = async () => {
    for (let place = next++; place < items.length; place = next++) outcomes[place] = await work(items[place] as Item)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker))
  return outcomes
}
