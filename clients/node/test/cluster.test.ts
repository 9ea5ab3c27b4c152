// The driver with several nodes: where calls go, and what becomes of them when leaders change and
// nodes die.

import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { CallError, Client, type ClientOptions, type ConnectError } from '../src/index.js'
import { FakeCluster, PARTITIONS, table } from './cluster.js'

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 60_000
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, `in vain for ${what}`)
    await turn()
  }
}

class Setting {
  constructor(
    readonly cluster: FakeCluster,
    readonly client: Client,
  ) {}

  async host(procedure: string, parameters: (number | string | null)[] = []): Promise<number> {
    return (await this.client.call(procedure, parameters)).scalar() as number
  }
  /** The host that a call of the partition reaches; -1 if it reaches none. */
  reached(partition: number): Promise<number> {
    return this.host('One', [FakeCluster.keyOf(partition), 'x']).catch(() => -1)
  }
  async allReached(): Promise<string> {
    const hosts: number[] = []
    for (let partition = 0; partition < PARTITIONS; partition++) hosts.push(await this.reached(partition))
    return hosts.join(',')
  }
  connected(): number {
    return this.client.statistics().connections.filter((each) => each.connected).length
  }
}

async function connected(context: TestContext, cluster: FakeCluster, options: ClientOptions): Promise<Setting> {
  const client = await Client.connect({ reconnect: { minMs: 1, maxMs: 20 }, timeoutMs: 60_000, ...options })
  context.after(async () => {
    await client.close({ drain: false })
    cluster.close()
  })
  return new Setting(cluster, client)
}

/** A client that has learned who leads, and its cluster. */
async function settled(context: TestContext, nodes: number): Promise<Setting> {
  const cluster = await FakeCluster.of(nodes)
  const setting = await connected(context, cluster, { servers: cluster.addresses() })
  const leaders = Array.from({ length: PARTITIONS }, (_, partition) => partition % nodes).join(',')
  await until('the topology', async () => (await setting.allReached()) === leaders && (await setting.allReached()) === leaders)
  for (let host = 0; host < nodes; host++) assert.equal(cluster.asked(host, '@Statistics'), 1)
  cluster.calls()
  return setting
}

test('each call goes to the node that leads what it touches', async (context) => {
  const setting = await settled(context, 3)
  for (let round = 0; round < 5; round++) {
    assert.equal(await setting.allReached(), '0,1,2,0')
    assert.equal(await setting.host('All', [7]), 0)
    assert.equal(await setting.host('@AdHoc', ['SELECT 1']), 0)
    // NULL is of partition 0, a text is converted as the server does.
    assert.equal(await setting.host('One', [null]), 0)
    assert.equal(await setting.host('One', [`${FakeCluster.keyOf(2)}`]), 2)
    await setting.host('One', ['not a number'])
    await setting.host('One')
  }
  const legs = await setting.client.callAllPartitions('One')
  assert.deepEqual(legs.map(({ partition, result }) => [partition, result.scalar()]), [[0, 0], [1, 1], [2, 2], [3, 0]])
})

test('a new leader that was announced gets the next call', async (context) => {
  const setting = await settled(context, 3)
  const { cluster } = setting
  let changes = 0
  setting.client.on('topology', () => (changes += 1))
  cluster.pushesBeforeNextAnswer(1)
  assert.equal(await setting.reached(1), 1)
  assert.equal(changes, 0, 'nothing is new')
  cluster.believes(1, [1, 2, 2, 1], 2)
  cluster.pushesBeforeNextAnswer(1)
  assert.equal(await setting.reached(1), 1)
  assert.equal(changes, 1)
  assert.equal(await setting.allReached(), '1,2,2,1')
  assert.equal(await setting.host('All'), 2)
  cluster.believes(2, [0, 0, 0, 0], 0)
  cluster.pushesBeforeNextAnswer(2)
  assert.equal(await setting.host('All'), 2)
  assert.equal(await setting.allReached(), '0,0,0,0')
})

