import BenchShim
import Glibc
import SharedBreaker
import TestSupport

/// What calls cost in system calls, allocations and commits.
struct CostWatch {
  /// System calls in a million calls, without those that check the file.
  var systemCalls = Double.nan

  /// Checks of the file in a second.
  var looks = Double.nan
  var allocations = Double.nan

  /// Commits in the whole measurement.
  var commits = Double.nan

  private static let begin = "/shared-breaker-bench-begins"
  private static let end = "/shared-breaker-bench-ends"

  /// The child that is observed.
  static func run(_ load: Load, in room: Room, for duration: Double) throws {
    let loop = try load.loop(in: room)
    // The costs of the first seconds with a store are not those of its calls.
    let settled = seconds() + 2.1
    while seconds() < settled { try loop(100) }
    let start = try Parent.awaitStart()
    while seconds() < start { usleep(100) }
    // The two marks delimit the calls in the trace.
    unsafe access(begin, F_OK)
    bs_count_allocations(1)
    let begin = seconds()
    var calls = 0
    while seconds() < begin + duration {
      try loop(100)
      calls += 100
    }
    bs_count_allocations(0)
    unsafe access(end, F_OK)
    Parent.report([Double(calls), seconds() - begin, Double(bs_allocations())])
    // At its end the process writes what is pending, which is not a cost of its calls.
    Parent.awaitEnd()
  }

  static let strace: String? = ["/usr/bin/strace", "/usr/local/bin/strace", "/bin/strace"].first {
    unsafe access($0, X_OK) == 0
  }

  /// Observes a child that makes such calls, with its own store, so that only the child commits.
  static func of(_ load: Load, in room: Room, for duration: Double) throws -> CostWatch {
    let own = try room.inner("costs-\(load.rawValue)")
    let words = ["child", Role.costs.rawValue, load.rawValue, own.path, "\(duration)"]
    let trace = own.file("trace")
    let child =
      try strace.map {
        try Child($0, ["-f", "-qq", "-o", trace, Children.program] + words)
      } ?? Child(Children.program, words)
    guard try child.line() == "ready" else { throw BenchError("a child did not get ready") }
    let before = try commits(of: own.store)
    try child.send("\(seconds() + 0.01)")
    let numbers = try Children.numbers(child)
    let after = try commits(of: own.store)
    child.kill()
    guard numbers.count == 3 else { throw BenchError("a child failed") }
    var costs = CostWatch()
    let millions = numbers[0] / 1e6
    costs.allocations = numbers[2] / millions
    costs.commits = Double(after &- before)
    if strace != nil {
      let names = systemCalls(in: String(decoding: try Files.read(trace), as: UTF8.self))
      let looks = names.count { ["stat", "lstat", "newfstatat", "statx"].contains($0) }
      costs.systemCalls = Double(names.count - looks) / millions
      costs.looks = Double(looks) / numbers[1]
    }
    return costs
  }

  /// The number of commits, from the counter in the header of the log's index.
  ///
  /// Each commit raises it (sqlite.org/walformat.html). Closing a file drops the locks of the
  /// process on it, but this process has none on that file.
  private static func commits(of store: String) throws -> UInt32 {
    let bytes = try Files.read(store + "-shm")
    guard bytes.count >= 12 else { throw BenchError("no index of the log at \(store)") }
    return bytes[8..<12].reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// The names of the system calls between the marks of a trace.
  private static func systemCalls(in trace: String) -> [Substring] {
    let lines = trace.split(separator: "\n")
    guard let first = lines.firstIndex(where: { $0.contains(begin) }),
      let last = lines.lastIndex(where: { $0.contains(end) })
    else { return [] }
    return lines[(first + 1)..<last].compactMap { line in
      let call = line.drop { $0.isNumber || $0 == " " }
      return call.hasPrefix("<") ? nil : call.prefix { $0 != "(" }
    }
  }
}
