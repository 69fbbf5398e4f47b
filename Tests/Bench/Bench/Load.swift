import BenchShim
import Glibc
import SharedBreaker
import Synchronization

/// A load to measure, by the name that a child process receives.
enum Load: String {
  case bare, atomic, boot, coarse
  case consecutive, window, last, slow
  case bareAwait = "bare-await"
  case awaited
  case bareActor = "bare-actor"
  case actor
  case decided, thrown
  case rawTimeout = "raw-timeout"
  case raw, failure
  case library = "c-library"
  case libraryRejected = "c-library-rejected"
  case limited, rated, busy, semaphore
  case limitedPermit = "limited-permit"
  case fileLock = "file-lock"

  /// The loop of the load, with a store and a connection of its own.
  func loop(in room: Room) throws -> Loop { try loop(in: room, on: room.openStore()) }

  /// The loop of the load, with a store that other loops use too.
  func loop(in room: Room, on store: SharedStore) throws -> Loop {
    switch self {
    case .bare, .atomic, .boot, .coarse: return bareLoop
    case .consecutive, .window, .last, .slow, .limited, .rated:
      return HealthyLoops.calls(try breaker(of: store))
    case .bareAwait: return AsynchronousLoops.bare
    case .bareActor: return AsynchronousLoops.bareOnActor
    case .awaited:
      return AsynchronousLoops.calls(try store.breaker("awaited", policy: consecutivePolicy))
    case .actor:
      return AsynchronousLoops.callsOnActor(
        try store.breaker("actor", policy: consecutivePolicy))
    case .library: return try LibraryLoops.calls(in: room)
    case .libraryRejected: return try LibraryLoops.rejectedCalls(in: room)
    case .decided: return RejectionLoops.decided(try openBreaker(of: store))
    case .thrown: return RejectionLoops.thrown(try openBreaker(of: store))
    case .rawTimeout:
      let raw = try RawStore(room.file("raw-timeout.db"), waiting: .timeout)
      return { count in for _ in 0..<count { try raw.increment() } }
    case .raw:
      let raw = try RawStore(room.file("raw.db"), waiting: .likeLibrary)
      return { count in for _ in 0..<count { try raw.increment() } }
    case .limitedPermit: return LimitLoops.permits(try breaker(of: store))
    case .busy: return try LimitLoops.busy(try breaker(of: store))
    case .semaphore: return LimitLoops.semaphore
    case .fileLock: return LimitLoops.fileLock(in: room)
    case .failure:
      return FailureLoops.failures(try FailureLoops.breaker("failing", of: store))
    }
  }

  private var consecutivePolicy: BreakerPolicy { BreakerPolicy(maxFailures: 5) }

  private func breaker(of store: SharedStore) throws -> Breaker {
    let policy =
      switch self {
      case .window: BreakerPolicy(failureRate: 0.5, window: .seconds(60))
      case .last: BreakerPolicy(failureRate: 0.5, last: 100)
      case .slow: BreakerPolicy(slowRate: 0.5, slowAfter: .seconds(1), window: .seconds(60))
      case .limited, .limitedPermit: BreakerPolicy(maxFailures: 5, maxConcurrent: 4)
      // Each instant is old enough by the time its turn comes, so that there is always room.
      case .rated: BreakerPolicy(maxFailures: 5, rate: .calls(65_536, per: .microseconds(1)))
      case .busy: BreakerPolicy(maxFailures: 5, maxConcurrent: 1)
      default: consecutivePolicy
      }
    return try store.breaker(rawValue, policy: policy, onStoreFailure: .throw)
  }

  private func openBreaker(of store: SharedStore) throws -> Breaker {
    let breaker = try store.breaker(rawValue, policy: consecutivePolicy, onStoreFailure: .throw)
    try breaker.trip(for: .seconds(86_400))
    return breaker
  }
}

/// The floors of calls.
extension Load {
  var bareLoop: Loop {
    switch self {
    case .atomic:
      let counter = Counter()
      return { count in for _ in 0..<count { counter.value.add(1, ordering: .relaxed) } }
    case .boot: return { count in Self.read(CLOCK_BOOTTIME, count) }
    case .coarse: return { count in Self.read(CLOCK_MONOTONIC_COARSE, count) }
    default:
      return { count in
        var counter = 0
        for _ in 0..<count { Self.run { work(&counter) } }
      }
    }
  }

  /// Calls a closure, as everything does that runs a caller's work.
  @inline(never) private static func run(_ body: () -> Void) { body() }

