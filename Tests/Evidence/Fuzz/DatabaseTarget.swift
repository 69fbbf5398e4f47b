import Glibc
import SharedBreaker
import SharedBreakerTesting
import TestSupport

/// Opens a store whose files have been damaged.
///
/// Whatever the files hold, they are used, or refused with a reason, in bounded time, and they are
/// never deleted.
enum DatabaseTarget {
  static func run(_ bytes: [UInt8]) {
    do {
      var bytes = FuzzBytes(bytes)
      var database = FuzzStore.seed[0]
      var log = FuzzStore.seed[1]
      var statements: [String] = []
      for _ in 0..<32 where !bytes.isEmpty {
        switch bytes.number(below: 8) {
        case 0: database = Array(database.prefix(bytes.number(below: 65_536)))
        case 1: log = Array(log.prefix(bytes.number(below: 32_768)))
        case 2...3: patch(&database, &bytes)
        case 4: patch(&log, &bytes)
        default: statements.append(Cells.statement(&bytes))
        }
      }
      try use(database, log, statements)
    } catch {
      fatalError("\(error)")
    }
  }

  /// Overwrites a few bytes of a page, more often at its beginning than elsewhere.
  private static func patch(_ file: inout [UInt8], _ bytes: inout FuzzBytes) {
    let page = bytes.number(below: 128) * 1_024
    let at = page + bytes.number(below: bytes.number(below: 2) == 0 ? 128 : 1_024)
    for (offset, byte) in bytes.bytes(1 + bytes.number(below: 16)).enumerated()
    where at + offset < file.count { file[at + offset] = byte }
  }

  private static func use(_ database: [UInt8], _ log: [UInt8], _ statements: [String]) throws {
    let clock = try FuzzStore.restore(database: database, log: log, counters: FuzzStore.seed[2])
    var isWhole = database == FuzzStore.seed[0] && log == FuzzStore.seed[1]
    for statement in statements where isWhole || !log.isEmpty {
      // SQLite may refuse this if the file is damaged already.
      do { try Database.rows(FuzzStore.path, statement) } catch { isWhole = false }
    }
    let before = try Files.read(FuzzStore.path)
    let options = StoreOptions(
      lockTimeout: .milliseconds(20), program: "fuzz", clock: clock.storeClock)
    let store = SharedStore(path: FuzzStore.path, options: options)
    do throws(StoreError) {
      try store.connectToExisting()
    } catch {
      expectReadable(error.description)
      expect(error.kind != .missing || before.isEmpty, "\(error)")
      expect(try Files.read(FuzzStore.path) == before, "a file that was refused was written to")
      return
    }
    look(at: store)
    try work(with: store, clock)
    look(at: store)
    store.close()
    expect(Files.exists(FuzzStore.path), "the file is gone")
    expect(try before.isEmpty || !Files.read(FuzzStore.path).isEmpty, "the file was emptied")
  }

  /// Reads everything that `status`, `show` and `history` read.
  private static func look(at store: SharedStore) {
    do throws(StoreError) {
      for name in try store.names() {
        _ = try store.declarations(of: name)
        if let snapshot = try store.snapshot(of: name) { expectPossible(snapshot) }
      }
      for snapshot in try store.snapshots() { expectPossible(snapshot) }
      _ = try store.history()
      _ = try store.history(of: "row", limit: 5)
    } catch {
      expectReadable(error.description)
    }
  }

  private static func expectPossible(_ snapshot: BreakerSnapshot) {
    for count in [
      snapshot.consecutiveFailures, snapshot.windowCalls, snapshot.windowFailures,
      snapshot.windowSlow, snapshot.trips, snapshot.generation, snapshot.totals.successes,
      snapshot.totals.failures, snapshot.totals.rejections,
    ] {
      expect(count >= 0, "\(snapshot)")
    }
    do throws(PolicyError) { try snapshot.policy.validate() } catch {
      fatalError("a policy in force cannot be used: \(error)")
    }
  }

  /// Checks that calls can be made whatever the file holds, and that each breaker can be closed.
  private static func work(with store: SharedStore, _ clock: ManualClock) throws {
    for (name, policy) in FuzzStore.policies {
      let breaker = try store.breaker(name, policy: policy)
      for round in 0..<12 {
        do throws(BreakerError) {
          let permit = try breaker.acquire()
          if round % 3 == 0 { permit.succeed() } else { permit.fail(error: "refused") }
        } catch {
          guard case .rejected = error else { throw error }
        }
      }
      _ = breaker.snapshot()
      clock.advance(by: .seconds(400 * 86_400))
      do throws(BreakerError) {
        try breaker.reset()
        expect(breaker.snapshot().state == .closed, "a reset does not close")
      } catch {
        expectReadable(error.description)
      }
      do throws(BreakerError) { try breaker.acquire().succeed() } catch {
        expectReadable(error.description)
      }
    }
  }
}
