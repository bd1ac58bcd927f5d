/** An action on the system, or the state of the system at a moment. */
export interface TimelineEvent {
  readonly kind: 'fault' | 'phase' | 'violation'
  /** The kind of fault, or the name of the phase. */
  readonly name: string
  readonly text: string
  readonly fromMs: number
  readonly toMs: number
  readonly step?: number
}

export interface Sample {
  readonly atMs: number
  /** Copies recorded so far, and effects. */
  readonly published: number
  readonly processed: number
}

export class Timeline {
  readonly startedAtMs = Date.now()
  readonly events: TimelineEvent[] = []
  readonly samples: Sample[] = []
  readonly #listener: (event: TimelineEvent) => void

  constructor(listener: (event: TimelineEvent) => void) {
    this.#listener = listener
  }

  add(event: TimelineEvent): void {
    this.events.push(event)
    this.#listener(event)
  }

  now(kind: 'phase' | 'violation', name: string, text: string): void {
    const now = Date.now()
    this.add({ kind, name, text, fromMs: now, toMs: now })
  }
}
