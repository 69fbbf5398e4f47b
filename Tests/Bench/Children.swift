import BenchShim
import Glibc
import TestSupport

/// Other processes of the benchmark: this same program, in another role.
enum Children {
  static var program: String { BuiltProducts.path(of: "bench") }

  /// What a slow machine takes long for is a figure too.
  static let patienceMilliseconds: Int32 = 600_000

  static func start(_ role: Role, _ words: [String]) throws -> Child {
    try Child(
      program, ["child", role.rawValue] + words, patienceMilliseconds: patienceMilliseconds)
  }

  /// Lets all begin at the same instant, so that none has the machine to itself.
  static func begin(_ children: [Child]) throws {
    for child in children {
      guard try child.line() == "ready" else { throw BenchError("a child did not get ready") }
    }
    let start = seconds() + 0.02
    for child in children { try child.send("\(start)") }
  }

  /// What a child has found out.
  static func numbers(_ child: Child) throws -> [Double] {
    guard let line = try child.line() else { throw BenchError("a child failed") }
    return line.split(separator: " ").compactMap { Double($0) }
  }

  /// Runs several of the same kind side by side, and answers what each has found out.
  static func run(_ count: Int, _ role: Role, _ words: [String]) throws -> [[Double]] {
    let children = try (0..<count).map { _ in try start(role, words) }
    try begin(children)
    return try children.map { try numbers($0) }
  }
}

/// The child's own side of it.
enum Parent {
  /// Says that this process is ready, and answers the instant at which all begin.
  static func awaitStart() throws -> Double {
    say("ready")
    guard let line = readLine(), let start = Double(line) else { throw BenchError("left alone") }
    return start
  }

  static func report(_ numbers: [Double]) { say(numbers.map { "\($0)" }.joined(separator: " ")) }

  /// Keeps this process as it is until the parent has seen enough.
  static func awaitEnd() { while readLine() != nil {} }

  private static func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = unsafe write(1, bytes, bytes.count)
  }
}
