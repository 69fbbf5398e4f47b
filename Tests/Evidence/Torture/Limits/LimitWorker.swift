import Glibc
import SharedBreaker
import Synchronization
import TestShim
import TestSupport

/// A process that makes calls under a limit, from threads and from tasks.
final class LimitWorker: Sendable {
  private let socket: String
  private let path: String
  private let life: String
  private let seed: UInt64
  private let habits: [String]
  private let store: SharedStore
  private let breaker: Breaker
  private let calls = Atomic(0)

  /// Reads its words: the witness, the store, the name of this process, its seed, and its habits.
  init(_ words: [String]) throws {
    guard words.count >= 4, let seed = UInt64(words[3]) else { throw SupportError("too few words") }
    (socket, path, life) = (words[0], words[1], words[2])
    self.seed = seed
    habits = Array(words.dropFirst(4))
    (store, breaker) = try Self.open(path)
  }

  /// The breaker, which the phase has declared.
  ///
  /// A process that cannot use the store keeps to the limit alone, so a worker never gives it up.
  static func open(_ path: String) throws -> (SharedStore, Breaker) {
    let store = SharedStore(
      path: path, options: StoreOptions(lockTimeout: .seconds(600), onStoreFailure: .throw))
    return (store, try store.breaker("api"))
  }

  /// Works until the witness says that all is over.
  func run() async {
    if let last = Self.last(before: life) { testimony(of: life)?.tell("dead \(last)") }
    var random = SeededRandom(seed: seed)
    if has("fork") { await warmUp(&random) }
    let threads = Threads()
    for number in 0..<random.number(0...2) {
      let start = SeededRandom(seed: seed &+ UInt64(number))
      threads.start { [self] in
        var random = start
        while act(&random, isFirst: number == 0) {}
      }
    }
    await withTaskGroup { group in
      for number in 0..<random.number(1...4) {
        group.addTask { [self] in
          var random = SeededRandom(seed: seed &+ UInt64(100 + number))
          while await callInTask(&random) {}
        }
      }
    }
    threads.join()
    store.close()
  }

  /// Makes a call of each kind once, because Swift creates types at their first use, under a lock that a fork
  /// does not release.
  private func warmUp(_ random: inout SeededRandom) async {
    for kind in Self.kinds { _ = call(&random, as: life, kind) }
    _ = await callInTask(&random)
    if has("close") { store.close() }
  }

  private func act(_ random: inout SeededRandom, isFirst: Bool) -> Bool {
    switch random.number(0...59) {
    case 0...5 where has("close"): store.close()
    case 6...8 where has("fork"): fork(&random)
    case 9 where has("exec") && isFirst: becomeAnother()
    default: break
    }
    return call(&random, as: life)
  }

  private func has(_ habit: String) -> Bool { habits.contains(habit) }

  private func testimony(of life: String) -> Testimony? {
    let number = calls.add(1, ordering: .relaxed).newValue
    return Testimony(of: "\(life).\(number)", to: socket)
  }

  /// Whether the next call is one that is made again.
  private func isRetry(_ random: inout SeededRandom) -> Bool {
    has("retry") && random.number(0...1) == 0
  }

  private static func draw(_ random: inout SeededRandom) -> (units: Int, inBackground: Bool) {
    (random.pick([1, 1, 1, 2, 2, 3]), random.number(0...3) == 0)
  }

  /// How long a call takes, in microseconds.
  private static func duration(_ random: inout SeededRandom) -> Int {
    random.number(0...39) == 0 ? random.number(0...60_000) : random.number(0...5_000)
  }
}

/// Calls.
extension LimitWorker {
  private static let kinds = 0...3

  /// Makes a call from a thread, of any kind if none is named; false if all is over.
  private func call(
    _ random: inout SeededRandom, as life: String, _ kind: Int? = nil
  ) -> Bool {
    let (units, inBackground) = Self.draw(&random)
    let micros = UInt32(Self.duration(&random))
    let isRetry = isRetry(&random)
    guard let testimony = testimony(of: life),
      testimony.want(units, inBackground: inBackground, isRetry: isRetry)
    else { return false }
    let claimant = breaker.claiming(units: units, inBackground: inBackground)
    do {
      switch kind ?? random.number(Self.kinds) {
      case 0 where !isRetry:
        try claimant.run {
          testimony.hold()
          usleep(micros)
          testimony.leave()
        }
      case 1:
        let permit = try claimant.acquire(isRetry: isRetry)
        testimony.hold()
        usleep(micros)
        testimony.leave()
        permit.fail()
      case 2:
        // Dropped rather than reported.
        let permit = try claimant.acquire(isRetry: isRetry).shared()
        testimony.hold()
        usleep(micros)
        testimony.leave()
        withExtendedLifetime(permit) {}
      default:
        let permit = try claimant.acquire(isRetry: isRetry)
        testimony.hold()
        usleep(micros)
        testimony.leave()
        permit.succeed()
      }
      testimony.end("nothing")
    } catch {
      testimony.end(Self.answer(error))
    }
    return true
  }