test('a former leader that is silent is given up, and one that answers is not', async (context) => {
  const setting = await settled(context, 3)
  const { cluster, client } = setting
  // Its machine has lost its power: nobody resets the connection.
  cluster.is(1, 'stuck')
  cluster.is(2, 'silent')
  let slow = 'waits'
  const call = client.call('One', [FakeCluster.keyOf(1)])
  client.call('One', [FakeCluster.keyOf(2)]).catch(() => (slow = 'ended'))
  cluster.believes(0, [0, 0, 0, 0], 0)
  cluster.pushesBeforeNextAnswer(0)
  assert.equal(await setting.reached(0), 0)
  await assert.rejects(call, (error: CallError) => error.outcome === 'unknown' && error.status === -4)
  assert.equal(slow, 'waits', 'it was asked whether it is there, and is')
  assert.equal(await setting.allReached(), '0,0,0,0')
})

test('a leader that dies in a call leaves it unknown, and its successor gets the next', async (context) => {
  const setting = await settled(context, 3)
  const { cluster, client } = setting
  const logins = cluster.logins
  cluster.is(1, 'silent')
  const calls = Array.from({ length: 10 }, () => client.call('One', [FakeCluster.keyOf(1)]))
  const ends = Promise.allSettled(calls)
  await until('the calls to arrive', () => cluster.asked(1, 'One') === 10)
  cluster.calls()
  cluster.dies(1)
  for (const end of await ends) {
    assert.ok(end.status === 'rejected' && end.reason instanceof CallError)
    assert.deepEqual([end.reason.outcome, end.reason.status], ['unknown', -4])
  }
  // Nobody leads partition 1 as far as the client knows: others pass its calls on.
  assert.notEqual(await setting.reached(1), 1)
  assert.equal(cluster.calls().length, 1, 'none of the ten was sent again')
  cluster.believes(0, [0, 2, 2, 0], 0)
  cluster.pushesBeforeNextAnswer(0)
  assert.equal(await setting.reached(0), 0)
  assert.equal(await setting.allReached(), '0,2,2,0')

  // The lost node comes back, without an operator and without being asked for.
  cluster.believes(1, [0, 2, 2, 0], 0)
  cluster.is(1, 'serves')
  cluster.comesBack(1)
  await until("the lost node's connection", () => cluster.logins > logins)
  cluster.believes(2, [0, 1, 2, 0], 0)
  cluster.believes(1, [0, 1, 2, 0], 0)
  cluster.pushesBeforeNextAnswer(2)
  assert.equal(await setting.reached(2), 2)
  await until("the lost node's calls", async () => (await setting.reached(1)) === 1)
})

test('a node that refuses makes the client ask another, and follow', async (context) => {
  const setting = await settled(context, 3)
  const { cluster, client } = setting
  // It is cut off: the others have another leader, and it does not know.
  cluster.is(1, 'refuses')
  cluster.believes(0, [0, 2, 2, 0], 2)
  cluster.believes(2, [0, 2, 2, 0], 2)
  await assert.rejects(client.call('One', [FakeCluster.keyOf(1)]), { outcome: 'failed', status: -5 })
  assert.deepEqual(cluster.calls(), [{ host: 1, procedure: 'One' }], 'a refused call is not sent again')
  await until('the new leader', async () => (await setting.reached(1)) === 2)
  assert.equal(cluster.asked(1, '@Statistics'), 0, 'who is in doubt is not asked')
  assert.equal(await setting.allReached(), '0,2,2,0')
  assert.equal(await setting.host('All'), 2)
})

test('one that is left is asked itself', async (context) => {
  const setting = await settled(context, 2)
  const { cluster, client } = setting
  cluster.dies(0)
  await until('the end of the other connection', () => setting.connected() === 1)
  cluster.is(1, 'refuses')
  cluster.believes(1, [1, 1, 1, 1], 1)
  cluster.calls()
  await assert.rejects(client.call('All'), { status: -5 })
  await until('the question', () => cluster.asked(1, '@Statistics') === 1)
})

test('while nobody leads, the cluster is asked now and then only', async (context) => {
  const setting = await settled(context, 3)
  const { cluster, client } = setting
  for (let host = 0; host < 3; host++) cluster.is(host, 'refuses')
  const begun = performance.now()
  for (let count = 0; count < 1000; count++) await assert.rejects(client.call('All'), { status: -5 })
  const asked = [0, 1, 2].reduce((sum, host) => sum + cluster.asked(host, '@Statistics'), 0)
  assert.ok(asked <= 1 + (performance.now() - begun) / 99, `${asked} times`)
})

