/** The event that the receiver publishes and the second service follows. */
export interface RepositoryChanged {
  readonly repository: string
  /** 1 for the first change of this repository, 2 for the second: the second service must see them in this order. */
  readonly number: number
  readonly deliveryId: string
  /** The kind of event, by GitHub's name: `push`, `issues`, … */
  readonly event: string
}