  /// Makes a call from a task; false if all is over.
  private func callInTask(_ random: inout SeededRandom) async -> Bool {
    let (units, inBackground) = Self.draw(&random)
    let time = Duration.microseconds(Self.duration(&random))
    let patience = Duration.microseconds(random.number(0...40_000))
    let isCancelled = has("cancel") && random.number(0...2) == 0
    guard let testimony = testimony(of: life), testimony.want(units, inBackground: inBackground)
    else { return false }
    let claimant = breaker.claiming(units: units, inBackground: inBackground)
    let task = Task {
      do {
        try await claimant.run { () async throws in
          testimony.hold()
          defer { testimony.leave() }
          try await Task.sleep(for: time)
        }
        testimony.end("nothing")
      } catch {
        testimony.end(Self.answer(error))
      }
    }
    if isCancelled {
      try? await Task.sleep(for: patience)
      task.cancel()
    }
    await task.value
    return true
  }

  private static func answer(_ error: any Error) -> String {
    switch error {
    // A queue that is full is held too, and in a ramp.
    case BreakerError.rejected(_, let rejection) where rejection.cause != .open: "busy"
    case is CancellationError: "cancelled"
    default: "\(error)".split(separator: " ").joined(separator: "_")
    }
  }
}

/// Acts of processes in the midst of the calls of their other threads.
extension LimitWorker {
  /// Forks a child that makes some calls of its own.
  private func fork(_ random: inout SeededRandom) {
    let number = calls.add(1, ordering: .relaxed).newValue
    var random = SeededRandom(seed: random.next())
    let child = ts_fork()
    guard child == 0 else {
      var status: Int32 = 0
      while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
      if status != 0 {
        testimony(of: life)?.tell("odd the child of a fork ended with status \(status)")
      }
      return
    }
    ts_limit(600)
    for _ in 0..<random.number(1...6) where !call(&random, as: "\(life)/\(number)") { break }
    store.close()
    _exit(0)
  }

  /// Runs this program again in the same process, whatever its other threads are doing.
  private func becomeAnother() {
    let other = Self.next(after: life)
    guard let testimony = testimony(of: life), testimony.tell("replaced \(life)") else { return }
    let program = BuiltProducts.path(of: "torture")
    let words = [program, "limit-worker", socket, path, other, "\(seed &+ 1_000)"] + habits
    var arguments = unsafe words.map { unsafe strdup($0) } + [nil]
    unsafe execv(program, &arguments)
    testimony.tell("odd execv failed with \(errno)")
    _exit(1)
  }

  /// The name of the next program of a process, after its first one or a later one.
  private static func next(after life: String) -> String {
    let parts = life.split(separator: "x")
    return "\(parts[0])x\((parts.count > 1 ? Int(parts[1]) ?? 0 : 0) + 1)"
  }

  /// The name of the program before this one of a process; nil if this is its first one.
  private static func last(before life: String) -> String? {
    let parts = life.split(separator: "x")
    guard parts.count > 1, let number = Int(parts[1]) else { return nil }
    return number == 1 ? String(parts[0]) : "\(parts[0])x\(number - 1)"
  }
}

/// Callers that come one after the other.
extension LimitWorker {
  /// Makes one call: the words are the witness, the store, the call, its priority, and `task` if it is
  /// made from a task.
  static func wait(_ words: [String]) async throws {
    guard words.count == 5, let testimony = Testimony(of: words[2], to: words[0]) else {
      throw SupportError("too few words")
    }
    let (store, breaker) = try open(words[1])
    let claimant = breaker.claiming(
      units: LimitPhase.all, inBackground: words[3] == "background")
    if words[4] == "task" {
      try await claimant.run { () async throws in
        testimony.hold(); testimony.leave()
      }
    } else {
      try waitInThread(claimant, testimony)
    }
    testimony.end("nothing")
    store.close()
  }

  private static func waitInThread(_ claimant: Breaker, _ testimony: Testimony) throws {
    let permit = try claimant.acquire()
    testimony.hold()
    testimony.leave()
    permit.succeed()
  }
}
