import BenchShim
import Glibc
import SharedBreaker
import TestSupport

/// Counts the system calls, allocations and commits of calls.
struct CostWatch {
  /// System calls in a million calls, without those that check the file.
  var systemCalls = Double.nan

  /// Checks of the file in a second.
  var looks = Double.nan
  var allocations = Double.nan

  /// Commits in the whole measurement.
  var commits = Double.nan

  /// The child that is observed.
  static func run(_ load: Load, in room: Room, for duration: Double) throws {
    let loop = try load.loop(in: room)
    // The costs of the first seconds with a store are not those of its calls.
    let settled = seconds() + 2.1
    while seconds() < settled { try loop(100) }
    let start = try Parent.awaitStart()
    while seconds() < start { usleep(100) }
    let begin = seconds()
    var calls = 0
    try SystemCalls.marked {
      bs_count_allocations(1)
      while seconds() < begin + duration {
        try loop(100)
        calls += 100
      }
      bs_count_allocations(0)
    }
    Parent.report([Double(calls), seconds() - begin, Double(bs_allocations())])
    // At its end the process writes what is pending, which is not a cost of its calls.
    Parent.awaitEnd()
  }

  /// Observes a child that makes such calls, with its own store, so that only the child commits.
  static func of(_ load: Load, in room: Room, for duration: Double) throws -> CostWatch {
    let own = try room.inner("costs-\(load.rawValue)")
    let trace = own.file("trace")
    let child = try SystemCalls.start(
      .costs, [load.rawValue, own.path, "\(duration)"], trace: trace)
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
    if SystemCalls.strace != nil {
      let names = try SystemCalls.stretches(inFile: trace).first ?? []
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
}

/// The system calls of a stretch of a program, which marks where the stretch begins and ends.
enum SystemCalls {
  static let strace: String? = ["/usr/bin/strace", "/usr/local/bin/strace", "/bin/strace"].first {
    unsafe access($0, X_OK) == 0
  }

  private static let begin = "/shared-breaker-bench-begins"
  private static let end = "/shared-breaker-bench-ends"

  /// Runs a body between the marks, which are system calls themselves.
  static func marked<Result>(_ body: () throws -> Result) rethrows -> Result {
    unsafe access(begin, F_OK)
    defer { unsafe access(end, F_OK) }
    return try body()
  }

  /// Starts a child of the benchmark that writes its system calls to a file, if strace is installed.
  static func start(_ role: Role, _ words: [String], trace: String) throws -> Child {
    guard let strace else { return try Children.start(role, words) }
    return try Child(
      strace, ["-f", "-qq", "-o", trace, Children.program, "child", role.rawValue] + words)
  }

  /// The names of the calls in each stretch of a trace.
  static func stretches(inFile path: String) throws -> [[Substring]] {
    let lines = String(decoding: try Files.read(path), as: UTF8.self).split(separator: "\n")
    var stretches: [[Substring]] = []
    var isInside = false
    for line in lines {
      if line.contains(begin) {
        stretches.append([])
        isInside = true
      } else if line.contains(end) {
        isInside = false
      } else if isInside {
        let call = line.drop { $0.isNumber || $0 == " " }
        // The rest of a call that another one has interrupted in the trace.
        if call.hasPrefix("<") { continue }
        stretches[stretches.count - 1].append(call.prefix { $0 != "(" })
      }
    }
    return stretches
  }
}