test('of what is not known calls go to all in turn', async (context) => {
  for (const told of [table([], []), table([['X', 5]], [[1]])]) {
    const cluster = await FakeCluster.of(2)
    cluster.tells(told)
    const setting = await connected(context, cluster, { servers: cluster.addresses() })
    const reached = [0, 0]
    for (let count = 0; count < 20; count++) reached[await setting.host('All')]! += 1
    assert.deepEqual(reached, [10, 10])
  }
})

test('other nodes are found, connected once, and followed', async (context) => {
  const cluster = await FakeCluster.of(3)
  // The same node under another name.
  const setting = await connected(context, cluster, { servers: cluster.address(1).replace('127.0.0.1', 'localhost') })
  await until('all nodes', async () => (await setting.allReached()) === '0,1,2,0')
  assert.deepEqual([0, 1, 2].map((host) => cluster.connections(host)), [1, 1, 1])
  cluster.dies(1)
  await until('the end of its connection', () => setting.connected() === 2)
  cluster.believes(0, [0, 2, 2, 0], 2)
  cluster.pushesBeforeNextAnswer(0)
  await until('the new leader', async () => (await setting.allReached()) === '0,2,2,0')
  cluster.comesBack(1)
  await until('its return', () => setting.connected() === 3)
  await until('one connection each', () => [0, 1, 2].every((host) => cluster.connections(host) === 1))
})

test('nodes that were not named are left alone', async (context) => {
  const cluster = await FakeCluster.of(2)
  const setting = await connected(context, cluster, { servers: cluster.address(1), discover: false })
  await until('the question', () => cluster.asked(1, '@Statistics') === 1)
  assert.equal(await setting.allReached(), '1,1,1,1')
  assert.deepEqual([cluster.connections(0), cluster.asked(1, '@SystemInformation')], [0, 0])
})

test('a node of another cluster gets no calls', async (context) => {
  const cluster = await FakeCluster.of(2)
  cluster.belongsToAnother(1)
  const setting = await connected(context, cluster, { servers: cluster.addresses(), discover: false })
  let refused = 0
  setting.client.on('connect-failed', (error: ConnectError) => {
    if (error.code === '08004' && !error.permanent) refused += 1
  })
  await until('another attempt', () => refused > 1)
  // Which of the two was there first is chance.
  const first = await setting.reached(0)
  for (let count = 0; count < 10; count++) assert.equal(await setting.reached(count % PARTITIONS), first)
  cluster.dies(first)
  await until('the other one', async () => (await setting.reached(0)) === 1 - first)
})

test('what was never written goes to another node', async (context) => {
  const setting = await settled(context, 2)
  const { cluster, client } = setting
  const calls = Array.from({ length: 5 }, () => client.call('One', [FakeCluster.keyOf(1)]))
  // In the same turn of the event loop: nothing was written yet.
  const connections = (client as unknown as { byHost: Map<number, { end(why: string): void }[]> }).byHost
  connections.get(1)![0]!.end('it broke')
  for (const call of calls) assert.equal((await call).scalar(), 0)
  assert.equal(cluster.calls().length, 5, 'each was sent once')
})

test('neither a push of another shape nor a listener that throws ends a connection', async (context) => {
  const setting = await settled(context, 2)
  const { cluster, client } = setting
  const before = cluster.logins
  // Of a type that the driver does not know.
  const strange = table([['X', 99]], [[1]])
  cluster.tells(strange, strange)
  cluster.pushesBeforeNextAnswer(0)
  assert.equal(await setting.reached(0), 0)
  cluster.tells()
  const thrown: string[] = []
  // The test runner listens, too.
  const others = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  process.on('uncaughtException', (error: Error) => void thrown.push(error.message))
  context.after(() => {
    process.removeAllListeners('uncaughtException')
    others.forEach((other) => process.on('uncaughtException', other))
  })
  client.on('topology', () => {
    throw new Error('of the application')
  })
  cluster.believes(0, [1, 1, 1, 1], 1)
  cluster.pushesBeforeNextAnswer(0)
  assert.equal(await setting.reached(0), 0)
  assert.equal(await setting.reached(0), 1, 'the push was heard')
  await until('the error', () => thrown.length > 0)
  assert.deepEqual([thrown[0], cluster.logins, setting.connected()], ['of the application', before, 2])
})
