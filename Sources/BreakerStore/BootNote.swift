internal import BreakerCore

/// When this boot began, by the wall clock as the first process of the boot has read it.
///
/// What began before the boot is dated by it. The wall clock itself would not do: who sets it would
/// make what has passed since then longer or shorter from one look to the next.
struct BootNote: Hashable {
  var boot: Int64
  var bootedAtMilliseconds: Int64

  init(boot: Int64, bootedAtMilliseconds: Int64) {
    self.boot = boot
    self.bootedAtMilliseconds = bootedAtMilliseconds
  }

  /// What the clocks say now.
  init(_ clock: StoreClock) {
    let now = clock.moment
    boot = clock.boot
    bootedAtMilliseconds = now.wallMilliseconds.subtractingSaturating(
      now.boot.nanoseconds / 1_000_000)
  }

  /// What the store has noted of this boot, which is written by the first to open it.
  static func taken(
    on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> BootNote {
    let own = BootNote(clock)
    if let found = try noted(of: own.boot, on: connection) { return found }
    do throws(StoreError) {
      // Nobody waits long for it: whoever opens the store next can write it as well.
      return try connection.waiting(until: Patience.deadline(after: .milliseconds(10))) {
        () throws(StoreError) in
        try connection.write { () throws(StoreError) in
          if let found = try noted(of: own.boot, on: connection) { return found }
          try own.save(on: connection)
          return own
        }
      }
    } catch {
      // Not to be written is no reason not to be read.
      return own
    }
  }

  /// Writes it down, inside a transaction of the caller's.
  func save(on connection: Connection) throws(StoreError) {
    let note = try connection.prepare("UPDATE store SET boot = ?1, booted_at_ms = ?2")
    note.bind(1, boot)
    note.bind(2, bootedAtMilliseconds)
    try note.run()
  }

  private static func noted(
    of boot: Int64, on connection: Connection
  ) throws(StoreError) -> BootNote? {
    let query = try connection.prepare("SELECT booted_at_ms FROM store WHERE boot = ?1")
    query.bind(1, boot)
    return try query.rows { BootNote(boot: boot, bootedAtMilliseconds: $0.integer(0)) }.first
  }
}
