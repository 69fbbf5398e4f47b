import FaultShim
import Glibc
import SharedBreaker
import TestSupport

/// A process that is stopped while it makes a store, and one that uses the store meanwhile.
enum StoppedMaker {
  /// Makes a store with a breaker, for a group if one is named, and stops before a step; prints how many
  /// steps there were.
  static func make(
    in directory: String, stoppingBefore step: Int32, group: String? = nil
  ) throws {
    unsafe fault_set_place(directory)
    stop_before_step(step)
    let store = store(in: directory, HandClock(), .seconds(60), group: group)
    try store.connect()
    try fail(try store.breaker("made"))
    store.close()
    print("made in \(stop_steps()) steps")
  }

  /// The longest wait of the process that uses the store meanwhile, in milliseconds.
  static let timeout: Int64 = 50

  /// Makes a call a second, and prints for each how many microseconds it has waited; then, when a line
  /// has come, makes calls until one reaches the store.
  ///
  /// With `isOpen` it has used the store before, and begins when a line has come.
  static func beside(in directory: String, isOpen: Bool) throws {
    let clock = HandClock()
    let store = store(in: directory, clock, .milliseconds(timeout))
    let breaker = try store.breaker("beside")
    if isOpen {
      try fail(breaker)
      say("\(store.health)")
      _ = readLine()
      clock.time += 1_000_000_000
    }
    var waits: [Int64] = []
    for _ in 0..<4 {
      let before = stop_nanoseconds_slept()
      try fail(breaker)
      waits.append((stop_nanoseconds_slept() - before) / 1_000)
      clock.time += 1_000_000_000
    }
    say(waits.map { "\($0)" }.joined(separator: " "))
    _ = readLine()
    repeat {
      // Longer than a store is ever left alone.
      clock.time += 60_000_000_000
      try fail(breaker)
    } while store.health != .connected && usleep(1_000) == 0
    say("back")
  }

  private static func say(_ line: String) {
    print(line)
    fflush(nil)
  }

  private static func store(
    in directory: String, _ clock: HandClock, _ timeout: Duration, group: String? = nil
  ) -> SharedStore {
    var options = StoreOptions(lockTimeout: timeout, program: "player", clock: clock.clock)
    if let group {
      options.group = group
      options.mode = 0o660
    }
    return SharedStore(path: directory + "/state/breakers.db", options: options)
  }

  private static func fail(_ breaker: Breaker) throws {
    do { try breaker.run { throw Boom() } } catch is Boom {} catch BreakerError.rejected {}
  }
}
