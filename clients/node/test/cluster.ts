// A cluster that is not there: nodes that tell a topology, change it, refuse calls, die in the
// middle of them, and come back. `One` is partitioned on its first parameter, `All` is not.

import { createServer, type Server, type Socket } from 'node:net'
import { Ring, tokenOfInteger } from '../src/hash.js'

export const PARTITIONS = 4
const TOKENS = 8
const COORDINATOR = 16383

/**
 * What a node does with the calls of applications: answers with its host id, answers that it does
 * not lead, or takes them and says nothing.
 */
/** 'silent' answers no call, 'stuck' nothing at all. */
export type Manner = 'serves' | 'refuses' | 'silent' | 'stuck'

interface Node {
  id: number
  port: number
  server: Server
  open: Set<Socket>
  manner: Manner
  up: boolean
  clusterStart: bigint
  view: number[]
  coordinator: number
  pushes: number
}

export class FakeCluster {
  private readonly nodes: Node[] = []
  private got: { host: number; procedure: string }[] = []
  private told: Buffer[] = []
  logins = 0

  /**
   * Nodes that agree: partition p is led by p modulo their number, transactions over several by 0.
   */
  static async of(count: number): Promise<FakeCluster> {
    const cluster = new FakeCluster()
    for (let id = 0; id < count; id++) {
      const node: Node = {
        id,
        port: 0,
        server: createServer((socket) => cluster.accept(node, socket)),
        open: new Set(),
        manner: 'serves',
        up: true,
        clusterStart: 2n,
        view: Array.from({ length: PARTITIONS }, (_, partition) => partition % count),
        coordinator: 0,
        pushes: 0,
      }
      await new Promise<void>((resolve) => node.server.listen(0, '127.0.0.1', resolve))
      node.port = (node.server.address() as { port: number }).port
      cluster.nodes.push(node)
    }
    return cluster
  }

  address(host: number): string {
    return `127.0.0.1:${this.nodes[host]!.port}`
  }
  addresses(): string[] {
    return this.nodes.map((node) => this.address(node.id))
  }

  /** A key of the partition. */
  static keyOf(partition: number): number {
    const ring = Ring.parse(rawRing())!
    let key = 0
    while (ring.owner(tokenOfInteger(key)) !== partition) key++
    return key
  }

  is(host: number, manner: Manner): void {
    this.nodes[host]!.manner = manner
  }
  belongsToAnother(host: number): void {
    this.nodes[host]!.clusterStart = 3n
  }
  /** Says these tables instead of who leads. */
  tells(...tables: Buffer[]): void {
    this.told = tables
  }
  /** From now on this node believes that. */
  believes(host: number, view: number[], coordinator: number): void {
    Object.assign(this.nodes[host]!, { view, coordinator })
  }
  /** The node tells its subscribers what it believes before it answers the next call. */
  pushesBeforeNextAnswer(host: number): void {
    this.nodes[host]!.pushes += 1
  }
  /** Ends its connections, and makes no new ones. */
  dies(host: number): void {
    const node = this.nodes[host]!
    node.up = false
    for (const socket of node.open) socket.destroy()
  }
  comesBack(host: number): void {
    this.nodes[host]!.up = true
  }

  /** What applications called since the last look. */
  calls(): { host: number; procedure: string }[] {
    const calls = this.got.filter(({ procedure }) => !procedure.startsWith('@') || procedure === '@AdHoc')
    this.got = []
    return calls
  }
  /** How often this was asked of a host since the last look at the calls. */
  asked(host: number, procedure: string): number {
    return this.got.filter((each) => each.host === host && each.procedure === procedure).length
  }
  connections(host: number): number {
    return this.nodes[host]!.open.size
  }

  close(): void {
    for (const node of this.nodes) {
      this.dies(node.id)
      node.server.close()
    }
  }

  private accept(node: Node, socket: Socket): void {
    socket.on('error', () => {})
    socket.on('close', () => node.open.delete(socket))
    if (!node.up) {
      socket.destroy()
      return
    }
    node.open.add(socket)
    socket.setNoDelay(true)
    let input = Buffer.alloc(0)
    let loggedIn = false
    socket.on('data', (chunk: Buffer) => {
      input = Buffer.concat([input, chunk])
      while (input.length >= 4 && input.length >= 4 + input.readInt32BE(0)) {
        const frame = input.subarray(4, 4 + input.readInt32BE(0))
        input = input.subarray(4 + frame.length)
        if (loggedIn) socket.write(this.answer(node, frame))
        else {
          loggedIn = true
          this.logins += 1
          socket.write(login(node))
        }
      }
    })
  }

