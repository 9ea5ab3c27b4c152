// Which node leads the partition of a call. From the answers of @Statistics TOPO and @SystemCatalog
// PROCEDURES. A wrong guess costs a hop inside the cluster and nothing else, so whatever is not
// understood is left to chance.

import { Ring, token, tokenOfInteger } from './hash.js'
import type { Table } from './reader.js'
import { Type, Typed, type Parameter } from './types.js'

interface Routed {
  parameter: number
  type: number
}

const INTEGERS = new Set<number>([Type.TINYINT, Type.SMALLINT, Type.INTEGER, Type.BIGINT])

export class Topology {
  private ring: Ring | null = null
  private leaders = new Map<number, number>()
  private procedures = new Map<string, Routed>()

  /** Partitions that there are, without the coordinator of transactions over several. */
  partitions(): number[] {
    return [...this.leaders.keys()].sort((a, b) => a - b)
  }

  /** Takes the two tables of @Statistics TOPO. */
  learnTopology(tables: Table[]): void {
    const [sites, hash] = tables
    if (!sites || !hash) return
    const raw = hash.arrays().next().value?.[1]
    const ring = raw instanceof Buffer ? Ring.parse(raw) : null
    const leaders = new Map<number, number>()
    for (const [partition, , leader] of sites.arrays()) {
      const host = Number(/^(\d+):/.exec(String(leader))?.[1] ?? NaN)
      if (typeof partition === 'number' && partition !== 16383 && Number.isInteger(host)) leaders.set(partition, host)
    }
    if (ring) this.ring = ring
    this.leaders = leaders
  }

  /** Takes the table of @SystemCatalog PROCEDURES. */
  learnProcedures(tables: Table[]): void {
    const table = tables[0]
    if (!table) return
    const procedures = new Map<string, Routed>()
    for (const row of table.arrays()) {
      try {
        const remarks = JSON.parse(String(row[6])) as Record<string, unknown>
        const { singlePartition, partitionParameter: parameter, partitionParameterType: type } = remarks
        if (singlePartition === true && typeof parameter === 'number' && parameter >= 0 && typeof type === 'number') {
          procedures.set(String(row[2]), { parameter, type })
        }
      } catch {
        // A remark that is not JSON: this procedure is called anywhere.
      }
    }
    this.procedures = procedures
  }

  /** Host that leads the partition of this call; null: any will do. */
  host(procedure: string, parameters: readonly Parameter[]): number | null {
    const routed = this.procedures.get(procedure)
    if (!routed || !this.ring) return null
    const found = tokenOf(parameters[routed.parameter], INTEGERS.has(routed.type))
    return this.leaders.get(found === null ? 0 : this.ring.owner(found)) ?? null
  }
}

/** Token of a partitioning value; null for NULL, which belongs to partition 0. */
function tokenOf(value: Parameter, integer: boolean): number | null {
  if (value instanceof Typed) return tokenOf(value.value, integer)
  switch (typeof value) {
    case 'number':
      return Number.isSafeInteger(value) ? tokenOfInteger(value) : tokenOfInteger(0)
    case 'bigint':
      return tokenOfInteger(BigInt.asIntN(64, value))
    case 'boolean':
      return tokenOfInteger(value ? 1 : 0)
    case 'string':
      return integer && /^\s*[+-]?\d{1,19}\s*$/.test(value) ? tokenOfInteger(BigInt.asIntN(64, BigInt(value.trim()))) : token(Buffer.from(value))
    default:
      return value instanceof Uint8Array ? token(value) : null
  }
}
