import Glibc
import SharedBreaker

/// Many processes that write to one store at once.
enum Writers {
  /// What one writer did: how many writes, and the longest of them.
  struct Result {
    var writes: Int
    var longestMilliseconds: Double
  }

  enum Kind: String {
    case rawTimeout = "raw-timeout"
    case rawPauses = "raw-pauses"
    case breaker
  }

  /// Writes for a time, and prints what came of it: the whole of a child process.
  static func write(_ kind: Kind, path: String, from start: Double, for duration: Double) throws {
    let write = try writer(kind, path)
    try write()
    // All wait for the same moment, so that none has the store to itself.
    while seconds() < start { usleep(200) }
    var result = Result(writes: 0, longestMilliseconds: 0)
    var now = start
    while now < start + duration {
      try write()
      let after = seconds()
      result.longestMilliseconds = max(result.longestMilliseconds, (after - now) * 1e3)
      result.writes += 1
      now = after
    }
    print(result.writes, result.longestMilliseconds)
  }

  private static func writer(_ kind: Kind, _ path: String) throws -> () throws -> Void {
    switch kind {
    case .rawTimeout: return try RawStore(path, waiting: .timeout).increment
    case .rawPauses: return try RawStore(path, waiting: .pauses).increment
    case .breaker: return try failing(SharedStore(path: path))
    }
  }

  /// A failure recorded, that does not open the breaker.
  static func failing(_ store: SharedStore) throws -> () throws -> Void {
    let breaker = try store.breaker(
      "failing", policy: BreakerPolicy(maxFailures: 1_000_000), onStoreFailure: .throw)
    let failure = Failure(error: "connection refused")
    return { try breaker.acquire().fail(failure) }
  }

  /// Runs children side by side.
  static func run(_ kind: Kind, processes: Int, path: String, for duration: Double) throws
    -> [Result]
  {
    // Made beforehand: those who change a journal mode at once do not wait for one another.
    if kind != .breaker { _ = try RawStore(path, waiting: .timeout) }
    let start = seconds() + 0.3
    let words = "\(kind.rawValue) \(path) \(start) \(duration)"
    let pipes = unsafe (0..<processes).map { _ in
      unsafe popen("/proc/\(getpid())/exe write \(words)", "r")
    }
    return try unsafe pipes.map { pipe in
      guard let pipe = unsafe pipe else { throw BenchError("cannot start a writer") }
      var line = [CChar](repeating: 0, count: 256)
      let didRead = unsafe fgets(&line, 256, pipe) != nil
      unsafe pclose(pipe)
      let text = String(
        decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      let words = text.split(whereSeparator: \.isWhitespace)
      guard didRead, words.count == 2, let writes = Int(words[0]), let longest = Double(words[1])
      else { throw BenchError("a writer failed") }
      return Result(writes: writes, longestMilliseconds: longest)
    }
  }
}
