import BenchShim
import Glibc
import TestSupport

/// Other processes of the benchmark, which run this program in another role.
enum Children {
  static var program: String { BuiltProducts.path(of: "bench") }

  /// Long, because a slow machine's figures are of interest too.
  static let patienceMilliseconds: Int32 = 600_000

  static func start(_ role: Role, _ words: [String]) throws -> Child {
    try Child(
      program, ["child", role.rawValue] + words, patienceMilliseconds: patienceMilliseconds)
  }

  /// Lets all children begin at the same instant, so that none has the machine to itself.
  static func begin(_ children: [Child]) throws {
    for child in children {
      guard try child.line() == "ready" else { throw BenchError("a child did not get ready") }
    }
    let start = seconds() + 0.02
    for child in children { try child.send("\(start)") }
  }

  /// The numbers that a child reports.
  static func numbers(_ child: Child) throws -> [Double] {
    guard let line = try child.line() else { throw BenchError("a child failed") }
    return line.split(separator: " ").compactMap { Double($0) }
  }

  /// Runs several children of one kind side by side, and returns what each reports.
  static func run(_ count: Int, _ role: Role, _ words: [String]) throws -> [[Double]] {
    let children = try (0..<count).map { _ in try start(role, words) }
    try begin(children)
    return try children.map { try numbers($0) }
  }
}

/// The child's side.
enum Parent {
  /// Reports that this process is ready, and returns the instant at which all children begin.
  static func awaitStart() throws -> Double {
    say("ready")
    guard let line = readLine(), let start = Double(line) else { throw BenchError("left alone") }
    return start
  }

  static func report(_ numbers: [Double]) { say(numbers.map { "\($0)" }.joined(separator: " ")) }

  /// Waits, without changing anything, until the parent has finished looking at this process.
  static func awaitEnd() { while readLine() != nil {} }

  private static func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = unsafe write(1, bytes, bytes.count)
  }
}