  private answer(node: Node, frame: Buffer): Buffer {
    // Layout 0 or 2: name and handle stand in the same places.
    const length = frame.readInt32BE(1)
    const procedure = frame.toString('utf8', 5, 5 + length)
    const handle = frame.readBigInt64BE(5 + length)
    this.got.push({ host: node.id, procedure })
    if (node.manner === 'stuck') return Buffer.alloc(0)
    switch (procedure) {
      case '@Subscribe':
      case '@Ping':
        return response(handle, 1, null)
      case '@Statistics':
        return this.says(node, handle)
      case '@SystemCatalog':
        return response(handle, 1, null, procedures())
      case '@SystemInformation':
        return response(handle, 1, null, this.overview())
      case '@GetPartitionKeys':
        return response(
          handle,
          1,
          null,
          table(
            [
              ['PARTITION_ID', 5],
              ['PARTITION_KEY', 5],
            ],
            Array.from({ length: PARTITIONS }, (_, partition) => [partition, FakeCluster.keyOf(partition)]),
          ),
        )
    }
    const out: Buffer[] = []
    for (; node.pushes > 0; node.pushes--) out.push(this.says(node, 2n ** 63n - 2n))
    if (node.manner === 'serves') out.push(response(handle, 1, null, table([['', 5]], [[node.id]])))
    if (node.manner === 'refuses') out.push(response(handle, -5, 'this node is not the leader: host 1 is'))
    return Buffer.concat(out)
  }

  private says(node: Node, handle: bigint): Buffer {
    return this.told.length > 0 ? response(handle, 1, null, ...this.told) : this.topology(node, handle)
  }

  private topology(node: Node, handle: bigint): Buffer {
    // Every node has a copy of everything.
    const sites = this.nodes.map((each) => `${each.id}:0`).join(',')
    const rows = node.view.map((host, partition): Cell[] => [partition, sites, `${host}:0`])
    rows.push([COORDINATOR, sites, `${node.coordinator}:0`])
    return response(
      handle,
      1,
      null,
      table(
        [
          ['Partition', 5],
          ['Sites', 9],
          ['Leader', 9],
        ],
        rows,
      ),
      table(
        [
          ['HASHTYPE', 9],
          ['HASHCONFIG', 25],
        ],
        [['ELASTIC', rawRing()]],
      ),
    )
  }

  private overview(): Buffer {
    const rows = this.nodes.flatMap((node): Cell[][] => [
      [node.id, 'IPADDRESS', '127.0.0.1'],
      [node.id, 'HOSTNAME', 'x'],
      [node.id, 'CLIENTPORT', `${node.port}`],
    ])
    return table(
      [
        ['HOST_ID', 5],
        ['KEY', 9],
        ['VALUE', 9],
      ],
      rows,
    )
  }
}

/** Eight tokens, dealt in turn. */
function rawRing(): Buffer {
  const raw = Buffer.alloc(4 + 8 * TOKENS)
  raw.writeInt32BE(TOKENS)
  const step = Math.floor(2147483647 / (TOKENS / 2))
  for (let at = 0; at < TOKENS; at++) {
    raw.writeInt32BE(-2147483648 + at * step, 4 + 8 * at)
    raw.writeInt32BE(at % PARTITIONS, 8 + 8 * at)
  }
  return raw
}

function procedures(): Buffer {
  const names = ['PROCEDURE_CAT', 'PROCEDURE_SCHEM', 'PROCEDURE_NAME', 'R1', 'R2', 'R3', 'REMARKS']
  const one = '{"readOnly":false,"singlePartition":true,"partitionParameter":0,"partitionParameterType":6}'
  const all = '{"readOnly":false,"singlePartition":false}'
  return table(
    names.map((name) => [name, 9]),
    [
      ['', '', 'One', '', '', '', one],
      ['', '', 'All', '', '', '', all],
    ],
  )
}

type Cell = number | string | Buffer

function sized(bytes: Buffer | string): Buffer {
  const content = Buffer.from(bytes as string)
  const length = Buffer.alloc(4)
  length.writeInt32BE(content.length)
  return Buffer.concat([length, content])
}
function integer(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

/**
 * A table with its length in front: columns by name and type (5: INTEGER, 9: VARCHAR, 25:
 * VARBINARY).
 */
export function table(columns: [string, number][], rows: Cell[][]): Buffer {
  const head = Buffer.concat([
    Buffer.from([0x80, columns.length >> 8, columns.length & 255, ...columns.map(([, type]) => type)]),
    ...columns.map(([name]) => sized(name)),
  ])
  const cells = rows.map((row) => sized(Buffer.concat(row.map((cell) => (typeof cell === 'number' ? integer(cell) : sized(cell))))))
  return sized(Buffer.concat([sized(head), integer(rows.length), ...cells]))
}

function response(handle: bigint, status: number, text: string | null, ...tables: Buffer[]): Buffer {
  const fixed = Buffer.alloc(11)
  fixed.writeBigInt64BE(handle, 1)
  fixed.writeUInt8(text === null ? 0 : 0x20, 9)
  fixed.writeInt8(status, 10)
  const behind = Buffer.from([0x80, 0, 0, 0, 0, 0, tables.length])
  return sized(Buffer.concat([fixed, text === null ? Buffer.alloc(0) : sized(text), behind, ...tables]))
}

function login(node: Node): Buffer {
  const body = Buffer.alloc(30)
  body.writeInt32BE(node.id, 2)
  body.writeBigInt64BE(1n, 6)
  body.writeBigInt64BE(node.clusterStart, 14)
  body.writeInt32BE(0x7f000001, 22)
  return sized(body)
}