  private static func read(_ clock: clockid_t, _ count: Int) {
    var time = timespec()
    for _ in 0..<count { unsafe clock_gettime(clock, &time) }
  }

  private final class Counter: Sendable {
    let value = Atomic<Int>(0)
  }
}

enum HealthyLoops {
  static func calls(_ breaker: Breaker) -> Loop {
    { count in
      var counter = 0
      for _ in 0..<count { try breaker.run { work(&counter) } }
    }
  }
}

/// Calls from C, through the C library that the script has built.
enum LibraryLoops {
  static func calls(in room: Room) throws -> Loop {
    nonisolated(unsafe) let library = try unsafe open("c", in: room)
    return { count in try check(unsafe bs_library_calls(library, Int64(count))) }
  }

  static func rejectedCalls(in room: Room) throws -> Loop {
    nonisolated(unsafe) let library = try unsafe open("c-rejected", in: room)
    guard unsafe bs_library_trip(library) == 0 else { throw BenchError("C could not trip") }
    return { count in try check(unsafe bs_library_rejections(library, Int64(count))) }
  }

  /// Opens the library, whose calls are made by one thread.
  private static func open(_ name: String, in room: Room) throws -> UnsafeMutableRawPointer {
    guard let path = unsafe getenv("SHARED_BREAKER_LIBRARY").map({ unsafe String(cString: $0) }),
      let opened = unsafe bs_library_open(path, room.file("\(name).db"))
    else { throw BenchError("left out: there is no C library: start it with scripts/bench") }
    return unsafe opened
  }

  private static func check(_ wrong: Int64) throws {
    if wrong > 0 { throw BenchError("\(wrong) calls from C went wrong") }
  }
}

enum RejectionLoops {
  static func decided(_ breaker: Breaker) -> Loop {
    { count in
      for _ in 0..<count {
        if case .permitted = try breaker.decide() { throw BenchError("let through") }
      }
    }
  }

  static func thrown(_ breaker: Breaker) -> Loop {
    { count in
      for _ in 0..<count {
        do {
          try breaker.run {}
          throw BenchError("let through")
        } catch is BreakerError {}
      }
    }
  }
}

enum FailureLoops {
  /// Returns a breaker that the failures of one figure do not open.
  static func breaker(_ name: String, of store: SharedStore) throws -> Breaker {
    let policy = BreakerPolicy(maxFailures: 1_000_000)
    return try store.breaker(name, policy: policy, onStoreFailure: .throw)
  }

  static func failures(_ breaker: Breaker) -> Loop {
    let error = "connection refused"
    return { count in for _ in 0..<count { try breaker.acquire().fail(error: error) } }
  }
}

enum AsynchronousLoops {
  static func bare(_ count: Int) throws {
    try waiting {
      var counter = 0
      for _ in 0..<count { await asynchronousWork(&counter) }
    }
  }

  static func calls(_ breaker: Breaker) -> Loop {
    { count in
      try waiting {
        var counter = 0
        for _ in 0..<count { try await breaker.run { await asynchronousWork(&counter) } }
      }
    }
  }

  static func bareOnActor(_ count: Int) throws { try waiting { await Caller().call(count) } }

  static func callsOnActor(_ breaker: Breaker) -> Loop {
    { count in try waiting { try await Caller().call(count, through: breaker) } }
  }

  /// A caller with an executor of its own, on which it stays.
  private actor Caller {
    func call(_ count: Int) async {
      var counter = 0
      for _ in 0..<count { await asynchronousWork(&counter) }
    }

    func call(_ count: Int, through breaker: Breaker) async throws {
      var counter = 0
      for _ in 0..<count { try await breaker.run { await asynchronousWork(&counter) } }
    }
  }
}

/// Does next to nothing, but cannot be inlined by the optimizer.
@inline(never) func work(_ counter: inout Int) { counter &+= 1 }

@inline(never) func asynchronousWork(_ counter: inout Int) async { counter &+= 1 }

/// Runs asynchronous code to its end, because figures are measured one after the other.
func waiting(_ body: @escaping @Sendable () async throws -> Void) throws {
  nonisolated(unsafe) var result: Result<Void, any Error> = .failure(BenchError("did not end"))
  nonisolated(unsafe) var semaphore = sem_t()
  unsafe sem_init(&semaphore, 0, 0)
  Task.detached {
    do { unsafe result = .success(try await body()) } catch { unsafe result = .failure(error) }
    unsafe sem_post(&semaphore)
  }
  while unsafe sem_wait(&semaphore) != 0 {}
  try unsafe result.get()
}
