// Which node leads what a call touches. From the answers of @Statistics TOPO and @SystemCatalog
// PROCEDURES. A wrong guess costs a hop inside the cluster and nothing else, so whatever is not
// understood is left to chance.

import { Ring, token, tokenOfInteger } from './hash.js'
import type { Table } from './reader.js'
import { Type, Typed, type Parameter } from './types.js'

/** What decides the partition of a procedure's call; parameter -1: the caller names it. */
interface Routed {
  parameter: number
  type: number
}

/** A node, and where it takes connections. */
export interface Host {
  id: number
  host: string
  port: number
}

const COORDINATOR = 16383
const HOSTS_MAX = 256

const INTEGERS = new Set<number>([Type.TINYINT, Type.SMALLINT, Type.INTEGER, Type.BIGINT])

export class Topology {
  private ring: Ring | null = null
  private leaders = new Map<number, number>()
  private procedures = new Map<string, Routed>()
  /** All hosts that have a copy of something. */
  hosts = new Set<number>()

  /** Takes the two tables of @Statistics TOPO. True if another node leads something. */
  learnTopology(tables: Table[]): boolean {
    const [sites, hash] = tables
    if (!sites || !hash) return false
    const raw = hash.arrays().next().value?.[1]
    const leaders = new Map<number, number>()
    const hosts = new Set<number>()
    for (const [partition, places, leader] of sites.arrays()) {
      for (const place of String(places).split(',')) {
        const copy = hostOf(place)
        if (copy !== null) hosts.add(copy)
      }
      const host = hostOf(String(leader))
      if (host === null) continue
      hosts.add(host)
      if (typeof partition === 'number') leaders.set(partition, host)
    }
    const before = this.leaders
    this.ring = raw instanceof Buffer ? Ring.parse(raw) : null
    this.leaders = leaders
    this.hosts = hosts
    return before.size !== leaders.size || [...leaders].some(([partition, host]) => before.get(partition) !== host)
  }

  /** The hosts that lead something. */
  leading(): Set<number> {
    return new Set(this.leaders.values())
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
        if (singlePartition === true && typeof parameter === 'number' && typeof type === 'number') {
          procedures.set(String(row[2]), { parameter, type })
        }
      } catch {
        // A remark that is not JSON: this procedure is called anywhere.
      }
    }
    this.procedures = procedures
  }

  /** Host that leads a partition; null: any will do. */
  leader(partition: number): number | null {
    return this.leaders.get(partition) ?? null
  }

  /**
   * Host that leads the partition of this call or, if it has none of its own, transactions over
   * several; null: any will do.
   */
  host(procedure: string, parameters: readonly Parameter[]): number | null {
    const routed = this.procedures.get(procedure)
    if (!routed) return this.leader(COORDINATOR)
    if (!this.ring || routed.parameter < 0 || routed.parameter >= parameters.length) return null
    const found = tokenOf(parameters[routed.parameter], INTEGERS.has(routed.type))
    return this.leader(found === null ? 0 : this.ring.owner(found))
  }
}

/** The host of `host:site`. */
function hostOf(place: string): number | null {
  const host = /^(\d{1,9}):/.exec(place)?.[1]
  return host === undefined ? null : Number(host)
}

/** The nodes of @SystemInformation OVERVIEW that say where they take connections. */
export function hostsOf(overview: Table | undefined): Host[] {
  const rows = new Map<number, Map<string, string>>()
  for (const [id, key, value] of overview?.arrays() ?? []) {
    if (typeof id !== 'number') continue
    let values = rows.get(id)
    if (!values && rows.size < HOSTS_MAX) rows.set(id, (values = new Map()))
    values?.set(String(key), String(value))
  }
  const hosts: Host[] = []
  for (const [id, values] of rows) {
    const [host, port] = [values.get('IPADDRESS'), Number(values.get('CLIENTPORT'))]
    if (host && Number.isInteger(port) && port > 0 && port <= 65535) hosts.push({ id, host, port })
  }
  return hosts
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
