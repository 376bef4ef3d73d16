/**
 * Group commit: what is ready at the same moment shares one transaction. At fifty calls in flight this is the
 * difference between a hundred commits and five.
 */
export interface Batch<Item, Result> {
  add(item: Item): Promise<Result>;
}

/** @param run gets the items in order and returns one result for each, in the same order */
export function batch<Item, Result>(run: (items: Item[]) => Promise<Result[]>): Batch<Item, Result> {
  interface Waiting {
    item: Item;
    resolve(result: Result): void;
    reject(error: unknown): void;
  }
  let waiting: Waiting[] = [];

  async function flush(): Promise<void> {
    const group = waiting;
    waiting = [];
    try {
      const results = await run(group.map(({ item }) => item));
      for (const [position, result] of results.entries()) group[position]?.resolve(result);
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  return {
    add: (item) =>
      new Promise((resolve, reject) => {
        // The first one in opens the door; whoever comes before the event loop turns goes along.
        if (waiting.length === 0) setImmediate(() => void flush());
        waiting.push({ item, resolve, reject });
      }),
  };
}
