// What a successful call gives.

import type { Response, Row } from './reader.js'
import { Table } from './reader.js'
import type { Value } from './types.js'

export class Result<R = Row> implements Iterable<R> {
  readonly tables: Table<R>[]
  readonly statusText: string | null
  /** Status that the procedure set, or null. */
  readonly applicationStatus: number | null
  readonly applicationStatusText: string | null
  /** Milliseconds that the server spent on the call. */
  readonly serverMs: number

  constructor(response: Response) {
    this.tables = response.tables as unknown as Table<R>[]
    this.statusText = response.statusText
    this.applicationStatus = response.applicationStatus
    this.applicationStatusText = response.applicationStatusText
    this.serverMs = response.serverMs
  }

  /** The first table; throws if there is none. */
  get table(): Table<R> {
    const table = this.tables[0]
    if (!table) throw new RangeError('the procedure returned no table')
    return table
  }
  /**
   * First column of the first row of the first table: the number that a procedure returned, or the
   * rows that a statement changed.
   */
  scalar(): Value {
    return this.tables[0]?.scalar() ?? null
  }
  /** Rows of the first table. */
  rows(): R[] {
    return this.tables[0]?.rows() ?? []
  }
  [Symbol.iterator](): Iterator<R> {
    return this.rows()[Symbol.iterator]()
  }
}
